/* SPDX-License-Identifier: Apache-2.0 */
#include "made_from.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../text/json.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "../text/table.h"

/* How many files of a result are listed; JSON has all. */
enum { LISTED_MAX = 10 };

/* ---- reading ---- */

static int add_read(void *user, const kiln_nvrtc_read *read)
{
    made_from_result *result = user;
    result->reads =
        array_grown(result->reads, result->count, &result->capacity, sizeof *result->reads);
    result->reads[result->count++] = *read;
    result->changed += read->now == KILN_MISS;
    result->unknown += read->now == KILN_E_UNSUPPORTED;
    return 0;
}

made_from_reading made_from_read(const kiln_entry *entry)
{
    made_from_reading made = {0};
    kiln_status status;
    do {
        made_from_result result = {0};
        status = kiln_nvrtc_each_read(entry, made.count, add_read, &result);
        if (status == KILN_OK) {
            made.results = must(realloc(made.results, (made.count + 1) * sizeof *made.results));
            made.results[made.count++] = result;
        } else {
            free(result.reads);
        }
    } while (status == KILN_OK);
    if (status != KILN_MISS && status != KILN_E_UNSUPPORTED) {
        complain("the files that the entry was made from can't be read: %s",
                 kiln_status_text(status));
    }
    return made;
}

void made_from_free(made_from_reading *made)
{
    for (size_t i = 0; i < made->count; i++) {
        free(made->results[i].reads);
    }
    free(made->results);
    *made = (made_from_reading){0};
}

/* ---- text ---- */

static const kiln_nvrtc_read *find_first(const made_from_result *result, kiln_status now)
{
    size_t i = 0;
    while (i < result->count && result->reads[i].now != now) {
        i++;
    }
    return i < result->count ? &result->reads[i] : NULL;
}

char *made_from_state(const made_from_result *result)
{
    const kiln_nvrtc_read *changed = find_first(result, KILN_MISS);
    const kiln_nvrtc_read *unknown = find_first(result, KILN_E_UNSUPPORTED);
    if (changed != NULL) {
        return result->changed == 1
                   ? text_of("%s has changed", changed->path)
                   : text_of("%s and %zu more have changed", changed->path, result->changed - 1);
    }
    if (unknown == NULL) {
        return text_of("all files are unchanged");
    }
    if (unknown->found == KILN_NVRTC_PROGRAM_FOLDER) {
        return text_of("only for a program in %s", unknown->path);
    }
    return text_of("all files are unchanged, except %zu that can't be looked up here",
                   result->unknown);
}

static bool counts_from_here(const kiln_nvrtc_read *read)
{
    return read->now == KILN_MISS && !read->counts_from_program && read->path[0] != '/';
}

void made_from_print_place(const made_from_reading *made)
{
    bool is_any = false;
    for (size_t i = 0; i < made->count; i++) {
        for (size_t r = 0; r < made->results[i].count; r++) {
            is_any |= counts_from_here(&made->results[i].reads[r]);
        }
    }
    char here[PATH_MAX];
    if (is_any && getcwd(here, sizeof here) != NULL) {
        char *line = text_of("relative paths were looked up from %s\n", here);
        print_lines(line);
        free(line);
    }
}

static void add_row(struct libscols_table *table, const kiln_nvrtc_read *read)
{
    static const char *const found[] = {
        [KILN_NVRTC_FOUND_NOTHING] = "nothing",
        [KILN_NVRTC_FOUND_FOLDER] = "a folder",
        [KILN_NVRTC_FOUND_LINK] = "a link",
        [KILN_NVRTC_PROGRAM_FOLDER] = "the program's folder",
    };
    char size[UNIT_TEXT_SIZE];
    format_size(read->size, size);
    char *path =
        text_of("%s%s", read->path, read->counts_from_program ? " (beside the program)" : "");
    struct libscols_line *row = table_add_row(table);
    row_set(row, 0, path);
    row_set(row, 1, read->found == KILN_NVRTC_FOUND_FILE ? size : found[read->found]);
    row_set(row, 2, read->now == KILN_OK ? "same" : read->now == KILN_MISS ? "changed" : "?");
    row_set_colour(row, 2, read->now == KILN_MISS ? COLOUR_WARNING : COLOUR_NONE);
    free(path);
}

