/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

#include "../command/commands.h"
#include "../command/directory.h"
#include "../command/location.h"
#include "../command/options.h"
#include "../dpcpp/dpcpp.h"
#include "../text/exit_code.h"
#include "../text/json.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "../text/units.h"
#include "listing.h"
#include "other_layout.h"
#include "removal.h"
#include "stale.h"
#include "walk.h"

static const char usage[] =
    "Usage: kiln trim [--dir DIR] [--key-file FILE] [--max-size SIZE] [--stale [--devices LIST]]\n"
    "                 [--dry-run] [--json] [FILTERS]\n"
    "       kiln trim --layout dpcpp [--dir DIR] [--max-size SIZE] [--older-than AGE] [--yes]\n"
    "                 [--grace SECONDS] [--json]\n"
    "\n"
    "Removes entries until the cache fits its limit, and temporary files of writers that died.\n"
    "Entries that were cheap to build for their size and have not been used for long are removed\n"
    "first. Without an option that selects what to remove, the limit is the one that programs\n"
    "observe. --older-than removes everything that was not used for so long. With other filters,\n"
    "only the entries that they select are removed, the least recently used first: all of them if\n"
    "--older-than is given without --max-size, otherwise until the cache fits its limit.\n"
    "\n"
    "A Redis server or a bucket of S3 is trimmed only with --max-size, --older-than or --stale.\n"
    "\n"
    "From a cache that a SYCL runtime wrote, removes the least recently used items, and repairs\n"
    "what verify finds. Without --yes, only prints what it would do.\n"
    "\n"
    "  --dir DIR         the cache directory\n"
    "  --key-file FILE   the file with the signing key\n"
    "  --max-size SIZE   what may remain: bytes, or a number with a unit, such as 500M, 10MiB\n"
    "                    or 2GB\n"
    "  --stale           remove what was built by drivers that have been replaced, or for devices\n"
    "                    and drivers that no machine has used for 30 days, or for AGE; loads\n"
    "                    OpenCL with the drivers that are found here\n"
    "  --devices LIST    with --stale: what other machines use: a list that kiln ls --sign has\n"
    "                    made, or a folder of such lists\n"
    "  --dry-run         remove nothing, and print what would be removed\n"
    "  --layout LAYOUT   dpcpp: a cache that a SYCL runtime wrote\n"
    "  --yes             with --layout: change the cache\n"
    "  --grace SECONDS   the age from which a lock of a SYCL runtime's cache counts as\n"
    "                    abandoned; default: 600\n"
    "  --json            one JSON object\n" ENTRY_FILTER_USAGE;

typedef struct trim_order {
    kiln_trim_params params;
    entry_filter filter;
    stale_terms stale_terms;
    bool has_limits, stale, dry_run, json;
} trim_order;

typedef struct trim_outcome {
    kiln_trim_report report;
    stale_count stale;
} trim_outcome;

static void read_order(const char *command, const char *max_size, trim_order *order)
{
    const entry_filter *filter = &order->filter;
    order->params = (kiln_trim_params){
        .struct_size = sizeof order->params,
        .flags =
            (order->dry_run ? KILN_TRIM_DRY_RUN : 0) | (max_size != NULL ? KILN_TRIM_BY_SIZE : 0),
        .max_bytes = options_size(command, "max-size", max_size, 0),
        /* With --stale, this is an age of devices. */
        .older_than_s = order->stale ? 0 : options_age_s(command, "older-than", filter->older_than),
    };
    order->stale_terms.unseen_s = filter->older_than != NULL
                                      ? options_age_s(command, "older-than", filter->older_than)
                                      : STALE_UNSEEN_S;
    order->stale_terms.dry_run = order->dry_run;
    order->has_limits = max_size != NULL || !order->stale;
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
    print_removed(outcome->stale.stale, outcome->stale.stale_bytes, " of drivers that are gone",
                  order->dry_run);
    if (order->has_limits) {
        putchar('\n');
    } else {
        print_left(outcome->report.entries, outcome->report.bytes);
    }
    if (outcome->stale.unknown > 0) {
        complain("%" PRIu64 " %s: it is not known whether the driver is gone",
                 outcome->stale.unknown, noun_of(outcome->stale.unknown, "entry", "entries"));
    }
}

