/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "../command/commands.h"
#include "../command/directory.h"
#include "../command/options.h"
#include "../key/key_ring.h"
#include "../text/exit_code.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "../text/progress.h"
#include "removal.h"
#include "walk.h"

static const char usage[] =
    "Usage: kiln rm [--dir DIR] [--key-file FILE] [--all-matching] [--json] DIGEST-PREFIX...\n"
    "       kiln rm [--dir DIR] --signer NAME|NAME:KEY [--json]\n"
    "\n"
    "Removes the entries that the prefixes match. A prefix has at least 4 digits and must match\n"
    "one entry; if one matches several, nothing at all is removed.\n"
    "\n"
    "  --dir DIR        the cache directory\n"
    "  --key-file FILE  the file with the signing key\n"
    "  --all-matching   remove all entries that a prefix matches\n"
    "  --signer KEY     remove all entries that name this key as their signer: NAME:KEY, or the\n"
    "                   NAME of a key that 'kiln key show' prints\n"
    "  --json           one JSON object\n";

/* What the operands select. */
typedef struct entry_selection {
    digest_prefix *prefixes; /* the prefixes that match an entry; whole digests if each must match
                                one entry */
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

/* Returns EXIT_OK. If nothing may be removed, returns the exit code of the command. */
static int select_items(const store_listing *listing, char **operands, bool all_matching,
                        entry_selection *selection)
{
    for (; *operands != NULL; operands++) {
        digest_prefix *prefix = &selection->prefixes[selection->count];
        *prefix = digest_prefix_parse(*operands);
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

/* @status  of the walk through the store */
static int report_removal(const removal_work *removal, kiln_status status, bool something_missing,
                          bool json)
{
    removal_print(removal, json);
    if (status != KILN_OK) {
        return complain_of_status("the entries could not be read", status);
    }
    if (removal->failed > 0) {
        return EXIT_IO;
    }
    return something_missing || removal->newer > 0 ? EXIT_NOTHING_FOUND : EXIT_OK;
}

static int remove_selection(kiln_store *store, const entry_selection *selection, bool json)
{
    removal_work removal = {0};
    const kiln_status status =
        selection->count == 0 ? KILN_OK
                              : removal_run(store, selection->prefixes, selection->count, &removal);
    return report_removal(&removal, status, selection->something_missing, json);
}

typedef struct signer_removal {
    kiln_public_key key;
    removal_work removal;
    bool is_incomplete; /* an entry could not be read */
} signer_removal;

/* Returns whether an entry names this signer. Only the bytes of the key count, since its owner can
 * write any name into a signature. */
static bool is_of_signer(const kiln_public_key *key, const kiln_entry *entry)
{
    kiln_signature signature = {.struct_size = sizeof signature};
    return kiln_entry_get_signature(entry, &signature) == KILN_OK &&
           memcmp(signature.signer.bytes, key->bytes, sizeof key->bytes) == 0;
}

static void remove_if_of_signer(void *user, kiln_item *item, kiln_status status, const char *why)
{
    signer_removal *work = user;
    kiln_entry *entry = NULL;
    kiln_item_info info = {.struct_size = sizeof info};
    char digest[KILN_DIGEST_TEXT_SIZE];
    progress_step("looked at");
    if (kiln_item_get_info(item, &info) != KILN_OK) {
        return; /* it was removed meanwhile */
    }
    kiln_digest_format(&info.digest, digest);
    if (status != KILN_OK) {
        complain("%s: %s", digest, why);
        work->is_incomplete = true;
    } else if (kiln_item_read(item, &entry) == KILN_OK && is_of_signer(&work->key, entry)) {
        removal_take(&work->removal, item, &info, digest);
    }
    kiln_entry_release(&entry);
}

/* Visits each copy of an entry, since the copies in a chain may have different signers. */
static int remove_of_signer(kiln_store *store, const kiln_public_key *signer, bool json)
{
    signer_removal work = {.key = *signer};
    kiln_verify_report report = {.struct_size = sizeof report};
    const kiln_status status =
        store == NULL ? KILN_OK : kiln_store_verify(store, remove_if_of_signer, &work, &report);
    progress_end();
    const bool something_missing = work.removal.removed == 0;
    const int exit_code = report_removal(&work.removal, status, something_missing, json);
    return exit_code == EXIT_OK && work.is_incomplete ? EXIT_IO : exit_code;
}

static kiln_public_key key_of(const char *signer)
{
    key_ring ring = key_ring_of_environment();
    const kiln_public_key key = key_ring_resolve(&ring, signer);
    key_ring_free(&ring);
    return key;
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
    const char *signer = NULL;
    command_line line = {
        .usage = usage,
        .options = {{.name = "all-matching", .flag = &all_matching},
                    {.name = "signer", .text = &signer}},
        .operands_min = 0,
        .operands_max = -1,
    };
    options_read(&line, argc, argv);
    if ((signer != NULL) == (line.operand_count > 0)) {
        options_wrong(argv[0], "expected either digests or --signer");
    }
    const kiln_public_key key = signer != NULL ? key_of(signer) : (kiln_public_key){0};
    owned_directory directory = directory_open(line.directory, 0);
    return signer != NULL ? remove_of_signer(directory.store, &key, line.json)
                          : remove_matching(&directory, &line, all_matching);
}
