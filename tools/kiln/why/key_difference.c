/* SPDX-License-Identifier: Apache-2.0 */
#include "key_difference.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "../entry/key_part.h"
#include "../text/json.h"
#include "../text/memory.h"
#include "../text/table.h"
#include "key_pairs.h"

/* The maximum number of bytes of a line that are shown, and the maximum number of those that are
 * before the first difference. */
#define EXCERPT_MAX 60u
#define EXCERPT_BEFORE 20u

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

/* Returns the text of one part at @place, which is a piece of a line; the caller frees it. */
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
    }
    const bool is_cut = length > EXCERPT_MAX;
    return text_of("%s%.*s%s", start > place->line_start ? "..." : "",
                   (int)(is_cut ? EXCERPT_MAX : length), bytes + start, is_cut ? "..." : "");
}

static void add_row(struct table *table, const char *name, const char *change, const char *there,
                    const char *wanted)
{
    struct table_row *row = table_add_row(table);
    row_set(row, 0, name);
    row_set(row, 1, change);
    row_set(row, 2, there);
    row_set(row, 3, wanted);
}

static void add_lines(struct table *table, const kiln_key_part *there, const kiln_key_part *wanted)
{
    const part_place place = find_difference(there, wanted);
    owned char *change = has_lines(there) || has_lines(wanted)
                             ? text_of("line %" PRIu64, place.line)
                             : text_of("changed");
    owned char *before = excerpt(there, &place);
    owned char *after = excerpt(wanted, &place);
    add_row(table, wanted->name, change, before, after);
}

static int add_part(void *user, kiln_key_change change, const kiln_key_part *there,
                    const kiln_key_part *wanted)
{
    struct table *table = user;
    if (are_comparable(there, wanted)) {
        add_lines(table, there, wanted);
        return 0;
    }
    owned char *before = there == NULL ? NULL : key_part_value(there);
    owned char *after = wanted == NULL ? NULL : key_part_value(wanted);
    add_row(table, wanted != NULL ? wanted->name : there->name, change_names[change],
            before == NULL ? "-" : before, after == NULL ? "-" : after);
    return 0;
}

void key_difference_print(const kiln_key *there, const kiln_key *wanted)
{
    struct table *table = table_new();
    table_add_column(table, "PART", COLUMN_TEXT);
    table_add_column(table, "DIFFERENCE", COLUMN_TEXT);
    table_add_column(table, "THERE", COLUMN_LONG_TEXT);
    table_add_column(table, "WANTED", COLUMN_LONG_TEXT);
    key_pairs_difference(there, wanted, add_part, table);
    table_print(table);
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

json_t *key_difference_to_json(const kiln_key *there, const kiln_key *wanted)
{
    json_t *parts = must(json_array());
    key_pairs_difference(there, wanted, push_part, parts);
    return parts;
}
