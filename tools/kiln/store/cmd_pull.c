/* SPDX-License-Identifier: Apache-2.0
 *
 * kiln pull and kiln push: copy entries between this machine's store and other stores.
 */
#include <stdlib.h>

#include "../command/commands.h"
#include "../command/directory.h"
#include "../command/location.h"
#include "../command/options.h"
#include "transfer.h"

static const char pull_usage[] =
    "Usage: kiln pull [--dir DIR] [--trust] [--key-file FILE] [--json] [FILTERS] [FROM]\n"
    "\n"
    "Copies the entries that fit the OpenCL drivers and devices found here, and those that belong\n"
    "to no OpenCL driver, into the first store of a chain. Entries that are already there are\n"
    "not copied again.\n"
    "\n"
    "  FROM             a store, such as the URL of a server; default: the others of the chain\n"
    "  --dir DIR        the chain, or one directory\n"
    "  --trust          copy entries that nothing authenticates, because you know who wrote them\n"
    "  --key-file FILE  the file with the signing key\n"
    "  --json           one JSON object\n" ENTRY_FILTER_USAGE;

static const char push_usage[] =
    "Usage: kiln push [--dir DIR] [--key-file FILE] [--json] [FILTERS] [TO]\n"
    "\n"
    "Copies the entries that fit the OpenCL drivers and devices found here, and those that belong\n"
    "to no OpenCL driver, out of the first store of a chain. Entries that are already there are\n"
    "not copied again.\n"
    "\n"
    "  TO               a store, such as the URL of a server; default: the others of the chain\n"
    "  --dir DIR        the chain, or one directory\n"
    "  --key-file FILE  the file with the signing key\n"
    "  --json           one JSON object\n" ENTRY_FILTER_USAGE;

/* The two stores that entries are copied between. */
typedef struct store_pair {
    char *chain, *own;  /* freed by store_pair_done */
    const char *others; /* an operand, or a part of @chain */
} store_pair;

static store_pair find_stores(const command_line *line, const char *command)
{
    store_pair pair = {.chain = directory_location(line->directory)};
    pair.own = first_of_chain(pair.chain, &pair.others);
    if (line->operand_count > 0) {
        pair.others = line->operands[0];
    }
    if (pair.others == NULL) {
        options_wrong(command, "name the other store, or a chain in --dir or KILN_DIR");
    }
    return pair;
}

static void store_pair_done(store_pair *pair)
{
    free(pair->chain);
    free(pair->own);
}

int cmd_pull(int argc, char **argv)
{
    bool trust = false;
    entry_filter filter = {0};
    command_line line = {
        .usage = pull_usage,
        .options = {ENTRY_FILTER_OPTIONS(filter), {.name = "trust", .flag = &trust}},
        .operands_max = 1,
    };
    options_read(&line, argc, argv);
    entry_filter_read(&filter, argv[0], line.operands + line.operand_count);
    const transfer_terms terms = {
        .filter = &filter, .only_fitting = true, .trusts = trust, .json = line.json};
    store_pair pair = find_stores(&line, argv[0]);
    const int exit_code = transfer_run(pair.others, pair.own, &terms);
    store_pair_done(&pair);
    entry_filter_done(&filter);
    return exit_code;
}

int cmd_push(int argc, char **argv)
{
    entry_filter filter = {0};
    command_line line = {
        .usage = push_usage,
        .options = {ENTRY_FILTER_OPTIONS(filter)},
        .operands_max = 1,
    };
    options_read(&line, argc, argv);
    entry_filter_read(&filter, argv[0], line.operands + line.operand_count);
    const transfer_terms terms = {.filter = &filter, .only_fitting = true, .json = line.json};
    store_pair pair = find_stores(&line, argv[0]);
    const int exit_code = transfer_run(pair.own, pair.others, &terms);
    store_pair_done(&pair);
    entry_filter_done(&filter);
    return exit_code;
}
