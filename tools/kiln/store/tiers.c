/* SPDX-License-Identifier: Apache-2.0 */
#include "tiers.h"

#include <inttypes.h>

#include "../command/location.h"
#include "../text/json.h"
#include "../text/memory.h"
#include "../text/table.h"
#include "../text/units.h"

static void add_tier(void *user, const kiln_tier_info *info)
{
    json_t *object = must(json_object());
    owned char *shown = shown_location(info->location);
    json_add(object, "location", json_text_or_null(shown));
    json_add(object, "hits", json_number(info->hits));
    json_add(object, "misses", json_number(info->misses));
    json_add(object, "read_bytes", json_number(info->read_bytes));
    json_add(object, "puts", json_number(info->puts));
    json_add(object, "dropped", json_number(info->dropped));
    json_add(object, "damaged", json_number(info->damaged));
    json_add(object, "faults", json_number(info->faults));
    json_add(object, "latency_ns",
             info->latency_ns > 0 ? json_number(info->latency_ns) : must(json_null()));
    json_add(object, "outage", json_text_or_null(info->outage));
    json_add(object, "retry_ns",
             info->outage != NULL ? json_number(info->retry_ns) : must(json_null()));
    json_push(user, object);
}

json_t *tiers_to_json(kiln_store *store)
{
    json_t *tiers = must(json_array());
    must_succeed(kiln_store_each_tier(store, add_tier, tiers));
    return tiers;
}

char *tier_outage(const json_t *tier)
{
    const char *outage = json_string_value(json_object_get(tier, "outage"));
    char wait[UNIT_TEXT_SIZE];
    if (outage == NULL) {
        return NULL;
    }
    const json_int_t retry_ns = json_integer_value(json_object_get(tier, "retry_ns"));
    return text_of("not asked: %s; next try in %s", outage,
                   format_duration((uint64_t)retry_ns, wait));
}

/* Takes over @value. */
static void set(struct table_row *row, int column, char *value)
{
    row_set(row, column, value);
    free(value);
}

static uint64_t number(const json_t *tier, const char *name)
{
    return (uint64_t)json_integer_value(json_object_get(tier, name));
}

static void print_tier(struct table *table, const json_t *tier)
{
    static const char *const counters[] = {"hits",    "misses",  "puts",
                                           "dropped", "damaged", "faults"};
    enum { COUNTERS = sizeof counters / sizeof counters[0] };
    char text[UNIT_TEXT_SIZE];
    struct table_row *row = table_add_row(table);
    for (int i = 0; i < COUNTERS; i++) {
        set(row, i, text_of("%" PRIu64, number(tier, counters[i])));
    }
    row_set(row, COUNTERS, format_size(number(tier, "read_bytes"), text));
    const uint64_t latency_ns = number(tier, "latency_ns");
    row_set(row, COUNTERS + 1, latency_ns > 0 ? format_duration(latency_ns, text) : "-");
    row_set(row, COUNTERS + 2, json_string_value(json_object_get(tier, "location")));
    owned char *outage = tier_outage(tier);
    if (outage != NULL) {
        struct table_row *below = table_add_row(table);
        row_set(below, COUNTERS + 2, outage);
        row_set_colour(below, COUNTERS + 2, COLOUR_WARNING);
    }
}

void tiers_print(const json_t *tiers)
{
    struct table *table = table_new();
    static const char *const numbers[] = {"HITS",    "MISSES", "PUTS", "DROPPED",
                                          "DAMAGED", "FAULTS", "READ", "LATENCY"};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        table_add_column(table, numbers[i], COLUMN_NUMBER);
    }
    table_add_column(table, "TIER", COLUMN_LONG_TEXT);
    size_t i;
    json_t *tier;
    json_array_foreach(tiers, i, tier)
    {
        print_tier(table, tier);
    }
    table_print(table);
}
