/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "../command/commands.h"
#include "../command/options.h"
#include "transfer.h"

static const char usage[] =
    "Usage: kiln copy [--trust] [--key-file FILE] [--json] [FILTERS] FROM TO\n"
    "                 [DIGEST-PREFIX...]\n"
    "\n"
    "Copies entries from one store into another. Each is a directory, the URL of a server, or a\n"
    "chain; FROM may also be pack:FILE. Entries that TO already has are not copied again, so\n"
    "repeating an interrupted copy continues it. Without filters, copies all entries. A prefix\n"
    "selects all entries that it matches.\n"
    "\n"
    "  --trust          copy entries that nothing authenticates, because you know who wrote them\n"
    "  --key-file FILE  the file with the signing key of both stores\n"
    "  --json           one JSON object\n" ENTRY_FILTER_USAGE;

static void check_stores(const command_line *line, const char *command)
{
    if (line->directory != NULL) {
        options_wrong(command, "FROM and TO take the place of --dir");
    }
    if (strncmp(line->operands[1], "pack:", 5) == 0) {
        options_wrong(command, "'kiln pack --dir FROM FILE' writes a pack");
    }
}

int cmd_copy(int argc, char **argv)
{
    bool trust = false;
    entry_filter filter = {0};
    command_line line = {
        .usage = usage,
        .options = {ENTRY_FILTER_OPTIONS(filter), {.name = "trust", .flag = &trust}},
        .operands_min = 2,
        .operands_max = -1,
    };
    options_read(&line, argc, argv);
    check_stores(&line, argv[0]);
    entry_filter_read(&filter, argv[0], line.operands + 2);
    const int exit_code =
        transfer_run(line.operands[0], line.operands[1],
                     &(transfer_terms){.filter = &filter, .trusts = trust, .json = line.json});
    entry_filter_done(&filter);
    return exit_code;
}