static void print_trimmed(const kiln_trim_report *report, const trim_order *order)
{
    print_removed(report->removed, report->removed_bytes, "", order->dry_run);
    print_left(report->entries, report->bytes);
    if (order->stale && order->dry_run) {
        complain("the last line does not take the entries of such drivers into account");
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

/* Chooses what to remove until @excess bytes are freed, the least recently used first, and counts
 * it.
 */
static void choose(const store_listing *listing, uint64_t excess, trim_order *order,
                   kiln_trim_report *report)
{
    entry_filter *filter = &order->filter;
    for (size_t i = listing->count; i-- > 0 && report->removed_bytes < excess;) {
        if (filter->limit > 0 && report->removed == filter->limit) {
            break;
        }
        entry_filter_choose(filter, listing->items[i].digest);
        report->removed++;
        report->removed_bytes += listing->items[i].stored_bytes;
    }
    entry_filter_choose_end(filter);
}

/* Trims only entries that the filter selects. */
static kiln_status trim_selected(const cache_directory *directory, trim_order *order,
                                 kiln_trim_report *report)
{
    kiln_store_stat stat = {.struct_size = sizeof stat};
    store_listing listing;
    kiln_status status = kiln_store_get_stat(directory->store, 0, &stat);
    if (status == KILN_OK) {
        status = listing_read(directory->store, &order->filter, &listing);
    }
    if (status != KILN_OK) {
        return status;
    }
    const uint64_t max_bytes = order->params.max_bytes;
    const bool is_by_size = (order->params.flags & KILN_TRIM_BY_SIZE) != 0;
    choose(&listing,
           !is_by_size              ? UINT64_MAX
           : stat.bytes > max_bytes ? stat.bytes - max_bytes
                                    : 0,
           order, report);
    listing_free(&listing);
    if (!order->dry_run) {
        removal_work removal = {0};
        status = removal_run(directory->store, &order->filter, &removal);
        report->removed = removal.removed;
        report->removed_bytes = removal.removed_bytes;
    }
    report->entries = stat.entries - report->removed;
    report->bytes = stat.bytes - report->removed_bytes;
    return status;
}

/* Counts the entries of a store that is not trimmed. */
static kiln_status count_left(kiln_store *store, kiln_trim_report *report)
{
    kiln_store_stat stat = {.struct_size = sizeof stat};
    const kiln_status status = kiln_store_get_stat(store, 0, &stat);
    report->entries = stat.entries;
    report->bytes = stat.bytes;
    return status;
}

static kiln_status trim(const cache_directory *directory, trim_order *order, trim_outcome *outcome)
{
    kiln_status status = KILN_OK;
    outcome->report.struct_size = sizeof outcome->report;
    walk_expect(directory);
    if (order->stale) {
        status =
            stale_remove(directory->store, &order->filter, &order->stale_terms, &outcome->stale);
    }
    if (!(order->params.flags & KILN_TRIM_BY_SIZE) && order->params.older_than_s == 0 &&
        order->has_limits) {
        order->params.flags |= KILN_TRIM_BY_SIZE;
        order->params.max_bytes = limit_of(directory);
    }
    if (status == KILN_OK && order->has_limits && entry_filter_is_set_otherwise(&order->filter)) {
        status = trim_selected(directory, order, &outcome->report);
    } else if (status == KILN_OK) {
        status = kiln_store_trim(directory->store, &order->params, &outcome->report);
    }
    if (status == KILN_E_UNSUPPORTED && !order->has_limits) {
        status = count_left(directory->store, &outcome->report);
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
        return "it is not trimmed: a pack never changes, an HTTP server cannot list its entries, "
               "so only a command on the server can remove them, and programs that write to a "
               "group's directory keep it within max-size=";
    case KILN_E_DENIED:
        return "the server, or the owner or mode of a file or folder, does not allow this user to "
               "trim it";
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
    const char *layout = NULL;
    dpcpp_permission permission = {0};
    trim_order order = {.has_limits = false};
    command_line line = {
        .usage = usage,
        .options = {ENTRY_FILTER_OPTIONS(order.filter),
                    {.name = "max-size", .text = &max_size},
                    {.name = "stale", .flag = &order.stale},
                    {.name = "devices", .text = &order.stale_terms.lists},
                    {.name = "dry-run", .flag = &order.dry_run},
                    {.name = "layout", .text = &layout},
                    {.name = "yes", .flag = &permission.yes},
                    {.name = "grace", .text = &permission.grace}},
    };
    options_read(&line, argc, argv);
    if (layout != NULL) {
        if (order.stale || order.dry_run || entry_filter_is_set_otherwise(&order.filter)) {
            options_wrong(argv[0], "--stale, --dry-run and filters except --older-than can't be "
                                   "combined with --layout");
        }
        const dpcpp_request request = {argv[0], layout, line.directory, line.json};
        return dpcpp_trim(&request, max_size, order.filter.older_than, &permission);
    }
    if (order.stale_terms.lists != NULL && !order.stale) {
        options_wrong(argv[0], "--devices requires --stale");
    }
    if (permission.yes || permission.grace != NULL) {
        options_wrong(argv[0], "--yes and --grace require --layout");
    }
    order.json = line.json;
    read_order(argv[0], max_size, &order);
    entry_filter_read(&order.filter, argv[0], line.operands + line.operand_count);
    owned_directory directory =
        directory_open(line.directory, order.dry_run ? KILN_STORE_READONLY : 0);
    if (max_size == NULL && order.filter.older_than == NULL && !order.stale &&
        is_server(directory.path)) {
        options_wrong(argv[0], "a server has no limit that this command knows: give --max-size, "
                               "--older-than or --stale");
    }
    const int exit_code =
        other_layout_has_all(&directory) ? EXIT_NOTHING_FOUND : trim_and_print(&directory, &order);
    entry_filter_done(&order.filter);
    return exit_code;
}
