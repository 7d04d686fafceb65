/* SPDX-License-Identifier: Apache-2.0
 *
 * The key that `kiln why` explains, and what is known about this key. It is the key of an entry or
 * of the last miss.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "../command/directory.h"
#include "../entry/explained_key.h"

typedef struct missed_key {
    explained_key key;
    char digest[KILN_DIGEST_TEXT_SIZE];
    kiln_status stored; /* KILN_OK: its entry is stored now; KILN_MISS; or the error of reading the
                           entry */
    int64_t missed_s;   /* the time when the last miss was recorded; 0: this is not the key of the
                           last miss */
    kiln_entry *entry;  /* NULL: there is none */
} missed_key;

/* Finds the key of an entry or of the last miss, by a prefix of the key's digest. Each of these
 * functions returns EXIT_OK. If it fails, it reports the error and returns the exit code. */
int missed_key_of_digest(const cache_directory *directory, const char *prefix,
                         missed_key *ret_missed);

/* Finds the key of the last miss that was recorded in the store. */
int missed_key_of_last(const cache_directory *directory, missed_key *ret_missed);

/* Finds the key of the last miss in a trace (KILN_TRACE). */
int missed_key_of_trace(const cache_directory *directory, const char *trace,
                        missed_key *ret_missed);

void missed_key_free(missed_key *missed);
