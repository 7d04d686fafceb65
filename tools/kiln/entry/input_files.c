/* SPDX-License-Identifier: Apache-2.0 */
#include "input_files.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <kiln/nvrtc.h>
#include <kiln/opencl.h>

#include "../text/json.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "../text/table.h"
#include "../text/units.h"

/* The maximum number of files that are listed for a result in the text output. The JSON output
 * lists all files. */
enum { LISTED_MAX = 10 };

/* ---- reading ---- */

/* Returns true if the result already has a read of the same path whose answer has changed. A
 * compiler can look up a path in several ways, and the answer to each look-up can change. */
static bool has_changed_path(const input_files_result *result, const kiln_read *like)
{
    bool has = false;
    for (size_t i = 0; i < result->count && !has; i++) {
        const kiln_read *read = &result->reads[i];
        has = read->now == KILN_MISS && read->relative_to_program == like->relative_to_program &&
              strcmp(read->path, like->path) == 0;
    }
    return has;
}

static int add_read(void *user, const kiln_read *read)
{
    input_files_result *result = user;
    result->changed += read->now == KILN_MISS && !has_changed_path(result, read);
    result->reads =
        array_grown(result->reads, result->count, &result->capacity, sizeof *result->reads);
    result->reads[result->count++] = *read;
    result->unknown += read->now == KILN_E_UNSUPPORTED;
    return 0;
}

static kiln_status each_read(const kiln_entry *entry, size_t index, input_files_result *result)
{
    const kiln_status status = kiln_opencl_each_read(entry, index, add_read, result);
    return status == KILN_E_UNSUPPORTED ? kiln_nvrtc_each_read(entry, index, add_read, result)
                                        : status;
}

