/* SPDX-License-Identifier: Apache-2.0 */
#include "groups.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../text/json.h"
#include "../text/memory.h"
#include "../text/table.h"
#include "../text/units.h"
#include "device_uses.h"

#define DAY_LENGTH 10 /* of a date, at the beginning of a time */

typedef struct entry_group {
    char *name;
    uint64_t entries, stored_bytes, build_ns;
    int64_t last_used_s;
    int64_t last_seen_s; /* of a device, on any machine; 0: not known */
} entry_group;

static char *device_of(const listed_item *item)
{
    return text_of("%s", item->device);
}

static char *driver_of_item(const listed_item *item)
{
    return text_of("%s", item->driver);
}

static char *program_of(const listed_item *item)
{
    const char *comma = strchr(item->tool, ',');
    return text_of("%s", comma == NULL ? "-" : comma + strspn(comma, ", "));
}

static char *day_of(const listed_item *item)
{
    char text[UNIT_TEXT_SIZE];
    return text_of("%.*s", DAY_LENGTH, format_time(item->last_used_s, text));
}

group_name *group_named(const char *name, bool *ret_reads_drivers)
{
    static const struct {
        const char *name;
        group_name *group;
    } groups[] = {{"device", device_of},
                  {"driver", driver_of_item},
                  {"program", program_of},
                  {"day", day_of}};
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        if (strcmp(groups[i].name, name) == 0) {
            *ret_reads_drivers |= groups[i].group == driver_of_item;
            return groups[i].group;
        }
    }
    return NULL;
}

static int by_name(const void *left, const void *right)
{
    const entry_group *a = left;
    const entry_group *b = right;
    return strcmp(a->name, b->name);
}

static int by_day(const void *left, const void *right)
{
    return by_name(right, left);
}

static int by_build(const void *left, const void *right)
{
    const entry_group *a = left;
    const entry_group *b = right;
    return a->build_ns != b->build_ns ? (a->build_ns < b->build_ns) - (a->build_ns > b->build_ns)
                                      : by_name(left, right);
}

/* Adds up neighbours of the same name. Returns how many groups are left. */
static size_t merge(entry_group *groups, size_t count)
{
    size_t merged = 0;
    for (size_t i = 0; i < count; i++) {
        entry_group *last = merged == 0 ? NULL : &groups[merged - 1];
        if (last == NULL || strcmp(last->name, groups[i].name) != 0) {
            groups[merged++] = groups[i];
            continue;
        }
        last->entries += groups[i].entries;
        last->stored_bytes += groups[i].stored_bytes;
        last->build_ns += groups[i].build_ns;
        if (groups[i].last_used_s > last->last_used_s) {
            last->last_used_s = groups[i].last_used_s;
        }
        free(groups[i].name);
    }
    return merged;
}

static void print_json(const entry_group *group)
{
    json_t *object = must(json_object());
    json_add(object, "group", json_text_or_null(group->name));
    json_add(object, "entries", json_number(group->entries));
    json_add(object, "stored_bytes", json_number(group->stored_bytes));
    json_add(object, "build_ns", json_number(group->build_ns));
    json_add(object, "last_used", must(json_integer(group->last_used_s)));
    if (group->last_seen_s != 0) {
        json_add(object, "last_seen", must(json_integer(group->last_seen_s)));
    }
    json_print(stdout, object);
}

static void add_row(struct table *table, const entry_group *group, bool has_seen)
{
    char text[UNIT_TEXT_SIZE];
    struct table_row *row = table_add_row(table);
    snprintf(text, sizeof text, "%" PRIu64, group->entries);
    row_set(row, 0, text);
    row_set(row, 1, format_size(group->stored_bytes, text));
    row_set(row, 2, format_duration(group->build_ns, text));
    row_set(row, 3, format_time(group->last_used_s, text));
    if (has_seen) {
        row_set(row, 4, group->last_seen_s == 0 ? "-" : format_time(group->last_seen_s, text));
    }
    row_set(row, has_seen ? 5 : 4, group->name);
}

/* Sets when devices were last in use on any machine, as far as the servers know. Returns true if
 * they know this of one. */
static bool add_seen(kiln_store *store, const store_listing *listing, entry_group *groups,
                     size_t count)
{
    device_uses devices;
    bool has_seen = false;
    device_uses_read(store, listing, &devices);
    for (size_t i = 0; i < count; i++) {
        const known_use *use = device_uses_find(&devices, groups[i].name);
        if (use != NULL && use->record == KILN_OK) {
            groups[i].last_seen_s = use->last_s;
            has_seen = true;
        }
    }
    device_uses_free(&devices);
    return has_seen;
}

static void print_table(const entry_group *groups, size_t count, bool has_seen)
{
    struct table *table = table_new();
    table_fit(table);
    table_add_column(table, "ENTRIES", COLUMN_NUMBER);
    table_add_column(table, "SIZE", COLUMN_NUMBER);
    table_add_column(table, "BUILD", COLUMN_NUMBER);
    table_add_column(table, "LAST USED", COLUMN_TEXT);
    if (has_seen) {
        table_add_column(table, "LAST SEEN", COLUMN_TEXT);
    }
    table_add_column(table, "GROUP", COLUMN_LONG_TEXT);
    for (size_t i = 0; i < count; i++) {
        add_row(table, &groups[i], has_seen);
    }
    table_print(table);
}

void groups_print(kiln_store *store, const store_listing *listing, group_name *name, bool json)
{
    entry_group *groups = must(calloc(listing->count + 1, sizeof *groups));
    for (size_t i = 0; i < listing->count; i++) {
        const listed_item *item = &listing->items[i];
        groups[i] = (entry_group){.name = name(item),
                                  .entries = 1,
                                  .stored_bytes = item->stored_bytes,
                                  .build_ns = item->build_ns,
                                  .last_used_s = item->last_used_s};
    }
    qsort(groups, listing->count, sizeof *groups, by_name);
    const size_t count = merge(groups, listing->count);
    qsort(groups, count, sizeof *groups, name == day_of ? by_day : by_build);
    const bool has_seen = name == device_of && add_seen(store, listing, groups, count);
    for (size_t i = 0; json && i < count; i++) {
        print_json(&groups[i]);
    }
    if (!json && count > 0) {
        print_table(groups, count, has_seen);
    }
    for (size_t i = 0; i < count; i++) {
        free(groups[i].name);
    }
    free(groups);
}
