/* SPDX-License-Identifier: Apache-2.0
 *
 * One tier of a chain. A tier that can't be opened, or whose calls fail, is skipped for a while,
 * which grows from one second to one minute, and then tried again by one call.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "store/location.h"

typedef struct kilni_tier {
    char *name; /* as its user gave it */
    kilni_location where;
    char *key_file; /* what @where names; NULL: none. A caller's lives for the call alone */
    unsigned number;
    kiln_store *chain; /* whose log it speaks to */
    /* NULL until it could be opened, and the same from then on: the exchange (release) in tier.c's
     * open_tier pairs with the loads (acquire) in kilni_tier_use. */
    _Atomic(kiln_store *) store;
    /* How many calls failed in a row, and when to try again: 0, it is in order. Whoever moves that
     * time on is the one that tries. Hints alone, so that every access is relaxed. */
    _Atomic unsigned failures;
    _Atomic uint64_t retry_ns;
} kilni_tier;

/* Tries to open it. @ret_error is described where it fails.
 * Returns KILN_OK; KILN_E_NO_MEMORY; what kiln_store_open says. */
kiln_status kilni_tier_open(kilni_tier *tier, kiln_error *ret_error);

/* The tier's store, or NULL where it is to be skipped now. */
kiln_store *kilni_tier_use(kilni_tier *tier);

/* The same for what is no try of a tier: NULL also where it is time for one, which stays for the
 * call that learns from it. */
kiln_store *kilni_tier_peek(kilni_tier *tier);

/* Learns from what a call of the tier's store gave, and returns it. */
kiln_status kilni_tier_note(kilni_tier *tier, kiln_status status);

/* What it can do: KILNI_STORE_…, also while it is not open. */
uint32_t kilni_tier_capabilities(const kilni_tier *tier);

/* Whether the chain puts entries there, and removes them. */
bool kilni_tier_is_written(const kilni_tier *tier);

void kilni_tier_close(kilni_tier *tier);
