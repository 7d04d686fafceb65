/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "../command/commands.h"
#include "../command/directory.h"
#include "../command/options.h"
#include "../report/prometheus.h"
#include "../text/exit_code.h"
#include "../text/json.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "../text/table.h"
#include "../text/units.h"
#include "counters.h"
#include "tiers.h"

static const char usage[] =
    "Usage: kiln stats [--dir DIR] [--key-file FILE] [--json | --prometheus]\n"
    "\n"
    "Prints what caching has done so far, in all processes, and what the "
    "cache holds now. A server\n"
    "keeps no counters. For a chain, also prints what each of its stores "
    "did, and which are not\n"
    "asked at present.\n"
    "\n"
    "  --dir DIR        the cache directory\n"
    "  --key-file FILE  the file with the signing key\n"
    "  --json           one JSON object\n"
    "  --prometheus     Prometheus's text format, with sums of the journal\n";

static void add_row(struct table *table, const char *name, const char *value, const char *meaning)
{
    struct table_row *row = table_add_row(table);
    row_set(row, 0, name);
    row_set(row, 1, value);
    row_set(row, 2, meaning);
}

/* The names of counters that contain a time end in _ns. */
static bool counts_nanoseconds(const char *name)
{
    const char *unit = strrchr(name, '_');
    return unit != NULL && strcmp(unit, "_ns") == 0;
}

static void add_counter(struct table *table, const char *name, uint64_t value, const char *meaning)
{
    char text[UNIT_TEXT_SIZE];
    if (counts_nanoseconds(name)) {
        format_duration(value, text);
    } else {
        snprintf(text, sizeof text, "%" PRIu64, value);
    }
    add_row(table, name, text, meaning);
}

/* Returns a text that says where the bytes are, and how many there may be. For a server it names no
 * limit, since the server has its own; for a chain, the sum of the limits of its directories. */
static char *meaning_of_bytes(const cache_directory *directory, uint64_t max_bytes)
{
    char limit[UNIT_TEXT_SIZE];
    if (max_bytes == 0) {
        return text_of("in %s", directory->path);
    }
    format_size(directory->max_bytes == 0 ? 0 : max_bytes, limit);
    return strchr(directory->path, '|') != NULL
               ? text_of("in %s, whose directories may have %s", directory->path, limit)
               : text_of("on disk, of at most %s, in %s", limit, directory->path);
}

static void add_bytes(struct table *table, const cache_directory *directory,
                      const counter_values *counters)
{
    char text[UNIT_TEXT_SIZE];
    owned char *meaning = meaning_of_bytes(directory, counters->max_bytes);
    add_row(table, "bytes", format_size(counters->bytes, text), meaning);
}

static void print_table(const cache_directory *directory, const counter_values *counters)
{
    struct table *table = table_new();
    table_add_column(table, NULL, COLUMN_TEXT);
    table_add_column(table, NULL, COLUMN_NUMBER);
    table_add_column(table, NULL, COLUMN_LONG_TEXT);
    add_counter(table, "entries", counters->entries, "in the cache now");
    add_bytes(table, directory, counters);
    if (counters->max_bytes > 0) {
        add_counter(table, "requests", counters->requests, "builds waiting to be captured");
#define ADD_COUNTER(name, meaning) add_counter(table, #name, counters->stats.name, meaning);
        KILN_STATS_LIST(ADD_COUNTER)
#undef ADD_COUNTER
    }
    table_print(table);
}

/* A chain is opened as programs open it, because its first directory that is written has the
 * counters of its tiers. Nothing is changed all the same. */
static uint32_t flags_for(const char *location)
{
    return strchr(location, '|') != NULL ? KILN_STORE_NO_TRIM_AT_CLOSE : KILN_STORE_READONLY;
}

static int print_prometheus(const cache_directory *directory, const counter_values *counters,
                            const json_t *tiers)
{
    use_history history = {0};
    const kiln_status status = history_read(directory->store, &history);
    if (status == KILN_OK) {
        history_sum_devices(&history);
        prometheus_write(stdout, counters, tiers, &history);
    }
    history_free(&history);
    owned char *what = text_of("the journal in %s", directory->path);
    return status == KILN_OK ? EXIT_OK : complain_of_status(what, status);
}

int cmd_stats(int argc, char **argv)
{
    bool is_for_prometheus = false;
    command_line line = {.usage = usage,
                         .options = {{.name = "prometheus", .flag = &is_for_prometheus}}};
    options_read(&line, argc, argv);
    if (line.json && is_for_prometheus) {
        options_wrong(argv[0], "--json and --prometheus exclude each other");
    }
    owned char *location = directory_location(line.directory);
    owned_directory directory = directory_open(location, flags_for(location));
    counter_values counters;
    kiln_status status = counters_read(directory.store, &counters);
    if (status != KILN_OK) {
        return complain_of_status(directory.path, status);
    }
    json_t *tiers = tiers_to_json(directory.store);
    int exit_code = EXIT_OK;
    if (is_for_prometheus) {
        exit_code = print_prometheus(&directory, &counters, tiers);
    } else if (line.json) {
        json_t *object = counters_to_json(&counters);
        if (json_array_size(tiers) > 0) {
            json_add(object, "tiers", json_incref(tiers));
        }
        json_print(stdout, object);
    } else {
        print_table(&directory, &counters);
        if (json_array_size(tiers) > 0) {
            putchar('\n');
            tiers_print(tiers);
        }
    }
    json_decref(tiers);
    return exit_code;
}
