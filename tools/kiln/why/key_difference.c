/* SPDX-License-Identifier: Apache-2.0 */
#include "key_difference.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../entry/key_part.h"
#include "../text/escape.h"
#include "../text/json.h"
#include "../text/memory.h"
#include "../text/table.h"
#include "key_pairs.h"

/* The maximum number of bytes of a line that are shown, and the maximum number of those that are
 * before the first difference. */
#define EXCERPT_MAX 60u
#define EXCERPT_BEFORE 20u

/* How many files of each driver are named. */
#define FILES_NAMED 3

static const char *const change_names[] = {
    [KILN_KEY_CHANGED] = "changed",
    [KILN_KEY_ADDED] = "added",
    [KILN_KEY_REMOVED] = "removed",
};

static bool has_lines(const kiln_key_part *part)
{
    return key_part_is_text(part) && part->size > 0 && memchr(part->bytes, '\n', part->size);
}

/* Returns true if both parts are texts, and are compared line by line. Short texts are shown in
 * full instead. */
static bool are_comparable(const kiln_key_part *there, const kiln_key_part *wanted)
{
    return there != NULL && wanted != NULL && key_part_is_text(there) && key_part_is_text(wanted) &&
           !(key_part_is_short(there) && key_part_is_short(wanted));
}

/* The first difference of two texts. */
typedef struct part_place {
    size_t offset;     /* position of the first byte that differs */
    size_t line_start; /* position of the start of the line with that byte */
    uint64_t line;     /* counted from 1 */
} part_place;

static part_place find_difference(const kiln_key_part *a, const kiln_key_part *b)
{
    const char *first = a->bytes;
    const char *second = b->bytes;
    const size_t shorter = a->size < b->size ? a->size : b->size;
    part_place place = {.line = 1};
    while (place.offset < shorter && first[place.offset] == second[place.offset]) {
        if (first[place.offset++] == '\n') {
            place.line++;
            place.line_start = place.offset;
        }
    }
    return place;
}

/* Returns the text of one part at @place, which is a piece of a line; the caller frees it. The
 * line's end is a part of the text if it is what differs. */
static char *excerpt(const kiln_key_part *part, const part_place *place)
{
    const char *bytes = part->bytes;
    if (place->offset >= part->size && place->offset == place->line_start) {
        return text_of("(end of text)");
    }
    size_t start = place->line_start;
    if (place->offset - start > EXCERPT_BEFORE) {
        start = place->offset - EXCERPT_BEFORE;
    }
    size_t length = part->size - start;
    if (length > 0) {
        const char *end = memchr(bytes + start, '\n', length);
        length = end == NULL ? length : (size_t)(end - (bytes + start));
        length += end == bytes + place->offset;
    }
    const bool is_cut = length > EXCERPT_MAX;
    return text_of("%s%.*s%s", start > place->line_start ? "..." : "",
                   (int)(is_cut ? EXCERPT_MAX : length), bytes + start, is_cut ? "..." : "");
}

/* ---- white space ---- */

/* Returns whether a character looks like a space, or like nothing, but is not a plain space. */
static bool is_deceptive(uint32_t character)
{
    return character == 0xa0 || (character >= 0x2000 && character <= 0x200d) ||
           character == 0x202f || character == 0x205f || character == 0x3000 || character == 0xfeff;
}

static bool is_blank_at(const kiln_key_part *part, size_t offset)
{
    const char *bytes = part->bytes;
    return offset < part->size && strchr(" \t\r\n", bytes[offset]) != NULL && bytes[offset] != '\0';
}

/* Replaces white space that a reader would not see. Control characters need no replacement here,
 * because tables escape them.
 *
 * @are_spaces_shown  plain spaces are replaced, too; their replacement can be confused with the
 *                    character itself, so they are replaced only if the texts differ there */
static void show_white_space(char **text, bool are_spaces_shown)
{
    char *shown = NULL;
    size_t size = 0;
    FILE *stream = must(open_memstream(&shown, &size));
    const size_t length = strlen(*text);
    for (size_t i = 0; i < length;) {
        uint32_t character = 0;
        const size_t bytes = character_read(*text + i, length - i, &character);
        if (is_deceptive(character)) {
            fprintf(stream, "\\u%04x", (unsigned)character);
        } else if (character == ' ' && are_spaces_shown) {
            fputs("\u00b7", stream);
        } else {
            fwrite(*text + i, bytes > 0 ? bytes : 1, 1, stream);
        }
        i += bytes > 0 ? bytes : 1;
    }
    must_succeed(fclose(stream));
    free(*text);
    *text = shown;
}

/* ---- the table ---- */

typedef struct difference_table {
    struct table *table;
    size_t files; /* how many files of drivers differ */
} difference_table;

static void add_row(struct table *table, const char *name, const char *change, const char *there,
                    const char *wanted)
{
    struct table_row *row = table_add_row(table);
    row_set(row, 0, name);
    row_set(row, 1, change);
    row_set(row, 2, there);
    row_set(row, 3, wanted);
}

