/* SPDX-License-Identifier: Apache-2.0
 *
 * One tier of a chain. If a tier cannot be opened, or its calls fail, it is skipped for a while.
 * The first pause lasts one second, later ones up to one minute. After the pause, one call tries
 * the tier again.
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
    /* NULL until the tier is opened, and constant from then on. The exchange (release) in
     * kilni_tier_open pairs with the loads (acquire) in kilni_tier_use. */
    _Atomic(kiln_store *) store;
    /* How many calls failed in a row, and when to try again. If retry_ns is 0, the tier works. Only
     * the thread that advances retry_ns tries the tier again. Both fields are only hints, so every
     * access is relaxed. */
    _Atomic unsigned failures;
    _Atomic uint64_t retry_ns;
    kilni_tier_counts counts;
    /* How long recent look-ups of this process took, if the tier is a server; 0: unknown. It is
     * only an estimate, so every access is relaxed. */
    _Atomic uint64_t latency_ns;
} kilni_tier;

/* Tries to open the tier. @ret_error describes a failure. Returns KILN_OK; KILN_E_NO_MEMORY; else
 * as kiln_store_open. */
kiln_status kilni_tier_open(kilni_tier *tier, kiln_error *ret_error);

/* Returns the tier's store, or NULL if the tier must be skipped now. */
kiln_store *kilni_tier_use(kilni_tier *tier);

/* Does the same as kilni_tier_use, for a call that does not report its outcome with
 * kilni_tier_note. If the tier is due to be tried again, this function returns NULL, because only a
 * call that reports its outcome is allowed to try the tier. */
kiln_store *kilni_tier_peek(kilni_tier *tier);

/* Records whether a call of the tier's store failed. Returns @status. */
kiln_status kilni_tier_note(kilni_tier *tier, kiln_status status);

/* Records how long the server took to answer a look-up. */
void kilni_tier_note_latency(kilni_tier *tier, uint64_t duration_ns);

/* Returns true if a build takes less time than the tier's server recently took to answer.
 *
 * @build_ns  the probable duration of the build; 0: unknown */
bool kilni_tier_is_slower(const kilni_tier *tier, uint64_t build_ns);

/* If the tier is skipped at present, this function returns the reason, and sets @ret_wait_ns to the
 * time until the tier is tried again. Otherwise returns NULL. */
const char *kilni_tier_outage(kilni_tier *tier, uint64_t *ret_wait_ns);

/* Returns the tier's capabilities (KILNI_STORE_…), even while it is not open. */
uint32_t kilni_tier_capabilities(const kilni_tier *tier);

/* Returns true if the chain puts entries into this tier, and removes entries from it. */
bool kilni_tier_is_written(const kilni_tier *tier);

/* Returns true if the tier returns only entries that are signed with a key that it trusts. */
bool kilni_tier_is_authenticated(const kilni_tier *tier);

/* Returns true if entries that are put into the tier get this machine's signature. This is also
 * possible on a server whose entries need no signatures (trust=any). */
bool kilni_tier_signs(const kilni_tier *tier);

/* Returns true if a tier gets an entry that was found in the tier @source, or, if @source is NULL,
 * an entry that was put. This machine's signature means that an entry can be trusted. So a tier
 * that signs gets no entry from a tier that does not require signatures. */
bool kilni_tier_is_filled(const kilni_tier *tier, const kilni_tier *source);

void kilni_tier_close(kilni_tier *tier);
