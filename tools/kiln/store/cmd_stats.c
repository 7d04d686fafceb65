/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "../command/commands.h"
#include "../command/directory.h"
#include "../command/options.h"
#include "../text/exit_code.h"
#include "../text/json.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "../text/table.h"
#include "counters.h"

static const char usage[] =
    "Usage: kiln stats [--dir DIR] [--key-file FILE] [--json]\n"
    "\n"
    "Prints what caching has done so far, in all processes, and what the cache holds now.\n"
    "\n"
    "  --dir DIR        the cache directory\n"
    "  --key-file FILE  the file with the signing key\n"
    "  --json           one JSON object\n";

static void add_row(struct libscols_table *table, const char *name, const char *value,
                    const char *meaning)
{
    struct libscols_line *row = table_add_row(table);
    row_set(row, 0, name);
    row_set(row, 1, value);
    row_set(row, 2, meaning);
}

/* Names of counters of time end in _ns. */
static bool counts_nanoseconds(const char *name)
{
    const char *unit = strrchr(name, '_');
    return unit != NULL && strcmp(unit, "_ns") == 0;
}

static void add_counter(struct libscols_table *table, const char *name, uint64_t value,
                        const char *meaning)
{
    char text[UNIT_TEXT_SIZE];
    if (counts_nanoseconds(name)) {
        format_duration(value, text);
    } else {
        snprintf(text, sizeof text, "%" PRIu64, value);
    }
    add_row(table, name, text, meaning);
}

static void add_bytes(struct libscols_table *table, const cache_directory *directory,
                      uint64_t bytes)
{
    char text[UNIT_TEXT_SIZE];
    char limit[UNIT_TEXT_SIZE];
    format_size(bytes, text);
    format_size(directory->max_bytes, limit);
    char *meaning = text_of("on disk, of at most %s, in %s", limit, directory->path);
    add_row(table, "bytes", text, meaning);
    free(meaning);
}

static void print_table(const cache_directory *directory, const counter_values *counters)
{
    struct libscols_table *table = table_new();
    table_add_column(table, NULL, COLUMN_TEXT);
    table_add_column(table, NULL, COLUMN_NUMBER);
    table_add_column(table, NULL, COLUMN_LONG_TEXT);
    add_counter(table, "entries", counters->entries, "in the cache now");
    add_bytes(table, directory, counters->bytes);
    add_counter(table, "requests", counters->requests, "builds waiting to be captured");
#define ADD_COUNTER(name, meaning) add_counter(table, #name, counters->stats.name, meaning);
    KILN_STATS_LIST(ADD_COUNTER)
#undef ADD_COUNTER
    table_print(table);
}

int cmd_stats(int argc, char **argv)
{
    command_line line = {.usage = usage};
    int exit_code;
    if (!options_read(&line, argc, argv, &exit_code)) {
        return exit_code;
    }
    cache_directory directory;
    exit_code = directory_open(line.directory, KILN_STORE_READONLY, &directory);
    if (exit_code != EXIT_OK) {
        return exit_code;
    }
    counter_values counters;
    kiln_status status = counters_read(directory.store, &counters);
    if (status != KILN_OK) {
        complain("%s: %s", directory.path, kiln_status_text(status));
    } else if (line.json) {
        json_print(stdout, counters_to_json(&counters));
    } else {
        print_table(&directory, &counters);
    }
    directory_close(&directory);
    return exit_code_of(status);
}
