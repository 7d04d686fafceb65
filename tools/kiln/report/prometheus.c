/* SPDX-License-Identifier: Apache-2.0 */
#include "prometheus.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "../text/escape.h"
#include "../text/memory.h"

/* The maximum number of values of a label, apart from "other". */
#define VALUES_MAX 100u

static void begin_metric(FILE *file, const char *name, const char *type, const char *help)
{
    fprintf(file, "# HELP kiln_%s %s\n# TYPE kiln_%s %s\n", name, help, name, type);
}

static void write_seconds(FILE *file, uint64_t duration_ns)
{
    fprintf(file, "%" PRIu64 ".%09" PRIu64 "\n", duration_ns / 1000000000,
            duration_ns % 1000000000);
}

/* Writes the value of a label. Its control characters are made visible first, and quotes and
 * backslashes are escaped as the format demands. */
static void write_value(FILE *file, const char *value)
{
    owned char *visible = escaped(value, strlen(value));
    for (const char *at = visible; *at != '\0'; at++) {
        if (*at == '\\' || *at == '"') {
            fputc('\\', file);
        }
        fputc(*at, file);
    }
}

static void write_name(FILE *file, const char *name, const char *label, const char *value)
{
    fprintf(file, "kiln_%s{%s=\"", name, label);
    write_value(file, value);
    fputs("\"} ", file);
}

/* ---- the store ---- */

static void write_store_counter(FILE *file, const char *name, const char *help, uint64_t value)
{
    const size_t length = strlen(name);
    const bool is_duration = length > 3 && strcmp(name + length - 3, "_ns") == 0;
    owned char *metric = is_duration ? text_of("%.*s_seconds_total", (int)(length - 3), name)
                                     : text_of("%s_total", name);
    begin_metric(file, metric, "counter", help);
    fprintf(file, "kiln_%s ", metric);
    if (is_duration) {
        write_seconds(file, value);
    } else {
        fprintf(file, "%" PRIu64 "\n", value);
    }
}

static void write_gauge(FILE *file, const char *name, const char *help, uint64_t value)
{
    begin_metric(file, name, "gauge", help);
    fprintf(file, "kiln_%s %" PRIu64 "\n", name, value);
}

