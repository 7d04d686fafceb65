/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../command/commands.h"
#include "../command/directory.h"
#include "../command/options.h"
#include "../store/counters.h"
#include "../store/walk.h"
#include "../text/exit_code.h"
#include "../text/json.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "../text/table.h"
#include "../text/units.h"
#include "key_difference.h"
#include "missed_files.h"
#include "missed_key.h"
#include "neighbours.h"

static const char usage[] =
    "Usage: kiln why [--dir DIR] [--key-file FILE] [--json] [FILTERS]\n"
    "                DIGEST-PREFIX | --last [--trace FILE]\n"
    "\n"
    "Explains why a build was not found: which of the files that it was made from have changed;\n"
    "or in which parts its key differs from the keys of the nearest entries. Filters select the\n"
    "entries to compare it with; without --limit, at most 3 are shown.\n"
    "\n"
    "  --dir DIR        the cache directory\n"
    "  --key-file FILE  the file with the signing key\n"
    "  --last           the last build that was not found, as recorded by 'kiln run'\n"
    "  --trace FILE     with --last: the last one in this trace\n"
    "  --json           one JSON object\n" ENTRY_FILTER_USAGE;

#define NEIGHBOURS_SHOWN 3

static json_t *neighbour_to_json(const near_entry *neighbour, const explained_key *wanted)
{
    json_t *object = must(json_object());
    json_add(object, "digest", json_text_or_null(neighbour->digest));
    json_add(object, "name", json_text_or_null(neighbour->name));
    json_add(object, "device", json_text_or_null(neighbour->device));
    json_add(object, "created", must(json_integer(neighbour->created_s)));
    json_add(object, "parts", key_difference_to_json(&neighbour->key, wanted));
    return object;
}

static json_t *time_or_null(int64_t unix_s)
{
    return unix_s == 0 ? json_null() : must(json_integer(unix_s));
}

static void print_json(const missed_key *missed, const missed_files *files,
                       const near_entries *neighbours)
{
    json_t *nearest = must(json_array());
    for (size_t i = 0; i < neighbours->count; i++) {
        json_push(nearest, neighbour_to_json(&neighbours->nearest[i], &missed->key));
    }
    json_t *object = must(json_object());
    json_add(object, "digest", json_text_or_null(missed->digest));
    json_add(object, "missed", time_or_null(missed->missed_s));
    json_add(object, "stored", json_text_or_null(kiln_status_name(missed->stored)));
    json_add(object, "created", time_or_null(kiln_entry_provenance(missed->entry).created_s));
    missed_files_to_json(files, object);
    json_add(object, "neighbours", nearest);
    json_print(stdout, object);
}

static void add_time(struct table *table, const char *name, int64_t unix_s)
{
    char text[UNIT_TEXT_SIZE];
    if (unix_s != 0) {
        table_add_fact(table, name, format_time(unix_s, text));
    }
}

/* Returns whether the entry is stored now; the caller frees the text. */
static char *state_of(const cache_directory *directory, const missed_key *missed)
{
    counter_values counters = {0};
    if (missed->stored != KILN_MISS) {
        return text_of("%s", missed->stored == KILN_OK ? "yes" : kiln_status_text(missed->stored));
    }
    if (counters_read(directory->store, &counters) != KILN_OK || counters.requests == 0) {
        return text_of("no");
    }
    return text_of("no; %" PRIu64 " %s to be captured", counters.requests,
                   noun_of(counters.requests, "result waits", "results wait"));
}

static void print_missed(const cache_directory *directory, const missed_key *missed)
{
    const kiln_provenance origin = kiln_entry_provenance(missed->entry);
    struct table *table = table_new_facts();
    owned char *state = state_of(directory, missed);
    table_add_fact(table, "digest", missed->digest);
    add_time(table, "missed", missed->missed_s);
    table_add_fact(table, "stored now", state);
    add_time(table, "built", origin.created_s);
    if (origin.name[0] != '\0') {
        table_add_fact(table, "name", origin.name);
    }
    table_print(table);
}

static void print_neighbour(const near_entry *neighbour, const explained_key *wanted)
{
    char built[UNIT_TEXT_SIZE];
    printf("\n%.12s%s", neighbour->digest, neighbour->name[0] != '\0' ? " " : "");
    print_name(neighbour->name);
    if (neighbour->is_of_other_device) {
        fputs(", for ", stdout);
        print_name(neighbour->device[0] != '\0' ? neighbour->device : "a different device");
    }
    printf(", built %s, differs in %zu of %zu parts:\n", format_time(neighbour->created_s, built),
           neighbour->parts, neighbour->all_parts);
    key_difference_print(&neighbour->key, wanted);
}

static void print_neighbours(const near_entries *neighbours, const explained_key *wanted)
{
    for (size_t i = 0; i < neighbours->count; i++) {
        print_neighbour(&neighbours->nearest[i], wanted);
    }
    if (neighbours->count == 0) {
        puts("\nThere is no other entry to compare with: nothing similar was built before.");
    }
}

static int explain(const cache_directory *directory, const missed_key *missed,
                   const missed_files *files, entry_filter *filter, bool json)
{
    if (!json) {
        print_missed(directory, missed);
        missed_files_print(files);
        if (files->cause == CAUSE_FILES) {
            return EXIT_OK;
        }
    }
    near_entries neighbours;
    walk_expect(directory);
    kiln_status status =
        neighbours_find(directory->store, &missed->key, missed->digest, filter, &neighbours);
    if (status != KILN_OK) {
        return complain_of_status(directory->path, status);
    }
    if (json) {
        print_json(missed, files, &neighbours);
    } else {
        print_neighbours(&neighbours, &missed->key);
    }
    neighbours_free(&neighbours);
    return EXIT_OK;
}

static int find_missed(const cache_directory *directory, const char *prefix, const char *trace,
                       missed_key *ret_missed)
{
    if (prefix != NULL) {
        return missed_key_of_digest(directory, prefix, ret_missed);
    }
    return trace != NULL ? missed_key_of_trace(directory, trace, ret_missed)
                         : missed_key_of_last(directory, ret_missed);
}

int cmd_why(int argc, char **argv)
{
    bool last = false;
    const char *trace = NULL;
    entry_filter filter = {0};
    command_line line = {
        .usage = usage,
        .options = {ENTRY_FILTER_OPTIONS(filter),
                    {.name = "last", .flag = &last},
                    {.name = "trace", .text = &trace}},
        .operands_max = 1,
    };
    options_read(&line, argc, argv);
    if (last == (line.operand_count == 1)) {
        options_wrong(argv[0], "give either a digest or --last");
    }
    if (trace != NULL && !last) {
        options_wrong(argv[0], "--trace requires --last");
    }
    entry_filter_read(&filter, argv[0], line.operands + line.operand_count);
    filter.limit = filter.limit == 0 ? NEIGHBOURS_SHOWN : filter.limit;
    if (filter.limit > NEIGHBOURS_MAX) {
        options_wrong(argv[0], "--limit is at most %d", NEIGHBOURS_MAX);
    }
    owned_directory directory = directory_open(line.directory, KILN_STORE_READONLY);
    missed_key missed;
    int exit_code = find_missed(&directory, line.operands[0], trace, &missed);
    if (exit_code == EXIT_OK) {
        missed_files files = missed_files_find(&missed, trace);
        exit_code = explain(&directory, &missed, &files, &filter, line.json);
        missed_files_free(&files);
        missed_key_free(&missed);
    }
    entry_filter_done(&filter);
    return exit_code;
}
