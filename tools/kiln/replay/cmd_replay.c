/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <kiln/config.h>
#include <kiln/store_tools.h>

#include "../command/commands.h"
#include "../command/directory.h"
#include "../command/location.h"
#include "../command/low_priority.h"
#include "../command/options.h"
#include "../command/processors.h"
#include "../entry/architecture.h"
#include "../run/layers.h"
#include "../text/exit_code.h"
#include "../text/json.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "../text/progress.h"
#include "last_run.h"
#include "pool.h"
#include "warmth.h"
#include "worker.h"

static const char usage[] =
    "Usage: kiln replay [--dir DIR] [--from STORE] [--to STORE] [--nvrtc FILE] [--nvjitlink FILE]\n"
    "                   [--hiprtc FILE] [--arch NAME] [--jobs N] [--budget TIME]\n"
    "                   [--key-file FILE] [--json] [FILTERS] [DIGEST-PREFIX...]\n"
    "\n"
    "Repeats the builds of stored entries with the compilers that this machine has now, and "
    "stores\n"
    "the results as the programs themselves would: those of OpenCL, NVRTC, nvJitLink and HIPRTC.\n"
    "After an upgrade of a driver or toolkit, programs then start with everything in the cache.\n"
    "The most expensive builds come first. Each runs in a process of low priority that has no\n"
    "network and can't write files. What is in the cache already is not built again, so repeating\n"
    "an interrupted replay continues it. What can't be repeated is named, with the reason.\n"
    "\n"
    "  --dir DIR         the cache directory\n"
    "  --from STORE      the entries whose builds are repeated; default: those of the cache\n"
    "  --to STORE        where results are stored; a directory, or a chain that begins with one\n"
    "  --nvrtc FILE      the libnvrtc that compiles what NVRTC has compiled\n"
    "  --nvjitlink FILE  the libnvJitLink that links what nvJitLink has linked\n"
    "  --hiprtc FILE     the libamdhip64 or libhiprtc that compiles what HIPRTC has compiled\n"
    "  --arch NAME       compile and link for this architecture, such as sm_90 or gfx90a\n"
    "  --jobs N          how many builds run at a time; default: one for each processor\n"
    "  --budget TIME     stop after a number of seconds, or a number with a suffix d, h, m or s\n"
    "  --key-file FILE   the file with the signing key\n"
    "  --json            one JSON object\n" ENTRY_FILTER_USAGE;

#define JOBS_MAX 1024

enum { BUILT, PRESENT, FAILED, IMPOSSIBLE, LEFT, RESULTS };

static const char *const result_names[RESULTS] = {"built", "present", "failed", "impossible",
                                                  "left"};

typedef struct replay_report {
    uint64_t counts[RESULTS];
    uint64_t unreadable;
    unsigned jobs;
    json_t *entries; /* NULL: they are printed as text */
} replay_report;

/* ---- results ---- */

static size_t place_of(const char *result)
{
    size_t i = 0;
    while (i < LEFT && strcmp(result_names[i], result) != 0) {
        i++;
    }
    return i;
}

static void print_reason(const work_item *item, const char *result, const char *why,
                         const char *log)
{
    progress_hide();
    printf("%.12s ", item->digest);
    print_name(item->name);
    printf(" %s: ", result);
    print_name(why);
    putchar('\n');
    if (log != NULL && *log != '\0') {
        print_lines(log);
    }
}

static void take_result(void *user, const work_item *item, json_t *result)
{
    replay_report *report = user;
    const char *name = json_string_value(json_object_get(result, "result"));
    const char *why = json_string_value(json_object_get(result, "why"));
    const size_t place = place_of(name);
    report->counts[place]++;
    progress_step("repeated");
    if (report->entries != NULL) {
        json_t *object = must(json_object());
        json_add(object, "digest", json_text_or_null(item->digest));
        json_add(object, "name", json_text_or_null(item->name));
        json_add(object, "device", json_text_or_null(item->device));
        json_add(object, "cost_ns", json_number(item->build_ns));
        must_succeed(json_object_update(object, result));
        json_push(report->entries, object);
    } else if (place > PRESENT) {
        print_reason(item, place == IMPOSSIBLE ? "not possible" : result_names[place],
                     why == NULL ? "" : why,
                     place == FAILED ? json_string_value(json_object_get(result, "log")) : NULL);
    }
}