static void write_store(FILE *file, const counter_values *counters)
{
    write_gauge(file, "entries", "entries in the cache now", counters->entries);
    write_gauge(file, "bytes", "bytes of the cache's files now", counters->bytes);
    write_gauge(file, "requests", "builds waiting to be captured", counters->requests);
#define WRITE_COUNTER(name, meaning)                                                               \
    write_store_counter(file, #name, meaning, counters->stats.name);
    KILN_STATS_LIST(WRITE_COUNTER)
#undef WRITE_COUNTER
}

/* ---- tiers ---- */

static uint64_t number(const json_t *object, const char *name)
{
    return (uint64_t)json_integer_value(json_object_get(object, name));
}

/* Two tiers can have the same location; the value of a label must be unique. */
static void write_tier_name(FILE *file, const char *name, const json_t *tier, size_t place)
{
    owned char *value =
        text_of("%zu %s", place + 1, json_string_value(json_object_get(tier, "location")));
    write_name(file, name, "tier", value);
}

static void write_tier_counter(FILE *file, const char *name, const char *member, const char *help,
                               const json_t *tiers)
{
    uint64_t others = 0;
    begin_metric(file, name, "counter", help);
    for (size_t i = 0; i < json_array_size(tiers); i++) {
        const json_t *tier = json_array_get(tiers, i);
        if (i < VALUES_MAX) {
            write_tier_name(file, name, tier, i);
            fprintf(file, "%" PRIu64 "\n", number(tier, member));
        } else {
            others += number(tier, member);
        }
    }
    if (json_array_size(tiers) > VALUES_MAX) {
        fprintf(file, "kiln_%s{tier=\"other\"} %" PRIu64 "\n", name, others);
    }
}

static void write_tier_states(FILE *file, const json_t *tiers)
{
    begin_metric(file, "tier_up", "gauge", "1: the tier is asked; 0: it is not asked at present");
    for (size_t i = 0; i < json_array_size(tiers) && i < VALUES_MAX; i++) {
        const json_t *tier = json_array_get(tiers, i);
        write_tier_name(file, "tier_up", tier, i);
        fputs(json_is_null(json_object_get(tier, "outage")) ? "1\n" : "0\n", file);
    }
    begin_metric(file, "tier_latency_seconds", "gauge", "median time of recent look-ups");
    for (size_t i = 0; i < json_array_size(tiers) && i < VALUES_MAX; i++) {
        const json_t *tier = json_array_get(tiers, i);
        if (number(tier, "latency_ns") > 0) {
            write_tier_name(file, "tier_latency_seconds", tier, i);
            write_seconds(file, number(tier, "latency_ns"));
        }
    }
}

static void write_tiers(FILE *file, const json_t *tiers)
{
    if (json_array_size(tiers) == 0) {
        return;
    }
    write_tier_counter(file, "tier_hits_total", "hits", "look-ups that the tier had", tiers);
    write_tier_counter(file, "tier_misses_total", "misses", "look-ups that it did not have", tiers);
    write_tier_counter(file, "tier_puts_total", "puts", "entries written to the tier", tiers);
    write_tier_counter(file, "tier_dropped_total", "dropped", "entries that were not put", tiers);
    write_tier_counter(file, "tier_damaged_total", "damaged", "damaged or untrusted entries",
                       tiers);
    write_tier_counter(file, "tier_faults_total", "faults", "calls that failed", tiers);
    write_tier_counter(file, "tier_read_bytes_total", "read_bytes", "bytes of the hits", tiers);
    write_tier_states(file, tiers);
}

/* ---- the journal ---- */

typedef struct sum_kind {
    const char *name, *help;
    size_t offset; /* in a tally */
    bool is_duration;
} sum_kind;

static const sum_kind sum_kinds[] = {
    {"hits", "hits in the store, in the journal", offsetof(tally, hits), false},
    {"builds", "builds, in the journal", offsetof(tally, builds), false},
    {"failures", "builds that failed, in the journal", offsetof(tally, failures), false},
    {"saved_seconds", "time that hits saved, in the journal", offsetof(tally, saved_ns), true},
    {"lost_seconds", "time of builds and of waiting, in the journal", offsetof(tally, lost_ns),
     true},
};

static uint64_t sum_in(const tally *sums, const sum_kind *kind)
{
    uint64_t value;
    memcpy(&value, (const char *)sums + kind->offset, sizeof value);
    return value;
}

static void write_sum(FILE *file, const sum_kind *kind, uint64_t value)
{
    if (kind->is_duration) {
        write_seconds(file, value);
    } else {
        fprintf(file, "%" PRIu64 "\n", value);
    }
}

/* An empty label means the same as none, and "other" is the sum of what is left out, so both get a
 * different name. Returns a text that is valid until the next call. */
static const char *value_of(const tally *sums, char **ret_renamed)
{
    if (sums->label[0] == '\0') {
        return "unknown";
    }
    if (strcmp(sums->label, "other") == 0 || strcmp(sums->label, "unknown") == 0) {
        *ret_renamed = text_of("(%s)", sums->label);
        return *ret_renamed;
    }
    return sums->label;
}

/* The journal forgets, so its sums are gauges. */
static void write_sums(FILE *file, const char *label, const tally_list *list, const sum_kind *kind)
{
    uint64_t others = 0;
    owned char *metric = text_of("journal_%s_%s", label, kind->name);
    begin_metric(file, metric, "gauge", kind->help);
    for (size_t i = 0; i < list->count; i++) {
        const tally *sums = list->items[i];
        if (i < VALUES_MAX) {
            owned char *renamed = NULL;
            write_name(file, metric, label, value_of(sums, &renamed));
            write_sum(file, kind, sum_in(sums, kind));
        } else {
            others += sum_in(sums, kind);
        }
    }
    if (list->count > VALUES_MAX) {
        write_name(file, metric, label, "other");
        write_sum(file, kind, others);
    }
}

static void write_journal(FILE *file, const use_history *history)
{
    write_gauge(file, "journal_events", "events in the journal", history->journal.events);
    write_gauge(file, "journal_damaged", "damaged records in the journal",
                history->journal.damaged);
    for (size_t i = 0; i < sizeof sum_kinds / sizeof sum_kinds[0]; i++) {
        if (history->programs.count > 0) {
            write_sums(file, "program", &history->programs, &sum_kinds[i]);
        }
        if (history->devices.count > 0) {
            write_sums(file, "device", &history->devices, &sum_kinds[i]);
        }
    }
}

void prometheus_write(FILE *file, const counter_values *counters, const json_t *tiers,
                      const use_history *history)
{
    write_store(file, counters);
    write_tiers(file, tiers);
    write_journal(file, history);
}
