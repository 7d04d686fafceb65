/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "../command/commands.h"
#include "../command/directory.h"
#include "../command/options.h"
#include "../text/exit_code.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "removal.h"

static const char usage[] =
    "Usage: kiln rm [--dir DIR] [--key-file FILE] [--all-matching] [--json] DIGEST-PREFIX...\n"
    "\n"
    "Removes the entries that the prefixes match. A prefix has at least 4 digits and must match\n"
    "one entry; if one matches several, nothing at all is removed.\n"
    "\n"
    "  --dir DIR        the cache directory\n"
    "  --key-file FILE  the file with the signing key\n"
    "  --all-matching   remove all entries that a prefix matches\n"
    "  --json           one JSON object\n";

/* What the operands select. */
typedef struct entry_selection {
    digest_prefix *prefixes; /* those that match an entry; whole digests if each must match one */
    size_t count;
    bool something_missing;
} entry_selection;

static bool matches_any(const store_listing *listing, const digest_prefix *prefix)
{
    const bool matches = listing_has(listing, prefix);
    if (!matches) {
        complain("no entry begins with '%s'", prefix->text);
    }
    return matches;
}

/* Returns EXIT_OK if a prefix belongs to the selection; EXIT_NOTHING_FOUND if it matches nothing;
 * EXIT_USAGE if it must match one entry and matches several. */
static int resolve(const store_listing *listing, bool all_matching, digest_prefix *prefix)
{
    if (all_matching) {
        return matches_any(listing, prefix) ? EXIT_OK : EXIT_NOTHING_FOUND;
    }
    int exit_code = EXIT_OK;
    const listed_item *item = listing_find(listing, prefix, &exit_code);
    if (item == NULL) {
        return exit_code;
    }
    *prefix = (digest_prefix){.length = KILN_DIGEST_TEXT_SIZE - 1};
    memcpy(prefix->text, item->digest, sizeof prefix->text);
    return EXIT_OK;
}

/* Returns EXIT_OK, or the exit code of a command that must remove nothing. */
static int select_items(const store_listing *listing, char **operands, bool all_matching,
                        entry_selection *selection)
{
    for (; *operands != NULL; operands++) {
        digest_prefix *prefix = &selection->prefixes[selection->count];
        if (!digest_prefix_parse(*operands, prefix)) {
            return EXIT_USAGE;
        }
        int exit_code = resolve(listing, all_matching, prefix);
        if (exit_code == EXIT_USAGE) {
            return exit_code;
        }
        if (exit_code == EXIT_OK) {
            selection->count++;
        } else {
            selection->something_missing = true;
        }
    }
    return EXIT_OK;
}

static int remove_selection(kiln_store *store, const entry_selection *selection, bool json)
{
    removal_work removal = {0};
    kiln_status status = selection->count == 0
                             ? KILN_OK
                             : removal_run(store, selection->prefixes, selection->count, &removal);
    removal_print(&removal, json);
    if (status != KILN_OK) {
        return complain_of_status("the entries could not be read", status);
    }
    if (removal.failed > 0) {
        return EXIT_IO;
    }
    return selection->something_missing || removal.newer > 0 ? EXIT_NOTHING_FOUND : EXIT_OK;
}

static int remove_matching(const cache_directory *directory, const command_line *line,
                           bool all_matching)
{
    store_listing listing;
    kiln_status status = listing_read(directory->store, &listing);
    if (status != KILN_OK) {
        return complain_of_status(directory->path, status);
    }
    entry_selection selection = {
        .prefixes = must(calloc((size_t)line->operand_count, sizeof *selection.prefixes))};
    int exit_code = select_items(&listing, line->operands, all_matching, &selection);
    listing_free(&listing);
    if (exit_code == EXIT_OK) {
        exit_code = remove_selection(directory->store, &selection, line->json);
    }
    free(selection.prefixes);
    return exit_code;
}

int cmd_rm(int argc, char **argv)
{
    bool all_matching = false;
    command_line line = {
        .usage = usage,
        .options = {{.name = "all-matching", .flag = &all_matching}},
        .operands_min = 1,
        .operands_max = -1,
    };
    int exit_code;
    if (!options_read(&line, argc, argv, &exit_code)) {
        return exit_code;
    }
    cache_directory directory;
    exit_code = directory_open(line.directory, 0, &directory);
    if (exit_code != EXIT_OK) {
        return exit_code;
    }
    exit_code = remove_matching(&directory, &line, all_matching);
    directory_close(&directory);
    return exit_code;
}