/* Adds up to @room files whose state is @now. Returns how many it added. */
static size_t add_rows(struct libscols_table *table, const made_from_result *result,
                       kiln_status now, size_t room)
{
    size_t added = 0;
    for (size_t i = 0; i < result->count && added < room; i++) {
        const kiln_nvrtc_read *read = &result->reads[i];
        if (read->now == now && (now != KILN_OK || read->found == KILN_NVRTC_FOUND_FILE)) {
            add_row(table, read);
            added++;
        }
    }
    return added;
}

static void print_files(const made_from_result *result)
{
    struct libscols_table *table = table_new();
    table_add_column(table, "LOOKED AT", COLUMN_LONG_TEXT);
    table_add_column(table, "FOUND", COLUMN_TEXT);
    table_add_column(table, "NOW", COLUMN_TEXT);
    size_t listed = add_rows(table, result, KILN_MISS, LISTED_MAX);
    listed += add_rows(table, result, KILN_E_UNSUPPORTED, LISTED_MAX - listed);
    listed += add_rows(table, result, KILN_OK, LISTED_MAX - listed);
    table_print(table);
    if (listed < result->count) {
        printf("%zu more are listed with --json\n", result->count - listed);
    }
}

static void print_result(const made_from_reading *made, size_t index)
{
    const made_from_result *result = &made->results[index];
    size_t files = 0, absent = 0;
    for (size_t i = 0; i < result->count; i++) {
        files += result->reads[i].found == KILN_NVRTC_FOUND_FILE;
        absent += result->reads[i].found == KILN_NVRTC_FOUND_NOTHING;
    }
    char *state = made_from_state(result);
    char *title = text_of("\nresult %zu of %zu: %zu %s read, %zu %s not found; %s\n", index + 1,
                          made->count, files, noun_of(files, "file", "files"), absent,
                          noun_of(absent, "path", "paths"), state);
    print_lines(title);
    free(title);
    free(state);
    if (result->count > 0) {
        print_files(result);
    }
}

void made_from_print(const made_from_reading *made)
{
    for (size_t i = 0; i < made->count; i++) {
        print_result(made, i);
    }
    made_from_print_place(made);
}

/* ---- JSON ---- */

static json_t *read_to_json(const kiln_nvrtc_read *read)
{
    static const char *const found[] = {
        [KILN_NVRTC_FOUND_NOTHING] = "nothing",         [KILN_NVRTC_FOUND_FILE] = "file",
        [KILN_NVRTC_FOUND_FOLDER] = "folder",           [KILN_NVRTC_FOUND_LINK] = "link",
        [KILN_NVRTC_PROGRAM_FOLDER] = "program_folder",
    };
    const bool is_file = read->found == KILN_NVRTC_FOUND_FILE;
    json_t *object = must(json_object());
    json_add(object, "path", json_text_or_null(read->path));
    json_add(object, "beside_program", json_boolean(read->counts_from_program));
    json_add(object, "found", json_text_or_null(found[read->found]));
    json_add(object, "size", is_file ? json_number(read->size) : json_null());
    json_add(object, "same",
             read->now == KILN_E_UNSUPPORTED ? json_null() : json_boolean(read->now == KILN_OK));
    return object;
}

static json_t *result_to_json(const made_from_result *result, bool all)
{
    json_t *reads = must(json_array());
    for (size_t i = 0; i < result->count; i++) {
        if (all || result->reads[i].now != KILN_OK) {
            json_push(reads, read_to_json(&result->reads[i]));
        }
    }
    const bool is_known = result->changed > 0 || result->unknown == 0;
    json_t *object = must(json_object());
    json_add(object, "same", is_known ? json_boolean(result->changed == 0) : json_null());
    json_add(object, "reads", reads);
    return object;
}

json_t *made_from_to_json(const made_from_reading *made, bool all)
{
    json_t *results = must(json_array());
    for (size_t i = 0; i < made->count; i++) {
        json_push(results, result_to_json(&made->results[i], all));
    }
    return results;
}