static void add_texts(struct table *table, const kiln_key_part *there, const kiln_key_part *wanted)
{
    const part_place place = find_difference(there, wanted);
    const bool is_long = are_comparable(there, wanted);
    const bool are_spaces_shown =
        is_blank_at(there, place.offset) || is_blank_at(wanted, place.offset);
    owned char *change = is_long && (has_lines(there) || has_lines(wanted))
                             ? text_of("line %" PRIu64, place.line)
                             : text_of("changed");
    owned char *before = is_long ? excerpt(there, &place) : key_part_value(there);
    owned char *after = is_long ? excerpt(wanted, &place) : key_part_value(wanted);
    show_white_space(&before, are_spaces_shown);
    show_white_space(&after, are_spaces_shown);
    add_row(table, wanted->name, change, before, after);
}

static void add_part(struct table *table, kiln_key_change change, const kiln_key_part *there,
                     const kiln_key_part *wanted)
{
    if (there != NULL && wanted != NULL && key_part_is_text(there) && key_part_is_text(wanted)) {
        add_texts(table, there, wanted);
        return;
    }
    owned char *before = there == NULL ? NULL : key_part_value(there);
    owned char *after = wanted == NULL ? NULL : key_part_value(wanted);
    add_row(table, wanted != NULL ? wanted->name : there->name, change_names[change],
            before == NULL ? "-" : before, after == NULL ? "-" : after);
}

static int add_unless_file(void *user, kiln_key_change change, const kiln_key_part *there,
                           const kiln_key_part *wanted)
{
    difference_table *shown = user;
    if (key_pairs_is_file(there) || key_pairs_is_file(wanted)) {
        shown->files++;
    } else {
        add_part(shown->table, change, there, wanted);
    }
    return 0;
}

static int add_file(void *user, kiln_key_change change, const kiln_key_part *there,
                    const kiln_key_part *wanted)
{
    if (key_pairs_is_file(there) || key_pairs_is_file(wanted)) {
        add_part(user, change, there, wanted);
    }
    return 0;
}

/* ---- files of drivers ---- */

typedef struct file_names {
    char *there, *wanted; /* "": none */
    size_t there_count, wanted_count;
} file_names;

static void add_name(char **names, size_t *count, const kiln_key_part *file)
{
    if (file != NULL && (*count)++ < FILES_NAMED) {
        owned char *before = *names;
        *names = text_of("%s%s%.*s", before, before[0] == '\0' ? "" : ", ",
                         (int)key_pairs_file_name_size(file), (const char *)file->bytes);
    }
}

static int name_file(void *user, kiln_key_change change, const kiln_key_part *there,
                     const kiln_key_part *wanted)
{
    file_names *names = user;
    (void)change;
    if (key_pairs_is_file(there) || key_pairs_is_file(wanted)) {
        add_name(&names->there, &names->there_count, there);
        add_name(&names->wanted, &names->wanted_count, wanted);
    }
    return 0;
}

static char *list_of_names(const char *names, size_t count)
{
    return count == 0            ? text_of("-")
           : count > FILES_NAMED ? text_of("%s and %zu more", names, count - FILES_NAMED)
                                 : text_of("%s", names);
}

/* A different driver has many different files, so several are shown in one row. */
static void add_files(struct table *table, size_t count, const explained_key *there,
                      const explained_key *wanted)
{
    file_names names = {.there = must(strdup("")), .wanted = must(strdup(""))};
    key_pairs_difference(there, wanted, name_file, &names);
    owned char *change = text_of("%zu files", count);
    owned char *before = list_of_names(names.there, names.there_count);
    owned char *after = list_of_names(names.wanted, names.wanted_count);
    add_row(table, "driver.file", change, before, after);
    free(names.there);
    free(names.wanted);
}

void key_difference_print(const explained_key *there, const explained_key *wanted)
{
    difference_table shown = {.table = table_new()};
    table_add_column(shown.table, "PART", COLUMN_TEXT);
    table_add_column(shown.table, "DIFFERENCE", COLUMN_TEXT);
    table_add_column(shown.table, "THERE", COLUMN_LONG_TEXT);
    table_add_column(shown.table, "WANTED", COLUMN_LONG_TEXT);
    key_pairs_difference(there, wanted, add_unless_file, &shown);
    if (shown.files > 1) {
        add_files(shown.table, shown.files, there, wanted);
    } else {
        key_pairs_difference(there, wanted, add_file, shown.table);
    }
    table_print(shown.table);
}

static int push_part(void *user, kiln_key_change change, const kiln_key_part *there,
                     const kiln_key_part *wanted)
{
    json_t *object = must(json_object());
    json_add(object, "name", json_text_or_null(wanted != NULL ? wanted->name : there->name));
    json_add(object, "change", json_text_or_null(change_names[change]));
    json_add(object, "there", there == NULL ? json_null() : key_part_to_json(there));
    json_add(object, "wanted", wanted == NULL ? json_null() : key_part_to_json(wanted));
    if (are_comparable(there, wanted)) {
        json_add(object, "line", json_number(find_difference(there, wanted).line));
    }
    json_push(user, object);
    return 0;
}

json_t *key_difference_to_json(const explained_key *there, const explained_key *wanted)
{
    json_t *parts = must(json_array());
    key_pairs_difference(there, wanted, push_part, parts);
    return parts;
}