static void print_report(const replay_report *report)
{
    if (report->entries != NULL) {
        json_t *object = must(json_object());
        for (size_t i = 0; i < RESULTS; i++) {
            json_add(object, result_names[i], json_number(report->counts[i]));
        }
        json_add(object, "unreadable", json_number(report->unreadable));
        json_add(object, "jobs", json_number(report->jobs));
        json_add(object, "entries", report->entries);
        json_print(stdout, object);
        return;
    }
    printf("%" PRIu64 " built, %" PRIu64 " already there, %" PRIu64 " failed, %" PRIu64
           " not possible, %" PRIu64 " left\n",
           report->counts[BUILT], report->counts[PRESENT], report->counts[FAILED],
           report->counts[IMPOSSIBLE], report->counts[LEFT]);
    if (report->unreadable > 0) {
        complain("%" PRIu64 " %s: damaged, or not authenticated", report->unreadable,
                 noun_of(report->unreadable, "entry was not read", "entries were not read"));
    }
}

/* ---- options ---- */

static unsigned read_jobs(const char *command, const char *text)
{
    char *end = NULL;
    if (text == NULL) {
        const unsigned processors = processors_available();
        return processors < JOBS_MAX ? processors : JOBS_MAX;
    }
    const unsigned long jobs = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || jobs == 0 || jobs > JOBS_MAX) {
        options_wrong(command, "--jobs expects 1 to %d, not '%s'", JOBS_MAX, text);
    }
    return (unsigned)jobs;
}

/* Returns the number in "sm_90" or "90", or the text "gfx90a"; the caller frees it. */
static char *read_architecture(const char *command, const char *text)
{
    if (text == NULL) {
        return NULL;
    }
    const char *number = strncmp(text, "sm_", strlen("sm_")) == 0 ? text + strlen("sm_") : text;
    if (!architecture_is(number)) {
        options_wrong(command, "--arch expects an architecture such as sm_90 or gfx90a, not '%s'",
                      text);
    }
    return must(strdup(number));
}

static char *read_library(const char *command, const char *option, const char *path)
{
    char *absolute = path == NULL ? NULL : absolute_path(path);
    if (absolute != NULL && access(absolute, R_OK) != 0) {
        options_wrong(command, "--%s expects a file: '%s' can't be read", option, path);
    }
    return absolute;
}

/* ---- the work ---- */

/* Returns the folder of the first store, in which workers look for results; NULL: it has none. The
 * caller frees it. */
static char *folder_of(const char *location)
{
    const char *others = NULL;
    char *first = first_of_chain(location, &others);
    if (is_plain_directory(first)) {
        return first;
    }
    free(first);
    return NULL;
}

/* Copies the contents of included files, so that the entries that were made can be replayed, too. A
 * failure does no harm. */
static void copy_included(kiln_store *from, kiln_store *to)
{
    kiln_store *source = NULL, *target = NULL;
    kiln_config *config = NULL;
    must_succeed(kiln_config_from_env(NULL, NULL, &config));
    if (config->included_max_bytes > 0 &&
        kiln_included_open(from, KILN_UNLIMITED, &source) == KILN_OK &&
        kiln_included_open(to, config->included_max_bytes, &target) == KILN_OK) {
        kiln_included_copy(source, target);
    }
    kiln_store_close(&target);
    kiln_store_close(&source);
    kiln_config_free(&config);
}

