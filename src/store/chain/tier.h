/* SPDX-License-Identifier: Apache-2.0
 *
 * One tier of a chain. A tier that cannot be opened, or whose calls fail, is skipped for a while:
 * for one second at first, later for up to one minute. Then one call tries it again.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "store/location.h"

typedef struct kilni_tier {
    char *name; /* as its user gave it */
    kilni_location where;
    char *key_file; /* a copy of what @where names; NULL: none */
    unsigned number;
    kiln_store *chain; /* its log gets the tier's warnings */
    /* NULL until the tier is opened, and constant from then on: the exchange (release) in
     * kilni_tier_open pairs with the loads (acquire) in kilni_tier_use. */
    _Atomic(kiln_store *) store;
    /* How many calls failed in a row, and when to try again; 0: the tier works. The thread that
     * moves this time on is the one that tries. These are only hints, so every access is relaxed.
     */
    _Atomic unsigned failures;
    _Atomic uint64_t retry_ns;
} kilni_tier;

/* Tries to open the tier. @ret_error describes a failure. Returns KILN_OK; KILN_E_NO_MEMORY; else
 * as kiln_store_open. */
kiln_status kilni_tier_open(kilni_tier *tier, kiln_error *ret_error);

/* Returns the tier's store, or NULL if it must be skipped now. */
kiln_store *kilni_tier_use(kilni_tier *tier);

/* The same for a call that does not report its success or failure: returns NULL also if it is time
 * to try the tier again, which is left to a call that reports. */
kiln_store *kilni_tier_peek(kilni_tier *tier);

/* Notes whether a call of the tier's store failed, and returns the call's status. */
kiln_status kilni_tier_note(kilni_tier *tier, kiln_status status);

/* Returns what the tier can do (KILNI_STORE_…), also while it is not open. */
uint32_t kilni_tier_capabilities(const kilni_tier *tier);

/* Whether the chain puts entries into this tier, and removes entries from it. */
bool kilni_tier_is_written(const kilni_tier *tier);

void kilni_tier_close(kilni_tier *tier);
