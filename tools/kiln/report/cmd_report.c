/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../command/commands.h"
#include "../command/directory.h"
#include "../command/options.h"
#include "../replay/warmth.h"
#include "../store/tiers.h"
#include "../text/exit_code.h"
#include "../text/json.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "../text/output_file.h"
#include "causes.h"
#include "history.h"
#include "page.h"

#define NS_PER_S INT64_C(1000000000)

static const char usage[] =
    "Usage: kiln report [--dir DIR] [--key-file FILE] [--since TIME] [--output FILE] [--json]\n"
    "\n"
    "Writes a page, in HTML, about what the cache has saved: for each day, program, device and\n"
    "driver; the misses that cost most, and why they were misses; the cache and its tiers.\n"
    "\n"
    "  --dir DIR        the cache directory\n"
    "  --key-file FILE  the file with the signing key\n"
    "  --since TIME     only what happened since then: a date such as 2031-07-24, or an age such\n"
    "                   as 7d or 12h\n"
    "  --output FILE    write the page to this file; - for stdout (default)\n"
    "  --json           one JSON object with the same contents\n";

/* Returns the begin of the period in Unix seconds; 0: all. */
static int64_t begin_of(const char *command, const char *since)
{
    struct tm date = {.tm_isdst = -1};
    if (since == NULL) {
        return 0;
    }
    const char *end = strptime(since, "%Y-%m-%d", &date);
    if (end != NULL && *end == '\0') {
        return mktime(&date);
    }
    char *suffix = NULL;
    const unsigned long count = strtoul(since, &suffix, 10);
    const int64_t unit_s = strcmp(suffix, "d") == 0 ? 86400 : strcmp(suffix, "h") == 0 ? 3600 : 0;
    if (since[0] < '0' || since[0] > '9' || unit_s == 0 || count > 100000) {
        options_wrong(command,
                      "--since expects a date such as 2031-07-24, or a number of days or "
                      "hours such as 7d or 12h, not '%s'",
                      since);
    }
    return time(NULL) - (int64_t)count * unit_s;
}

static json_t *sums_to_json(const tally *sums)
{
    json_t *object = must(json_object());
    if (sums->label != NULL) {
        json_add(object, "label", json_text_or_null(sums->label));
    }
    json_add(object, "hits", json_number(sums->hits));
    json_add(object, "memory_hits", json_number(sums->memory_hits));
    json_add(object, "builds", json_number(sums->builds));
    json_add(object, "failures", json_number(sums->failures));
    json_add(object, "saved_ns", json_number(sums->saved_ns));
    json_add(object, "lost_ns", json_number(sums->lost_ns));
    return object;
}

static json_t *list_to_json(const tally_list *list)
{
    json_t *array = must(json_array());
    for (size_t i = 0; i < list->count; i++) {
        json_push(array, sums_to_json(list->items[i]));
    }
    return array;
}

static json_t *hit_rate_of(const tally *total)
{
    const double hits = (double)total->hits + (double)total->memory_hits;
    const double all = hits + (double)total->builds + (double)total->failures;
    return all > 0 ? must(json_real(hits / all)) : must(json_null());
}

static json_t *misses_to_json(const miss_causes *causes)
{
    json_t *array = must(json_array());
    for (size_t i = 0; i < causes->count; i++) {
        const built_key *key = causes->items[i].key;
        json_t *object = must(json_object());
        json_add(object, "digest", json_text_or_null(key->digest));
        json_add(object, "name", json_text_or_null(key->name));
        json_add(object, "program", json_text_or_null(key->program));
        json_add(object, "device", json_text_or_null(key->device));
        json_add(object, "builds", json_number(key->builds));
        json_add(object, "failures", json_number(key->failures));
        json_add(object, "lost_ns", json_number(key->lost_ns));
        json_add(object, "last", json_number((uint64_t)(key->missed_ns / NS_PER_S)));
        json_add(object, "cause", json_text_or_null(causes->items[i].text));
        json_push(array, object);
    }
    return array;
}