static int replay(const cache_directory *from, const cache_directory *to, pool_terms *terms,
                  entry_filter *filter, const char *ahead, bool json)
{
    work_list list = {0};
    replay_report report = {.jobs = terms->jobs, .entries = json ? must(json_array()) : NULL};
    owned char *folder = folder_of(to->path), *from_folder = folder_of(from->path);
    terms->from = from->store;
    terms->to = to->store;
    terms->cache = folder;
    terms->included_beside = from_folder;
    const kiln_status status =
        work_list_read(from->store, filter, terms->build.architecture, &list);
    report.unreadable = list.unreadable;
    if (ahead != NULL) {
        last_run_put_first(from->store, ahead, &list);
    }
    warmth_put_ready_last(to->store, &list);
    progress_expect(list.count);
    pool_run(terms, &list, take_result, &report);
    progress_end();
    work_list_free(&list);
    if (report.counts[BUILT] > 0 && strcmp(from->path, to->path) != 0) {
        copy_included(from->store, to->store);
    }
    print_report(&report);
    if (status != KILN_OK) {
        return complain_of_status(from->path, status);
    }
    const bool all_match = entry_filter_check(filter);
    return report.counts[FAILED] + report.counts[LEFT] > 0 || !all_match ? EXIT_NOTHING_FOUND
                                                                         : EXIT_OK;
}

static int open_and_replay(const char *from_location, const char *to_location, pool_terms *terms,
                           entry_filter *filter, const char *ahead, bool json)
{
    owned_directory from = {0};
    owned_directory to = {0};
    int exit_code =
        directory_try_open(from_location, KILN_STORE_READONLY | KILN_STORE_NO_CREATE, &from);
    if (exit_code == EXIT_OK && from.store == NULL) {
        complain("%s does not exist: nothing is cached there", from.path);
        return EXIT_NOTHING_FOUND;
    }
    if (exit_code == EXIT_OK) {
        exit_code = directory_try_open(to_location, 0, &to);
    }
    if (exit_code == EXIT_OK) {
        layers_insert(true);
        exit_code = replay(&from, &to, terms, filter, ahead, json);
    }
    return exit_code;
}

int cmd_replay(int argc, char **argv)
{
    const char *from = NULL, *to = NULL, *jobs = NULL, *budget = NULL, *parent = NULL,
               *ahead = NULL;
    build_terms build = {0};
    entry_filter filter = {0};
    command_line line = {
        .usage = usage,
        .options = {{.name = "from", .text = &from},
                    {.name = "to", .text = &to},
                    ENTRY_FILTER_OPTIONS(filter),
                    {.name = "nvrtc", .text = &build.nvrtc},
                    {.name = "nvjitlink", .text = &build.nvjitlink},
                    {.name = "hiprtc", .text = &build.hiprtc},
                    {.name = "arch", .text = &build.architecture},
                    {.name = "jobs", .text = &jobs},
                    {.name = "budget", .text = &budget},
                    /* internal: a program that has started after an upgrade */
                    {.name = "ahead", .text = &ahead},
                    {.name = "serve", .text = &parent}},
        .operands_max = -1,
    };
    options_read(&line, argc, argv);
    low_priority_set();
    if (parent != NULL) {
        return worker_run(&(worker_terms){.parent = parent,
                                          .build = build,
                                          .included_beside = from,
                                          .cache = to,
                                          .sandboxed = jobs != NULL});
    }
    if (from != NULL && strncmp(from, "pack:", strlen("pack:")) == 0) {
        options_wrong(argv[0], "unpack the pack first: 'kiln unpack' says who is trusted");
    }
    owned char *nvrtc = read_library(argv[0], "nvrtc", build.nvrtc);
    owned char *nvjitlink = read_library(argv[0], "nvjitlink", build.nvjitlink);
    owned char *hiprtc = read_library(argv[0], "hiprtc", build.hiprtc);
    owned char *architecture = read_architecture(argv[0], build.architecture);
    pool_terms terms = {.build = {.nvrtc = nvrtc,
                                  .nvjitlink = nvjitlink,
                                  .hiprtc = hiprtc,
                                  .architecture = architecture},
                        .jobs = read_jobs(argv[0], jobs),
                        .budget_ns = options_budget_s(argv[0], budget) * UINT64_C(1000000000)};
    entry_filter_read(&filter, argv[0], line.operands);
    const int exit_code =
        open_and_replay(from == NULL ? line.directory : from, to == NULL ? line.directory : to,
                        &terms, &filter, ahead, line.json);
    entry_filter_done(&filter);
    return exit_code;
}
