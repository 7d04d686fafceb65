/* SPDX-License-Identifier: Apache-2.0
 *
 * A chain of stores, such as "a|b|c". Each store is a tier, and the first one is at the top. A
 * look-up asks one tier after another until one has the entry, and then copies the entry to the
 * tiers above that one. A put writes to all tiers that accept the entry. Which calls a tier gets
 * depends on its capabilities, not on its engine.
 */
#pragma once

#include <stddef.h>

#include "store/chain/tier.h"

#define KILNI_CHAIN_MAX_TIERS 16u

typedef struct kilni_chain {
    kiln_store store; /* first: a kilni_chain is a kiln_store */
    size_t count;
    /* The first tier that is a directory and is written. It contains the files in which the
     * processes of this machine share what they know about the tiers. NULL: no such tier exists */
    kilni_tier *home;
    kilni_tier tiers[KILNI_CHAIN_MAX_TIERS];
} kilni_chain;

/* Opens every tier that can be opened. Returns the statuses of kiln_store_open. If no tier can be
 * opened, this function returns the first of the tiers' statuses that is not KILN_MISS, or
 * KILN_MISS if all tiers returned it.
 *
 * @engines  the same as in kilni_location_parse */
kiln_status kilni_chain_open(const char *location, const kiln_store_params *params,
                             const kilni_store_engine *const *engines, kiln_store **ret_store,
                             kiln_error *error);

/* Flags that say what a fill must do. The lower bits are the number of the tier that had the entry.
 * KILNI_FILL_REPORTS: that tier and all tiers below it are told that the entry was used. The lower
 * tiers might also have the entry, and do not learn of the use in any other way. */
enum { KILNI_FILL_COPIES = KILNI_CHAIN_MAX_TIERS, KILNI_FILL_REPORTS = 2 * KILNI_CHAIN_MAX_TIERS };
_Static_assert((KILNI_FILL_COPIES & (KILNI_FILL_COPIES - 1)) == 0, "it is a single bit");

/* ---- lookup.c: operations of kilni_store_ops ---- */

kiln_status kilni_chain_get(kiln_store *store, const kiln_key *key, kiln_entry **ret_entry,
                            size_t *ret_fill);
kiln_status kilni_chain_get_elsewhere(kiln_store *store, const kiln_key *key,
                                      const kiln_store *missed_in, kiln_entry **ret_entry,
                                      size_t *ret_fill);
void kilni_chain_get_many(kiln_store *store, kilni_lookup *lookups, size_t count);
kiln_status kilni_chain_read_digest(kiln_store *store, const kiln_digest *digest,
                                    kiln_entry **ret_entry);
void kilni_chain_read_digests(kiln_store *store, const kiln_digest *digests, size_t count,
                              kilni_digest_fn *visit, void *user);
kiln_status kilni_chain_contains(kiln_store *store, const kiln_key *key);
void kilni_chain_contains_many(kiln_store *store, const kiln_key *const *keys, size_t count,
                               kiln_status *ret_statuses);

/* ---- walk.c: the entries of all tiers ---- */

kiln_status kilni_chain_each(kiln_store *store, kiln_item_fn visit, void *user);
kiln_status kilni_chain_each_of_digest(kiln_store *store, const kiln_digest *digest,
                                       kiln_item_fn visit, void *user);
kiln_status kilni_chain_each_copy(kiln_store *store, kiln_item_fn visit, void *user);
kiln_status kilni_chain_each_request(kiln_store *store, kiln_item_fn visit, void *user);
kiln_status kilni_chain_item_info(kiln_item *item, kiln_item_info *ret_info);
kiln_status kilni_chain_item_read(kiln_item *item, kiln_entry **ret_entry);
kiln_status kilni_chain_item_remove(kiln_item *item);
kiln_status kilni_chain_item_quarantine(kiln_item *item);

/* ---- report.c: what the tiers did ---- */

void kilni_chain_each_tier(kiln_store *store, kiln_tier_fn visit, void *user);

/* Adds the counts of this process to the files of the tiers' counts. */
void kilni_chain_save_counts(kilni_chain *chain);

/* ---- lease.c ---- */

/* A chain's lease consists of two leases. The first local tier that has leases grants the machine's
 * lease. The holder of the machine's lease then asks the first server that has leases for the
 * fleet's lease. So all processes that use the same chain ask the same tiers, as long as these
 * work, and only one process of each machine at a time asks the server. A server is not asked if
 * the build takes less time than recent answers of that server. If no tier can grant one of
 * the two leases, the other lease is sufficient. If this process waited for the machine's lease,
 * another process held it during that time. If a local tier then has the key's entry, the chain's
 * lease is shared. Parameters and statuses are those of kilni_store_lease. */
kiln_status kilni_chain_lease(kiln_store *store, const kiln_key *key, uint64_t build_ns,
                              uint64_t wait_ns, kiln_lease **ret_lease);
void kilni_chain_lease_note_stored(kiln_lease *lease, size_t tier);
void kilni_chain_lease_release(kiln_lease *lease);
