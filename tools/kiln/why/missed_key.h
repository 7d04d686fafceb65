/* SPDX-License-Identifier: Apache-2.0
 *
 * The key that `kiln why` is asked about: of an entry, or of the last miss, as far as it is known.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "../command/directory.h"

typedef struct missed_key {
    kiln_key *key;
    char digest[KILN_DIGEST_TEXT_SIZE];
    kiln_status stored; /* KILN_OK: its entry is there now; KILN_MISS; or what is wrong with it */
    int64_t missed_s;   /* when the last miss was noted; 0: this is not it */
    int64_t created_s;  /* when its entry was made; 0: it is not there */
    char *name;         /* of that entry, or "" */
    kiln_entry *entry;  /* itself; NULL: it is not there */
} missed_key;

/* The key of one entry, or of the last miss, by the beginning of its digest. Each returns EXIT_OK;
 * or the fault was named, and this is what to exit with. */
int missed_key_of_digest(const cache_directory *directory, const char *prefix,
                         missed_key *ret_missed);

/* The key of the last miss that was noted in the store. */
int missed_key_of_last(const cache_directory *directory, missed_key *ret_missed);

/* The key of the last miss in a trace (KILN_TRACE). */
int missed_key_of_trace(const cache_directory *directory, const char *trace,
                        missed_key *ret_missed);

void missed_key_free(missed_key *missed);
