/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "../command/commands.h"
#include "../command/directory.h"
#include "../command/options.h"
#include "../key/key_ring.h"
#include "../text/exit_code.h"
#include "../text/output.h"
#include "../text/progress.h"
#include "listing.h"
#include "removal.h"
#include "walk.h"
static const char usage[] =
    "Usage: kiln rm [--dir DIR] [--key-file FILE] [--all-matching] [--json] DIGEST-PREFIX...\n"
    "       kiln rm [--dir DIR] [--key-file FILE] [--json] FILTERS\n"
    "       kiln rm [--dir DIR] --signer NAME|NAME:KEY [--json]\n"
    "\n"
    "Removes the entries that the prefixes match. A prefix has at least 4 digits and must match\n"
    "one entry; if one matches several, nothing at all is removed. Without prefixes, removes all\n"
    "entries that the filters select.\n"
    "\n"
    "  --dir DIR        the cache directory\n"
    "  --key-file FILE  the file with the signing key\n"
    "  --all-matching   remove all entries that a prefix matches\n"
    "  --signer KEY     remove all entries that name this key as their signer: NAME:KEY, or the\n"
    "                   NAME of a key that 'kiln key show' prints\n"
    "  --json           one JSON object\n" ENTRY_FILTER_USAGE;

/* Chooses all items that a prefix matches. Returns EXIT_OK or EXIT_NOTHING_FOUND. */
static int choose_all(const store_listing *listing, const digest_prefix *prefix,
                      entry_filter *filter)
{
    if (!listing_has(listing, prefix)) {
        complain("no entry begins with '%s'", prefix->text);
        return EXIT_NOTHING_FOUND;
    }
    for (size_t i = 0; i < listing->count; i++) {
        if (digest_prefix_matches(prefix, listing->items[i].digest)) {
            entry_filter_choose(filter, listing->items[i].digest);
        }
    }
    return EXIT_OK;
}

/* Chooses the one item that a prefix matches. Returns EXIT_OK; EXIT_NOTHING_FOUND; EXIT_USAGE: it
 * matches several. */
static int choose_one(const store_listing *listing, const digest_prefix *prefix,
                      entry_filter *filter)
{
    int exit_code = EXIT_OK;
    const listed_item *item = listing_find(listing, prefix, &exit_code);
    if (item != NULL) {
        entry_filter_choose(filter, item->digest);
    }
    return exit_code;
}

/* Chooses what to remove from a listing of what the filter selects. Returns EXIT_OK;
 * EXIT_NOTHING_FOUND if a prefix matches nothing; EXIT_USAGE if nothing may be removed. */
static int choose_items(const store_listing *listing, char **operands, bool all_matching,
                        entry_filter *filter)
{
    const digest_prefix everything = {.length = 0};
    int exit_code = EXIT_OK;
    if (*operands == NULL && listing->count > 0) {
        return choose_all(listing, &everything, filter);
    }
    for (; *operands != NULL && exit_code != EXIT_USAGE; operands++) {
        const digest_prefix prefix = digest_prefix_parse(*operands);
        const int of_prefix = (all_matching ? choose_all : choose_one)(listing, &prefix, filter);
        exit_code = of_prefix == EXIT_OK ? exit_code : of_prefix;
    }
    return exit_code;
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

/* If a single digest decides what is removed, the store looks it up. */
static kiln_status read_listing(kiln_store *store, const command_line *line, entry_filter *filter,
                                store_listing *ret_listing)
{
    if (line->operand_count == 1 && !entry_filter_is_set(filter)) {
        const digest_prefix prefix = digest_prefix_parse(line->operands[0]);
        return listing_read_matching(store, &prefix, ret_listing);
    }
    return listing_read(store, filter, ret_listing);
}

static int remove_selected(const cache_directory *directory, const command_line *line,
                           bool all_matching, entry_filter *filter)
{
    store_listing listing;
    walk_expect(directory);
    kiln_status status = read_listing(directory->store, line, filter, &listing);
    if (status != KILN_OK) {
        return complain_of_status(directory->path, status);
    }
    listing_limit(&listing, filter->limit);
    const int exit_code = choose_items(&listing, line->operands, all_matching, filter);
    listing_free(&listing);
    if (exit_code == EXIT_USAGE) {
        return exit_code;
    }
    entry_filter_choose_end(filter);
    removal_work removal = {0};
    status = filter->chosen_count == 0 ? KILN_OK : removal_run(directory->store, filter, &removal);
    return report_removal(&removal, status, exit_code != EXIT_OK, line->json);
}

int cmd_rm(int argc, char **argv)
{
    bool all_matching = false;
    const char *signer = NULL;
    entry_filter filter = {0};
    command_line line = {
        .usage = usage,
        .options = {ENTRY_FILTER_OPTIONS(filter),
                    {.name = "all-matching", .flag = &all_matching},
                    {.name = "signer", .text = &signer}},
        .operands_min = 0,
        .operands_max = -1,
    };
    options_read(&line, argc, argv);
    const bool selects = line.operand_count > 0 || entry_filter_is_set(&filter);
    if ((signer != NULL) == selects) {
        options_wrong(argv[0], "expected digests, filters or --signer");
    }
    const kiln_public_key key = signer != NULL ? key_of(signer) : (kiln_public_key){0};
    filter.takes_requests = line.operand_count > 0;
    entry_filter_read(&filter, argv[0], line.operands + line.operand_count);
    owned_directory directory = directory_open(line.directory, 0);
    const int exit_code = signer != NULL
                              ? remove_of_signer(directory.store, &key, line.json)
                              : remove_selected(&directory, &line, all_matching, &filter);
    entry_filter_done(&filter);
    return exit_code;
}
