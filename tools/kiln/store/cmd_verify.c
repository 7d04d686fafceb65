/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <kiln/store_tools.h>

#include "../command/commands.h"
#include "../command/directory.h"
#include "../command/options.h"
#include "../dpcpp/dpcpp.h"
#include "../text/confirm.h"
#include "../text/exit_code.h"
#include "../text/json.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "../text/progress.h"
#include "listing.h"
#include "other_layout.h"
#include "walk.h"

static const char usage[] =
    "Usage: kiln verify [--dir DIR] [--key-file FILE] [--repair [--yes] | --quarantine] [--json]\n"
    "                   [FILTERS]\n"
    "       kiln verify --layout dpcpp [--dir DIR] [--repair] [--yes] [--grace SECONDS] [--json]\n"
    "\n"
    "Reads and checks every entry, and names each damaged one. Nothing has to be removed: a\n"
    "program that needs a damaged entry builds it again and replaces it.\n"
    "\n"
    "  --dir DIR        the cache directory\n"
    "  --key-file FILE  also name entries that are not signed with the key in this file\n"
    "  --layout LAYOUT  dpcpp: a cache that a SYCL runtime wrote\n"
    "  --repair         remove damaged entries, after asking; with --layout, print what would be\n"
    "                   repaired, and with --yes, repair it\n"
    "  --quarantine     move damaged entries on servers to names under which no program looks for "
    "them\n"
    "  --yes            don't ask; required if stdin is not a terminal\n"
    "  --grace SECONDS  the age from which a lock counts as abandoned; default: 600\n"
    "  --json           one JSON object\n" ENTRY_FILTER_USAGE;

typedef struct verification {
    kiln_verify_report report;
    entry_filter *filter;
    bool quarantines;
    uint64_t quarantined;
    uint64_t unreadable; /* how many of the report's corrupt entries could not be read */
    char (*damaged)[KILN_DIGEST_TEXT_SIZE];
    size_t damaged_count, capacity;
} verification;

static bool is_unreadable(kiln_status status)
{
    return status != KILN_OK && status != KILN_E_CORRUPT && status != KILN_E_VERSION &&
           status != KILN_E_UNAUTHENTICATED;
}

static void add_damaged(verification *work, const kiln_digest *digest)
{
    work->damaged =
        array_grown(work->damaged, work->damaged_count, &work->capacity, sizeof *work->damaged);
    kiln_digest_format(digest, work->damaged[work->damaged_count++]);
}

/* Reports an item with its path, which a user who has to repair the file needs, above all if its
 * key is not known. */
static void report_item(const kiln_item_info *info, const char *why)
{
    static const kiln_digest unknown;
    char digest[KILN_DIGEST_TEXT_SIZE];
    kiln_digest_format(&info->digest, digest);
    if (memcmp(&info->digest, &unknown, sizeof unknown) == 0) {
        complain("%s: %s", info->path, why);
    } else {
        complain("%s: %s (%s)", digest, why, info->path);
    }
}

static void quarantine(verification *work, kiln_item *item, const kiln_item_info *info)
{
    const kiln_status status = kiln_item_quarantine(item);
    work->quarantined += status == KILN_OK;
    if (status != KILN_OK && status != KILN_MISS && status != KILN_EXISTS) {
        report_item(info, status == KILN_E_UNSUPPORTED
                              ? "not moved, since it is not on a server: --repair removes it"
                              : kiln_status_text(status));
    }
}

static void take_result(void *user, kiln_item *item, kiln_status status, const char *why)
{
    verification *work = user;
    work->unreadable += is_unreadable(status);
    kiln_item_info info = {.struct_size = sizeof info};
    if (status == KILN_OK || kiln_item_get_info(item, &info) != KILN_OK) {
        return; /* intact, or removed meanwhile */
    }
    report_item(&info, why);
    if (status == KILN_E_CORRUPT) {
        add_damaged(work, &info.digest);
        if (work->quarantines) {
            quarantine(work, item, &info);
        }
    }
}

