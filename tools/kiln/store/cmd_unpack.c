/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../command/commands.h"
#include "../command/location.h"
#include "../command/options.h"
#include "../text/exit_code.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "transfer.h"

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
    options_read(&line, argc, argv);
    if (trust ? key_file != NULL : key_file == NULL && !has_key_in_environment()) {
        options_wrong(argv[0], "give either --key-file or --trust");
    }
    if (key_file != NULL) {
        /* The directory signs with the same key, so that its entries can be used with the key. */
        owned char *absolute = absolute_path(key_file);
        must_succeed(setenv("KILN_SIGNING_KEY_FILE", absolute, 1));
    }
    /* Checks this first, so that a failure leaves no new cache directory. */
    if (access(line.operands[0], R_OK) != 0) {
        complain("%s: %s", line.operands[0], strerror(errno));
        return EXIT_IO;
    }
    owned char *location = pack_location(line.operands[0], key_file);
    return transfer_run(location, line.directory,
                        &(transfer_terms){.trusts = trust, .json = line.json});
}
