/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "directory.h"
#include "json.h"
#include "options.h"
#include "output.h"
#include "tool.h"

static const char usage[] =
    "Usage: kiln verify [--dir DIR] [--json]\n"
    "\n"
    "Reads and checks every entry, and names those that are damaged. Removes nothing: a program\n"
    "that needs a damaged entry builds it anew and replaces it.\n"
    "\n"
    "  --dir DIR  the cache directory\n"
    "  --json     one JSON object\n";

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
    struct command_line line = {.usage = usage};
    int exit_code;
    if (!options_read(&line, argc, argv, &exit_code)) {
        return exit_code;
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
