/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <kiln/pack.h>

#include "../command/commands.h"
#include "../command/directory.h"
#include "../command/location.h"
#include "../command/options.h"
#include "../text/exit_code.h"
#include "../text/json.h"
#include "../text/memory.h"
#include "../text/output.h"

static const char usage[] =
    "Usage: kiln unpack [--dir DIR] (--key-file FILE | --trust) [--json] PACK\n"
    "\n"
    "Copies the entries of a pack into a cache directory, which is created if missing. Entries\n"
    "that are already there stay.\n"
    "\n"
    "  --dir DIR        the cache directory\n"
    "  --key-file FILE  copy only entries signed with the key in this file; default: the cache's\n"
    "  --trust          copy all entries, because you know where the pack comes from\n"
    "  --json           one JSON object\n";

static void print_report(const kiln_unpack_report *report, bool json)
{
    if (json) {
        json_t *object = must(json_object());
        json_add(object, "taken", json_number(report->taken));
        json_add(object, "present", json_number(report->present));
        json_add(object, "unauthenticated", json_number(report->unauthenticated));
        json_add(object, "damaged", json_number(report->damaged));
        json_add(object, "refused", json_number(report->refused));
        json_print(stdout, object);
        return;
    }
    printf("%" PRIu64 " copied, %" PRIu64 " already there, %" PRIu64 " not authenticated, %" PRIu64
           " damaged, %" PRIu64 " refused\n",
           report->taken, report->present, report->unauthenticated, report->damaged,
           report->refused);
}

static int exit_code_of_report(const kiln_unpack_report *report)
{
    if (report->damaged > 0) {
        return EXIT_DAMAGED;
    }
    return report->unauthenticated > 0 || report->refused > 0 ? EXIT_IO : EXIT_OK;
}

static int unpack(const char *pack, const kiln_unpack_params *params,
                  const cache_directory *directory, bool json)
{
    kiln_unpack_report report = {.struct_size = sizeof report};
    kiln_error error = {.struct_size = sizeof error};
    kiln_status status = kiln_pack_unpack(pack, params, directory->store, &report, &error);
    if (status != KILN_OK) {
        complain("%s", error_text(&error, status));
        return exit_code_of(status);
    }
    print_report(&report, json);
    return exit_code_of_report(&report);
}

static bool has_key_in_environment(void)
{
    const char *path = getenv("KILN_SIGNING_KEY_FILE");
    if (path == NULL) {
        path = getenv("KILN_KEY_FILE"); /* the older name */
    }
    return path != NULL && path[0] != '\0';
}

int cmd_unpack(int argc, char **argv)
{
    bool trust = false;
    const char *key_file = NULL;
    command_line line = {
        .usage = usage,
        .options = {{.name = "key-file", .text = &key_file}, {.name = "trust", .flag = &trust}},
        .operands_min = 1,
        .operands_max = 1,
    };
    int exit_code;
    if (!options_read(&line, argc, argv, &exit_code)) {
        return exit_code;
    }
    if (trust ? key_file != NULL : key_file == NULL && !has_key_in_environment()) {
        return options_wrong(argv[0], "give either --key-file or --trust");
    }
    if (access(line.operands[0], R_OK) != 0) {
        complain("%s: %s", line.operands[0], strerror(errno)); /* before a directory is created */
        return EXIT_IO;
    }
    cache_directory directory;
    exit_code = directory_open_or_create(line.directory, &directory);
    if (exit_code != EXIT_OK) {
        return exit_code;
    }
    char *key_path = key_file == NULL ? NULL : absolute_path(key_file);
    const kiln_unpack_params params = {
        .struct_size = sizeof params,
        .flags = trust ? KILN_UNPACK_TRUST : 0,
        .key_file = trust || key_path ? key_path : directory.key_file,
    };
    exit_code = unpack(line.operands[0], &params, &directory, line.json);
    free(key_path);
    directory_close(&directory);
    return exit_code;
}
