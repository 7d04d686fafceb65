/* SPDX-License-Identifier: Apache-2.0
 *
 * One tier of a chain. A tier that cannot be opened, or whose calls fail, is skipped for a while:
 * at first for one second, later for up to one minute. Then one call tries the tier again.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "store/chain/tier_counts.h"
#include "store/location.h"

typedef struct kilni_tier {
    char *name; /* as the user wrote it */
    kilni_location where;
    char *key_file; /* a copy of the path in @where; NULL: none */
    unsigned number;
    kiln_store *chain; /* warnings about the tier are sent to the chain's log */
    /* NULL until the tier is opened, and constant from then on: the exchange (release) in
     * kilni_tier_open pairs with the loads (acquire) in kilni_tier_use. */
    _Atomic(kiln_store *) store;
    /* How many calls failed in a row, and when to try again; 0: the tier works. Only the thread
     * that advances retry_ns tries the tier again. These are only hints, so every access is
     * relaxed. */
    _Atomic unsigned failures;
    _Atomic uint64_t retry_ns;
    kilni_tier_counts counts;
} kilni_tier;

/* Tries to open the tier. @ret_error describes a failure. Returns KILN_OK; KILN_E_NO_MEMORY; else
 * as kiln_store_open. */
kiln_status kilni_tier_open(kilni_tier *tier, kiln_error *ret_error);

/* Returns the tier's store, or NULL if the tier must be skipped now. */
kiln_store *kilni_tier_use(kilni_tier *tier);

/* As kilni_tier_use, for a call that does not report its outcome with kilni_tier_note. If it is
 * time to try the tier again, returns NULL, because only a call that reports its outcome may do
 * that. */
kiln_store *kilni_tier_peek(kilni_tier *tier);

/* Records whether a call of the tier's store failed. Returns @status. */
kiln_status kilni_tier_note(kilni_tier *tier, kiln_status status);

/* Returns why the tier is skipped at present, and sets after how long it is tried again; NULL: it
 * is used. */
const char *kilni_tier_outage(kilni_tier *tier, uint64_t *ret_wait_ns);

/* Returns the tier's capabilities (KILNI_STORE_…), even while it is not open. */
uint32_t kilni_tier_capabilities(const kilni_tier *tier);

/* Whether the chain puts entries into this tier, and removes entries from it. */
bool kilni_tier_is_written(const kilni_tier *tier);

/* Whether the tier returns only entries that are signed with a key that it trusts. */
bool kilni_tier_is_authenticated(const kilni_tier *tier);

/* Whether entries that are put into the tier get this machine's signature. A server whose entries
 * need no signatures (trust=any) may be such a tier, too. */
bool kilni_tier_signs(const kilni_tier *tier);

void kilni_tier_close(kilni_tier *tier);
