/* SPDX-License-Identifier: Apache-2.0 */
#include "missed_key.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../store/listing.h"
#include "../store/walk.h"
#include "../text/exit_code.h"
#include "../text/memory.h"
#include "../text/output.h"

/* Looks for an entry. An entry's key is preferred because it is complete, while the key of a
 * recorded miss is stripped. */
static kiln_status look_for_entry(const cache_directory *directory, missed_key *missed)
{
    const kiln_status status =
        walk_to_entry(directory->store, missed->digest, &missed->stored, &missed->entry);
    if (missed->entry != NULL) {
        explained_key_free(&missed->key);
        missed->key = explained_key_of(missed->entry);
    }
    return status;
}

/* Reads the last miss that was recorded. */
static kiln_status read_recorded(const cache_directory *directory, missed_key *ret_recorded)
{
    missed_key recorded = {.stored = KILN_MISS};
    kiln_status status =
        kiln_store_get_last_miss(directory->store, &recorded.key.key, &recorded.missed_s);
    if (status == KILN_OK) {
        const kiln_digest digest = kiln_key_digest(recorded.key.key);
        kiln_digest_format(&digest, recorded.digest);
        *ret_recorded = recorded;
    }
    return status;
}

/* Completes a key whose digest is known, from its entry or from the last miss. */
static int complete(const cache_directory *directory, missed_key *missed)
{
    missed_key recorded;
    if (missed->key.key == NULL && read_recorded(directory, &recorded) == KILN_OK) {
        if (strcmp(recorded.digest, missed->digest) == 0) {
            *missed = recorded;
        } else {
            explained_key_free(&recorded.key);
        }
    }
    kiln_status status = look_for_entry(directory, missed);
    if (status != KILN_OK) {
        return complain_of_status(directory->path, status);
    }
    if (missed->key.key != NULL) {
        return EXIT_OK;
    }
    if (missed->stored == KILN_MISS) {
        complain("%s is not stored, so only its digest is known", missed->digest);
        return EXIT_NOTHING_FOUND;
    }
    complain("%s: %s", missed->digest, kiln_status_text(missed->stored));
    return missed->stored == KILN_E_VERSION ? EXIT_NOTHING_FOUND : exit_code_of(missed->stored);
}

/* Completes a key and returns it, or frees it. */
static int complete_or_free(const cache_directory *directory, missed_key *missed,
                            missed_key *ret_missed)
{
    int exit_code = complete(directory, missed);
    if (exit_code == EXIT_OK) {
        *ret_missed = *missed;
    } else {
        missed_key_free(missed);
    }
    return exit_code;
}

int missed_key_of_last(const cache_directory *directory, missed_key *ret_missed)
{
    missed_key missed;
    kiln_status status = read_recorded(directory, &missed);
    if (status == KILN_MISS) {
        complain("no miss is recorded in %s: programs record them under 'kiln run', or with "
                 "KILN_LAST_MISS=1",
                 directory->path);
        return EXIT_NOTHING_FOUND;
    }
    return status == KILN_OK ? complete_or_free(directory, &missed, ret_missed)
                             : complain_of_status(directory->path, status);
}

/* Finds the digest of an entry that has the prefix. If there is no such entry, tries the digest of
 * the last miss. Returns EXIT_OK, or the exit code of an error. */
static int resolve(const cache_directory *directory, const store_listing *listing,
                   const digest_prefix *prefix, char *ret_digest)
{
    missed_key recorded;
    if (!listing_has(listing, prefix) && read_recorded(directory, &recorded) == KILN_OK) {
        explained_key_free(&recorded.key);
        if (digest_prefix_matches(prefix, recorded.digest)) {
            memcpy(ret_digest, recorded.digest, sizeof recorded.digest);
            return EXIT_OK;
        }
    }
    int exit_code = EXIT_OK;
    const listed_item *item = listing_find(listing, prefix, &exit_code);
    if (item != NULL) {
        memcpy(ret_digest, item->digest, sizeof item->digest);
    }
    return exit_code;
}

int missed_key_of_digest(const cache_directory *directory, const char *text, missed_key *ret_missed)
{
    const digest_prefix prefix = digest_prefix_parse(text);
    store_listing listing;
    kiln_status status = listing_read_matching(directory->store, &prefix, &listing);
    if (status != KILN_OK) {
        return complain_of_status(directory->path, status);
    }
    missed_key missed = {.stored = KILN_MISS};
    int exit_code = resolve(directory, &listing, &prefix, missed.digest);
    listing_free(&listing);
    return exit_code == EXIT_OK ? complete_or_free(directory, &missed, ret_missed) : exit_code;
}

/* Reads the digest from a trace's line about a miss: "kiln[1] built key=… store=KILN_MISS". */
static bool parse_miss(const char *line, char *ret_digest)
{
    static const char mark[] = " key=";
    const char *key = strstr(line, mark);
    kiln_digest digest;
    if (strncmp(line, "kiln[", 5) != 0 || key == NULL || strstr(line, " store=KILN_") == NULL) {
        return false;
    }
    char text[KILN_DIGEST_TEXT_SIZE];
    snprintf(text, sizeof text, "%s", key + sizeof mark - 1);
    if (kiln_digest_parse(text, &digest) != KILN_OK) {
        return false;
    }
    kiln_digest_format(&digest, ret_digest);
    return true;
}

int missed_key_of_trace(const cache_directory *directory, const char *trace, missed_key *ret_missed)
{
    FILE *file = fopen(trace, "re");
    if (file == NULL) {
        complain("%s: %s", trace, strerror(errno));
        return EXIT_IO;
    }
    missed_key missed = {.stored = KILN_MISS};
    char *line = NULL;
    size_t capacity = 0;
    bool has_missed = false;
    while (getline(&line, &capacity, file) >= 0) {
        has_missed |= parse_miss(line, missed.digest);
    }
    free(line);
    fclose(file);
    if (!has_missed) {
        complain("%s contains no miss: a line with key= and store=KILN_… is expected", trace);
        return EXIT_NOTHING_FOUND;
    }
    return complete_or_free(directory, &missed, ret_missed);
}

void missed_key_free(missed_key *missed)
{
    explained_key_free(&missed->key);
    kiln_entry_release(&missed->entry);
}
