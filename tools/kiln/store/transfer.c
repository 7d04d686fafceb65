/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer.h"

#include <inttypes.h>
#include <string.h>

#include <kiln/store_tools.h>

#include "../command/directory.h"
#include "../command/location.h"
#include "../opencl/installed_drivers.h"
#include "../text/exit_code.h"
#include "../text/json.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "../text/progress.h"
#include "../text/units.h"
#include "listing.h"
#include "walk.h"

typedef struct transfer_work {
    const transfer_terms *terms;
    installed_drivers *drivers; /* NULL: all fit */
    uint64_t unfit;
} transfer_work;

static int wants_item(void *user, const kiln_item_info *info)
{
    const transfer_work *work = user;
    progress_step("looked at");
    return work->terms->filter == NULL || entry_filter_selects(work->terms->filter, info, NULL);
}

static int wants_entry(void *user, const kiln_entry *entry)
{
    transfer_work *work = user;
    const kiln_key *key = kiln_entry_key(entry);
    if (work->terms->filter != NULL && !entry_filter_selects_key(work->terms->filter, key)) {
        return 0;
    }
    const bool fits = work->drivers == NULL || installed_drivers_fit(work->drivers, key);
    work->unfit += !fits;
    return fits;
}

static void print_report(const kiln_copy_report *report, const transfer_work *work)
{
    if (work->terms->json) {
        json_t *object = must(json_object());
        json_add(object, "taken", json_number(report->taken));
        json_add(object, "taken_bytes", json_number(report->taken_bytes));
        json_add(object, "present", json_number(report->present));
        json_add(object, "unauthenticated", json_number(report->unauthenticated));
        json_add(object, "damaged", json_number(report->damaged));
        json_add(object, "refused", json_number(report->refused));
        json_add(object, "gone", json_number(report->gone));
        json_add(object, "unfit", json_number(work->unfit));
        json_print(stdout, object);
        return;
    }
    char size[UNIT_TEXT_SIZE];
    printf("%" PRIu64 " copied, %s, %" PRIu64 " already there, %" PRIu64
           " not authenticated, %" PRIu64 " damaged, %" PRIu64 " refused\n",
           report->taken, format_size(report->taken_bytes, size), report->present,
           report->unauthenticated, report->damaged, report->refused);
    if (work->unfit > 0) {
        complain("%" PRIu64 " %s left out: made for a driver or device that is not here",
                 work->unfit, noun_of(work->unfit, "entry is", "entries are"));
    }
    if (report->gone > 0) {
        complain("%" PRIu64 " %s: removed meanwhile, or too large", report->gone,
                 noun_of(report->gone, "entry was not read", "entries were not read"));
    }
}

static int exit_code_of_report(const kiln_copy_report *report)
{
    if (report->damaged > 0) {
        return EXIT_DAMAGED;
    }
    return report->unauthenticated > 0 || report->refused > 0 ? EXIT_IO : EXIT_OK;
}

static kiln_status copy(const cache_directory *from, const cache_directory *into,
                        transfer_work *work, kiln_copy_report *report, kiln_error *error)
{
    const kiln_copy_params params = {
        .struct_size = sizeof params,
        .flags = work->terms->trusts ? KILN_COPY_TRUST : 0,
        .wants_item = wants_item,
        .wants_entry = wants_entry,
        .user = work,
    };
    walk_expect(from);
    kiln_status status =
        work->terms->filter == NULL ? KILN_OK : listing_choose(from->store, work->terms->filter);
    if (status != KILN_OK) {
        return status;
    }
    if (work->terms->only_fitting) {
        work->drivers = installed_drivers_find();
    }
    status = kiln_store_copy(from->store, into->store, &params, report, error);
    progress_end();
    if (work->terms->only_fitting) {
        installed_drivers_free(work->drivers);
    }
    return status;
}

static int copy_and_print(const cache_directory *from, const cache_directory *into,
                          const transfer_terms *terms)
{
    transfer_work work = {.terms = terms};
    kiln_copy_report report = {.struct_size = sizeof report};
    kiln_error error = {.struct_size = sizeof error};
    const kiln_status status = copy(from, into, &work, &report, &error);
    if (status == KILN_OK || report.taken > 0) {
        print_report(&report, &work);
    }
    if (status != KILN_OK) {
        complain("%s", error_text(&error, status));
        return exit_code_of(status);
    }
    const bool all_match = terms->filter == NULL || entry_filter_check(terms->filter);
    const int exit_code = exit_code_of_report(&report);
    return exit_code == EXIT_OK && !all_match ? EXIT_NOTHING_FOUND : exit_code;
}

static int open_source(const char *location, bool trusts, cache_directory *ret_directory)
{
    const uint32_t flags = KILN_STORE_READONLY | KILN_STORE_NO_CREATE;
    const int exit_code = trusts ? directory_try_open_without_key(location, flags, ret_directory)
                                 : directory_try_open(location, flags, ret_directory);
    if (exit_code == EXIT_OK && ret_directory->store == NULL) {
        complain("%s does not exist: nothing is cached there", ret_directory->path);
        return EXIT_NOTHING_FOUND;
    }
    return exit_code;
}

int transfer_run(const char *from, const char *into, const transfer_terms *terms)
{
    owned_directory source = {0};
    owned_directory target = {0};
    int exit_code = open_source(from, terms->trusts, &source);
    if (exit_code == EXIT_OK) {
        exit_code = directory_try_open(into, 0, &target);
    }
    return exit_code == EXIT_OK ? copy_and_print(&source, &target, terms) : exit_code;
}
