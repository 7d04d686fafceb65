/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

#include "../command/commands.h"
#include "../command/directory.h"
#include "../command/options.h"
#include "../dpcpp/dpcpp.h"
#include "../text/exit_code.h"
#include "../text/json.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "other_layout.h"
#include "stale.h"

static const char usage[] =
    "Usage: kiln trim [--dir DIR] [--key-file FILE] [--max-size SIZE] [--older-than AGE] "
    "[--stale]\n"
    "                 [--dry-run] [--json]\n"
    "       kiln trim --layout dpcpp [--dir DIR] [--max-size SIZE] [--older-than AGE] [--yes]\n"
    "                 [--grace SECONDS] [--json]\n"
    "\n"
    "Removes entries until the cache fits its limit, and temporary files of writers that died.\n"
    "Entries that were cheap to build for their size and have not been used for long are removed\n"
    "first. Without an option that selects what to remove, the limit is the one that programs\n"
    "observe.\n"
    "\n"
    "From a cache that a SYCL runtime wrote, removes the least recently used items, and repairs\n"
    "what verify finds. Without --yes, only prints what it would do.\n"
    "\n"
    "  --dir DIR         the cache directory\n"
    "  --key-file FILE   the file with the signing key\n"
    "  --max-size SIZE   what may remain: bytes, or a number with a suffix K, M, G or T\n"
    "  --older-than AGE  remove what was not used for this long: days, or a number with a suffix\n"
    "                    d, h, m or s\n"
    "  --stale           remove what was built by drivers that have been replaced; loads OpenCL\n"
    "                    with the drivers that are found here\n"
    "  --dry-run         remove nothing, and print what would be removed\n"
    "  --layout LAYOUT   dpcpp: a cache that a SYCL runtime wrote\n"
    "  --yes             with --layout: change the cache\n"
    "  --grace SECONDS   the age from which a lock of a SYCL runtime's cache counts as\n"
    "                    abandoned; default: 600\n"
    "  --json            one JSON object\n";

typedef struct trim_order {
    kiln_trim_params params;
    bool has_limits, stale, dry_run, json;
} trim_order;

typedef struct trim_outcome {
    kiln_trim_report report;
    stale_count stale;
} trim_outcome;

static void read_order(const char *command, const char *max_size, const char *older_than,
                       trim_order *order)
{
    order->params = (kiln_trim_params){
        .struct_size = sizeof order->params,
        .flags =
            (order->dry_run ? KILN_TRIM_DRY_RUN : 0) | (max_size != NULL ? KILN_TRIM_BY_SIZE : 0),
        .max_bytes = options_max_size(command, max_size, 0),
        .older_than_s = options_older_than_s(command, older_than),
    };
    order->has_limits = max_size != NULL || older_than != NULL || !order->stale;
}

static void print_left(uint64_t entries, uint64_t bytes)
{
    char size[UNIT_TEXT_SIZE];
    printf("; %" PRIu64 " left, %s\n", entries, format_size(bytes, size));
}

static void print_removed(uint64_t entries, uint64_t bytes, const char *of, bool dry_run)
{
    char size[UNIT_TEXT_SIZE];
    printf("%" PRIu64 " %s%s %s, %s", entries, noun_of(entries, "entry", "entries"), of,
           dry_run ? "would be removed" : "removed", format_size(bytes, size));
}

static void print_stale(const trim_outcome *outcome, const trim_order *order)
{
    print_removed(outcome->stale.stale, outcome->stale.stale_bytes, " of replaced drivers",
                  order->dry_run);
    if (order->has_limits) {
        putchar('\n');
    } else {
        print_left(outcome->report.entries, outcome->report.bytes);
    }
    if (outcome->stale.unknown > 0) {
        complain("%" PRIu64 " %s: it is not known whether the driver has been replaced",
                 outcome->stale.unknown, noun_of(outcome->stale.unknown, "entry", "entries"));
    }
}

static void print_trimmed(const kiln_trim_report *report, const trim_order *order)
{
    print_removed(report->removed, report->removed_bytes, "", order->dry_run);
    print_left(report->entries, report->bytes);
    if (order->stale && order->dry_run) {
        complain("the last line does not take the entries of replaced drivers into account");
    }
}

