/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "dpcpp/dpcpp.h"

#include "directory.h"
#include "json.h"
#include "options.h"
#include "output.h"
#include "tool.h"

static const char usage[] =
    "Usage: kiln verify [--dir DIR] [--json]\n"
    "       kiln verify --layout dpcpp [--dir DIR] [--repair] [--yes] [--grace SECONDS] [--json]\n"
    "\n"
    "Reads and checks every entry, and names those that are damaged. Removes nothing: a program\n"
    "that needs a damaged entry builds it anew and replaces it.\n"
    "\n"
    "  --dir DIR        the cache directory\n"
    "  --layout LAYOUT  dpcpp: a cache that a SYCL runtime wrote\n"
    "  --repair         say what is mended of such a cache; with --yes, mend it\n"
    "  --yes            alter the cache\n"
    "  --grace SECONDS  how old a lock is that nobody holds any more (600)\n"
    "  --json           one JSON object\n";

static void name_bad_item(void *user, kiln_item *item, kiln_status status, const char *why)
{
    (void)user;
    kiln_item_info info = {.struct_size = sizeof info};
    char digest[KILN_DIGEST_TEXT_SIZE] = "an entry";
    if (kiln_item_get_info(item, &info) == KILN_OK) {
        kiln_digest_format(&info.digest, digest);
    }
    complain("%s: %s", digest, why != NULL ? why : kiln_status_text(status));
}

static void print_report(const kiln_verify_report *report, bool json)
{
    if (json) {
        json_t *object = must(json_object());
        json_add(object, "checked", json_number(report->checked));
        json_add(object, "ok", json_number(report->ok));
        json_add(object, "corrupt", json_number(report->corrupt));
        json_add(object, "newer", json_number(report->newer));
        json_add(object, "removed", json_number(report->removed));
        json_print(stdout, object);
        return;
    }
    printf("%" PRIu64 " checked: %" PRIu64 " ok, %" PRIu64 " corrupt, %" PRIu64
           " of a newer format\n",
           report->checked, report->ok, report->corrupt, report->newer);
}

int cmd_verify(int argc, char **argv)
{
    bool repair = false;
    const char *layout = NULL;
    struct dpcpp_permission permission = {0};
    struct command_line line = {
        .usage = usage,
        .options = {{.name = "layout", .text = &layout},
                    {.name = "repair", .flag = &repair},
                    {.name = "yes", .flag = &permission.yes},
                    {.name = "grace", .text = &permission.grace}},
    };
    int exit_code;
    if (!options_read(&line, argc, argv, &exit_code)) {
        return exit_code;
    }
    if (layout != NULL) {
        struct dpcpp_request request = {argv[0], layout, line.directory, line.json};
        return dpcpp_verify(&request, repair, &permission);
    }
    if (repair || permission.yes || permission.grace != NULL) {
        return options_wrong(argv[0], "--repair, --yes and --grace need --layout");
    }
    struct directory directory;
    exit_code = directory_open(line.directory, KILN_STORE_READONLY, &directory);
    if (exit_code != EXIT_OK) {
        return exit_code;
    }
    kiln_verify_report report = {.struct_size = sizeof report};
    if (directory.store == NULL) {
        complain("there is no cache in %s", directory.path);
    }
    kiln_status status = directory.store == NULL
                             ? KILN_OK
                             : kiln_store_verify(directory.store, name_bad_item, NULL, &report);
    if (status == KILN_OK) {
        print_report(&report, line.json);
        exit_code = report.corrupt > 0 ? EXIT_DAMAGED : EXIT_OK;
    } else {
        complain("%s: %s", directory.path, kiln_status_text(status));
        exit_code = exit_code_of(status);
    }
    directory_close(&directory);
    return exit_code;
}