static void take_checked(void *user, kiln_item *item, kiln_status status, const char *why)
{
    progress_step("checked");
    take_result(user, item, status, why);
}

/* ---- repair ---- */

static int compare_digests(const void *left, const void *right)
{
    return strcmp(left, right);
}

/* Removes an item that was found damaged, unless it was replaced meanwhile. */
static int remove_if_damaged(void *user, kiln_item *item, const kiln_item_info *info,
                             const char *digest)
{
    (void)info;
    verification *work = user;
    if (bsearch(digest, work->damaged, work->damaged_count, sizeof *work->damaged,
                compare_digests) == NULL) {
        return 0;
    }
    kiln_entry *entry = NULL;
    kiln_status status = kiln_item_read(item, &entry);
    kiln_entry_release(&entry);
    if (status != KILN_E_CORRUPT) {
        return 0;
    }
    status = kiln_item_remove(item);
    work->report.removed += status == KILN_OK;
    if (status != KILN_OK && status != KILN_MISS) {
        complain("%s: %s", digest, kiln_status_text(status));
    }
    return 0;
}

static kiln_status repair(kiln_store *store, verification *work, bool yes)
{
    if (work->damaged_count == 0 ||
        !(yes || confirmed("Remove %zu damaged %s?", work->damaged_count,
                           noun_of(work->damaged_count, "entry", "entries")))) {
        return KILN_OK;
    }
    qsort(work->damaged, work->damaged_count, sizeof *work->damaged, compare_digests);
    return walk_items(store, remove_if_damaged, work);
}

/* ---- the command ---- */

static const char *reason_of(kiln_status status)
{
    return status == KILN_OK ? NULL : kiln_status_text(status);
}

/* Checks an item that the filter selects, and counts it as kiln_store_verify does. */
static int check_item(void *user, kiln_item *item, const kiln_item_info *info, const char *digest)
{
    (void)digest;
    verification *work = user;
    kiln_verify_report *report = &work->report;
    kiln_entry *entry = NULL;
    progress_step("looked at");
    if (!entry_filter_selects_item(work->filter, item, info)) {
        return 0;
    }
    const kiln_status status = kiln_item_read(item, &entry);
    kiln_entry_release(&entry);
    if (status == KILN_MISS) {
        return 0;
    }
    report->checked++;
    report->ok += status == KILN_OK;
    report->newer += status == KILN_E_VERSION;
    report->unauthenticated += status == KILN_E_UNAUTHENTICATED;
    report->corrupt += status == KILN_E_CORRUPT || is_unreadable(status);
    take_result(work, item, status, reason_of(status));
    return 0;
}

static kiln_status check_all(kiln_store *store, verification *work)
{
    if (!entry_filter_is_set(work->filter)) {
        return kiln_store_verify(store, take_checked, work, &work->report);
    }
    const kiln_status status = listing_choose(store, work->filter);
    return status == KILN_OK ? walk_items(store, check_item, work) : status;
}

/* @is_complete  false: not everything was checked */
static void print_report(const verification *work, uint64_t corrupt, bool is_complete, bool json)
{
    const kiln_verify_report *report = &work->report;
    if (json) {
        json_t *object = must(json_object());
        json_add(object, "checked", json_number(report->checked));
        json_add(object, "ok", json_number(report->ok));
        json_add(object, "corrupt", json_number(corrupt));
        json_add(object, "newer", json_number(report->newer));
        json_add(object, "removed", json_number(report->removed));
        if (work->quarantines) {
            json_add(object, "quarantined", json_number(work->quarantined));
        }
        json_add(object, "unauthenticated", json_number(report->unauthenticated));
        json_add(object, "unreadable", json_number(work->unreadable));
        json_add(object, "complete", json_boolean(is_complete));
        json_print(stdout, object);
        return;
    }
    printf("%" PRIu64 " checked: %" PRIu64 " ok, %" PRIu64 " corrupt, %" PRIu64
           " of a newer format",
           report->checked, report->ok, corrupt, report->newer);
    if (report->unauthenticated > 0) {
        printf(", %" PRIu64 " not signed with the key", report->unauthenticated);
    }
    if (work->unreadable > 0) {
        printf(", %" PRIu64 " not readable or not trusted", work->unreadable);
    }
    if (report->removed > 0) {
        printf("; %" PRIu64 " removed", report->removed);
    }
    if (work->quarantined > 0) {
        printf("; %" PRIu64 " moved to quarantine", work->quarantined);
    }
    if (!is_complete) {
        printf("; not everything was checked");
    }
    putchar('\n');
}