static void print_outcome(const trim_outcome *outcome, const trim_order *order)
{
    const kiln_trim_report *report = &outcome->report;
    if (order->json) {
        json_t *object = must(json_object());
        json_add(object, "removed", json_number(report->removed));
        json_add(object, "removed_bytes", json_number(report->removed_bytes));
        json_add(object, "stale", json_number(outcome->stale.stale));
        json_add(object, "stale_bytes", json_number(outcome->stale.stale_bytes));
        json_add(object, "undetermined", json_number(outcome->stale.unknown));
        json_add(object, "entries", json_number(report->entries));
        json_add(object, "bytes", json_number(report->bytes));
        json_add(object, "dry_run", json_boolean(order->dry_run));
        json_print(stdout, object);
        return;
    }
    if (order->stale) {
        print_stale(outcome, order);
    }
    if (order->has_limits) {
        print_trimmed(report, order);
    }
}

/* Returns the limit that programs observe. With KILN_MAX_SIZE=0 programs store nothing, but that is
 * no reason to remove anything. */
static uint64_t limit_of(const cache_directory *directory)
{
    kiln_store_stat stat = {.struct_size = sizeof stat};
    const bool is_known =
        kiln_store_get_stat(directory->store, KILN_STAT_KNOWN, &stat) == KILN_OK &&
        stat.max_bytes > 0;
    return is_known && directory->max_bytes > 0 ? stat.max_bytes : KILN_UNLIMITED;
}

/* Subtracts stale entries, which the counts of a dry run still include. */
static void subtract_stale(trim_outcome *outcome)
{
    kiln_trim_report *report = &outcome->report;
    const stale_count *stale = &outcome->stale;
    report->entries -= stale->stale < report->entries ? stale->stale : report->entries;
    report->bytes -= stale->stale_bytes < report->bytes ? stale->stale_bytes : report->bytes;
}

static kiln_status trim(const cache_directory *directory, trim_order *order, trim_outcome *outcome)
{
    kiln_status status = KILN_OK;
    outcome->report.struct_size = sizeof outcome->report;
    if (order->stale) {
        status = stale_remove(directory->store, order->dry_run, &outcome->stale);
    }
    if (!(order->params.flags & KILN_TRIM_BY_SIZE) && order->params.older_than_s == 0 &&
        order->has_limits) {
        order->params.flags |= KILN_TRIM_BY_SIZE;
        order->params.max_bytes = limit_of(directory);
    }
    if (status == KILN_OK) {
        status = kiln_store_trim(directory->store, &order->params, &outcome->report);
    }
    if (order->dry_run && !order->has_limits) {
        subtract_stale(outcome);
    }
    return status;
}

static const char *why_not(kiln_status status)
{
    switch (status) {
    case KILN_BUSY:
        return "another process is trimming it";
    case KILN_E_UNSUPPORTED:
        return "it is not trimmed: a pack never changes, and a server removes entries itself, as "
               "configured there and by expire=";
    default:
        return kiln_status_text(status);
    }
}

static int trim_and_print(const cache_directory *directory, trim_order *order)
{
    trim_outcome outcome = {.stale = {0}};
    const kiln_status status = trim(directory, order, &outcome);
    if (status == KILN_OK) {
        print_outcome(&outcome, order);
    } else {
        complain("%s: %s", directory->path, why_not(status));
    }
    return exit_code_of(status);
}

int cmd_trim(int argc, char **argv)
{
    const char *max_size = NULL;
    const char *older_than = NULL;
    const char *layout = NULL;
    dpcpp_permission permission = {0};
    trim_order order = {.has_limits = false};
    command_line line = {
        .usage = usage,
        .options = {{.name = "max-size", .text = &max_size},
                    {.name = "older-than", .text = &older_than},
                    {.name = "stale", .flag = &order.stale},
                    {.name = "dry-run", .flag = &order.dry_run},
                    {.name = "layout", .text = &layout},
                    {.name = "yes", .flag = &permission.yes},
                    {.name = "grace", .text = &permission.grace}},
    };
    options_read(&line, argc, argv);
    if (layout != NULL) {
        if (order.stale || order.dry_run) {
            options_wrong(argv[0], "--stale and --dry-run can't be combined with --layout");
        }
        const dpcpp_request request = {argv[0], layout, line.directory, line.json};
        return dpcpp_trim(&request, max_size, older_than, &permission);
    }
    if (permission.yes || permission.grace != NULL) {
        options_wrong(argv[0], "--yes and --grace require --layout");
    }
    order.json = line.json;
    read_order(argv[0], max_size, older_than, &order);
    owned_directory directory =
        directory_open(line.directory, order.dry_run ? KILN_STORE_READONLY : 0);
    return other_layout_has_all(&directory) ? EXIT_NOTHING_FOUND
                                            : trim_and_print(&directory, &order);
}