input_files_reading input_files_read(const kiln_entry *entry)
{
    input_files_reading made = {0};
    kiln_status status;
    do {
        input_files_result result = {0};
        status = each_read(entry, made.count, &result);
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

void input_files_free(input_files_reading *made)
{
    for (size_t i = 0; i < made->count; i++) {
        free(made->results[i].reads);
    }
    free(made->results);
    *made = (input_files_reading){0};
}

/* ---- text ---- */

static bool is_folder_of_result(const kiln_read *read)
{
    return read->found == KILN_ONLY_FOR_PROGRAM_IN || read->found == KILN_ONLY_FOR_PROCESS_IN;
}

/* Returns the first read whose state is @now. If @is_folder is true, considers only reads that name
 * the only folder in which the result is valid. If it is false, considers only reads of paths.
 * Returns NULL if there is no such read. */
static const kiln_read *find_first(const input_files_result *result, kiln_status now,
                                   bool is_folder)
{
    size_t i = 0;
    while (i < result->count &&
           (result->reads[i].now != now || is_folder_of_result(&result->reads[i]) != is_folder)) {
        i++;
    }
    return i < result->count ? &result->reads[i] : NULL;
}

static char *folder_state(const kiln_read *folder)
{
    return text_of("only %s %s",
                   folder->found == KILN_ONLY_FOR_PROGRAM_IN ? "for a program in"
                                                             : "in the working directory",
                   folder->path);
}

/* Returns a word for what happened to a path that has changed. */
static const char *name_change(const kiln_read *read)
{
    return read->found == KILN_FOUND_NOTHING       ? "appeared"
           : read->found_now == KILN_FOUND_NOTHING ? "vanished"
                                                   : "changed";
}

static char *changed_state(const input_files_result *result, const kiln_read *first)
{
    const size_t others = result->changed - 1;
    return others == 0
               ? text_of("%s has %s", first->path, name_change(first))
               : text_of("%s has %s, and %zu more %s changed", first->path, name_change(first),
                         others, noun_of(others, "path has", "paths have"));
}

char *input_files_state(const input_files_result *result)
{
    const kiln_read *other_folder = find_first(result, KILN_MISS, true);
    const kiln_read *unknown_folder = find_first(result, KILN_E_UNSUPPORTED, true);
    const kiln_read *changed = find_first(result, KILN_MISS, false);
    if (other_folder != NULL) {
        return folder_state(other_folder);
    }
    if (changed != NULL) {
        return changed_state(result, changed);
    }
    if (unknown_folder != NULL) {
        return folder_state(unknown_folder);
    }
    return result->unknown == 0
               ? text_of("all files are unchanged")
               : text_of("all files are unchanged, except %zu that can't be looked up here",
                         result->unknown);
}

static bool counts_from_here(const kiln_read *read)
{
    return read->now == KILN_MISS && !read->relative_to_program && read->path[0] != '/';
}

void input_files_print_place(const input_files_reading *made)
{
    bool is_any = false;
    for (size_t i = 0; i < made->count; i++) {
        for (size_t r = 0; r < made->results[i].count; r++) {
            is_any |= counts_from_here(&made->results[i].reads[r]);
        }
    }
    char here[PATH_MAX];
    if (is_any && getcwd(here, sizeof here) != NULL) {
        owned char *line = text_of("relative paths were looked up from %s\n", here);
        print_lines(line);
    }
}

static void add_row(struct table *table, const kiln_read *read)
{
    static const char *const found[] = {
        [KILN_FOUND_NOTHING] = "nothing",
        [KILN_FOUND_FOLDER] = "a folder",
        [KILN_FOUND_LINK] = "a link",
        [KILN_ONLY_FOR_PROGRAM_IN] = "the program's folder",
        [KILN_ONLY_FOR_PROCESS_IN] = "the working directory",
    };
    char size[UNIT_TEXT_SIZE];
    owned char *path =
        text_of("%s%s", read->path, read->relative_to_program ? " (beside the program)" : "");
    struct table_row *row = table_add_row(table);
    row_set(row, 0, path);
    row_set(row, 1,
            read->found == KILN_FOUND_FILE ? format_size(read->size, size) : found[read->found]);
    row_set(row, 2,
            read->now == KILN_OK     ? "same"
            : read->now == KILN_MISS ? name_change(read)
                                     : "?");
    row_set_colour(row, 2, read->now == KILN_MISS ? COLOUR_WARNING : COLOUR_NONE);
}

/* Adds up to @room files whose state is @now. Returns how many it added. */
static size_t add_rows(struct table *table, const input_files_result *result, kiln_status now,
                       size_t room)
{
    size_t added = 0;
    for (size_t i = 0; i < result->count && added < room; i++) {
        const kiln_read *read = &result->reads[i];
        if (read->now == now && (now != KILN_OK || read->found == KILN_FOUND_FILE)) {
            add_row(table, read);
            added++;
        }
    }
    return added;
}

static void print_files(const input_files_result *result)
{
    struct table *table = table_new();
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

static void print_result(const input_files_reading *made, size_t index)
{
    const input_files_result *result = &made->results[index];
    size_t files = 0, absent = 0;
    for (size_t i = 0; i < result->count; i++) {
        files += result->reads[i].found == KILN_FOUND_FILE;
        absent += result->reads[i].found == KILN_FOUND_NOTHING;
    }
    owned char *state = input_files_state(result);
    owned char *title = text_of("\nresult %zu of %zu: %zu %s read, %zu %s not found; %s\n",
                                index + 1, made->count, files, noun_of(files, "file", "files"),
                                absent, noun_of(absent, "path", "paths"), state);
    print_lines(title);
    if (result->count > 0) {
        print_files(result);
    }
}

void input_files_print(const input_files_reading *made)
{
    for (size_t i = 0; i < made->count; i++) {
        print_result(made, i);
    }
    input_files_print_place(made);
}

/* ---- JSON ---- */

static json_t *read_to_json(const kiln_read *read)
{
    static const char *const found[] = {
        [KILN_FOUND_NOTHING] = "nothing",
        [KILN_FOUND_FILE] = "file",
        [KILN_FOUND_FOLDER] = "folder",
        [KILN_FOUND_LINK] = "link",
        [KILN_ONLY_FOR_PROGRAM_IN] = "program_folder",
        [KILN_ONLY_FOR_PROCESS_IN] = "working_directory",
    };
    const bool is_known = read->found_now != 0;
    const bool is_file = read->found == KILN_FOUND_FILE;
    json_t *object = must(json_object());
    json_add(object, "path", json_text_or_null(read->path));
    json_add(object, "beside_program", json_boolean(read->relative_to_program));
    json_add(object, "found", json_text_or_null(found[read->found]));
    json_add(object, "found_now",
             is_known ? json_text_or_null(found[read->found_now]) : json_null());
    json_add(object, "size", is_file ? json_number(read->size) : json_null());
    json_add(object, "same",
             read->now == KILN_E_UNSUPPORTED ? json_null() : json_boolean(read->now == KILN_OK));
    return object;
}

static json_t *result_to_json(const input_files_result *result, bool all)
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

json_t *input_files_to_json(const input_files_reading *made, bool all)
{
    json_t *results = must(json_array());
    for (size_t i = 0; i < made->count; i++) {
        json_push(results, result_to_json(&made->results[i], all));
    }
    return results;
}