static json_t *contents_to_json(const store_contents *contents, const cache_directory *directory)
{
    json_t *object = must(json_object());
    json_add(object, "entries", json_number(contents->entries));
    json_add(object, "bytes", json_number(contents->bytes));
    json_add(object, "max_bytes", json_number(directory->max_bytes));
    json_add(object, "oldest", json_number((uint64_t)contents->oldest_s));
    json_add(object, "newest", json_number((uint64_t)contents->newest_s));
    json_add(object, "unused", json_number(contents->unused));
    return object;
}

static json_t *journal_to_json(const kiln_journal_report *journal)
{
    json_t *object = must(json_object());
    json_add(object, "events", json_number(journal->events));
    json_add(object, "damaged", json_number(journal->damaged));
    json_add(object, "newer", json_number(journal->newer));
    json_add(object, "bytes", json_number(journal->bytes));
    return object;
}

static json_t *report_of(const cache_directory *directory, const use_history *history,
                         const miss_causes *causes)
{
    json_t *report = must(json_object());
    json_add(report, "location", json_text_or_null(directory->path));
    json_add(report, "generated", json_number((uint64_t)time(NULL)));
    json_add(report, "first", json_number((uint64_t)(history->first_ns / NS_PER_S)));
    json_add(report, "last", json_number((uint64_t)(history->last_ns / NS_PER_S)));
    json_add(report, "total", sums_to_json(&history->total));
    json_add(report, "hit_rate", hit_rate_of(&history->total));
    json_add(report, "days", list_to_json(&history->days));
    json_add(report, "misses", misses_to_json(causes));
    json_add(report, "programs", list_to_json(&history->programs));
    json_add(report, "devices", list_to_json(&history->devices));
    json_add(report, "drivers", list_to_json(&history->drivers));
    json_add(report, "upgrades", warmth_read(directory->store));
    json_add(report, "tiers", tiers_to_json(directory->store));
    json_add(report, "cache", contents_to_json(&causes->contents, directory));
    json_add(report, "journal", journal_to_json(&history->journal));
    return report;
}

static int write_report(const char *path, json_t *report, bool is_json)
{
    output_file file;
    int exit_code = output_file_begin(path, &file);
    if (exit_code != EXIT_OK) {
        json_decref(report);
        return exit_code;
    }
    if (is_json) {
        json_print(file.stream, report);
    } else {
        page_write(file.stream, report);
        json_decref(report);
    }
    return output_file_end(&file, true);
}

int cmd_report(int argc, char **argv)
{
    const char *since = NULL;
    const char *output = "-";
    command_line line = {
        .usage = usage,
        .options = {{.name = "since", .text = &since}, {.name = "output", .text = &output}},
    };
    options_read(&line, argc, argv);
    use_history history = {.since_ns = begin_of(argv[0], since) * NS_PER_S};
    /* A chain is opened as programs open it, because its first directory that is written has the
     * counters of its tiers. Nothing is changed all the same. */
    owned char *location = directory_location(line.directory);
    owned_directory directory =
        directory_open(location, strchr(location, '|') != NULL ? KILN_STORE_NO_TRIM_AT_CLOSE
                                                               : KILN_STORE_READONLY);
    miss_causes causes = {0};
    int exit_code = EXIT_OK;
    kiln_status status = history_read(directory.store, &history);
    if (status != KILN_OK) {
        owned char *what = text_of("the journal in %s", directory.path);
        exit_code = complain_of_status(what, status);
    } else if ((status = causes_find(directory.store, &history, &causes)) != KILN_OK) {
        exit_code = complain_of_status(directory.path, status);
    } else {
        history_sum_devices(&history);
        exit_code = write_report(output, report_of(&directory, &history, &causes), line.json);
    }
    causes_free(&causes);
    history_free(&history);
    return exit_code;
}