static kiln_status check(const cache_directory *directory, verification *work)
{
    kiln_status status = KILN_OK;
    if (directory->store != NULL) {
        walk_expect(directory);
        status = check_all(directory->store, work);
    }
    progress_end();
    if (status == KILN_E_CORRUPT) {
        complain("%s: a page of the index is damaged: the entries that it lists were not checked",
                 directory->path);
    } else if (status != KILN_OK) {
        complain("%s: %s", directory->path, kiln_status_text(status));
    }
    return status;
}

static int verify(const cache_directory *directory, entry_filter *filter, bool repairs,
                  bool quarantines, bool yes, bool json)
{
    verification work = {
        .report.struct_size = sizeof work.report, .filter = filter, .quarantines = quarantines};
    kiln_status status = check(directory, &work);
    const bool is_complete = status == KILN_OK;
    const kiln_status repaired = repairs ? repair(directory->store, &work, yes) : KILN_OK;
    free(work.damaged);
    if (is_complete && repaired != KILN_OK) {
        complain("%s: %s", directory->path, kiln_status_text(repaired));
        status = repaired;
    }
    const uint64_t corrupt = work.report.corrupt - work.unreadable;
    print_report(&work, corrupt, is_complete, json);
    if (status != KILN_OK) {
        return exit_code_of(status);
    }
    if (corrupt > work.report.removed + work.quarantined || work.report.unauthenticated > 0) {
        return EXIT_DAMAGED;
    }
    return work.unreadable > 0 ? EXIT_IO : EXIT_OK;
}

int cmd_verify(int argc, char **argv)
{
    bool repairs = false;
    bool quarantines = false;
    const char *layout = NULL;
    dpcpp_permission permission = {0};
    entry_filter filter = {0};
    command_line line = {
        .usage = usage,
        .options = {ENTRY_FILTER_OPTIONS(filter),
                    {.name = "layout", .text = &layout},
                    {.name = "repair", .flag = &repairs},
                    {.name = "quarantine", .flag = &quarantines},
                    {.name = "yes", .flag = &permission.yes},
                    {.name = "grace", .text = &permission.grace}},
    };
    options_read(&line, argc, argv);
    const bool yes = permission.yes;
    if (yes && !repairs) {
        options_wrong(argv[0], "--yes requires --repair");
    }
    if (quarantines && (repairs || layout != NULL)) {
        options_wrong(argv[0], "--quarantine excludes --repair and --layout");
    }
    if (layout != NULL) {
        if (entry_filter_is_set(&filter)) {
            options_wrong(argv[0], "filters can't be combined with --layout");
        }
        const dpcpp_request request = {argv[0], layout, line.directory, line.json};
        return dpcpp_verify(&request, repairs, &permission);
    }
    if (permission.grace != NULL) {
        options_wrong(argv[0], "--grace requires --layout");
    }
    if (repairs && !yes && !isatty(STDIN_FILENO)) {
        options_wrong(argv[0], "stdin is not a terminal, so this command cannot ask: give --yes");
    }
    entry_filter_read(&filter, argv[0], line.operands + line.operand_count);
    owned_directory directory =
        directory_open(line.directory, repairs || quarantines ? 0 : KILN_STORE_READONLY);
    const int exit_code = other_layout_has_all(&directory)
                              ? EXIT_NOTHING_FOUND
                              : verify(&directory, &filter, repairs, quarantines, yes, line.json);
    entry_filter_done(&filter);
    return exit_code;
}
