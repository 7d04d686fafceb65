/* SPDX-License-Identifier: Apache-2.0
 *
 * A chain of stores, "a|b|c". A look-up asks one tier after another, and copies an entry that it
 * finds to the tiers above. A put writes to all tiers that accept the entry. A tier's capabilities,
 * not its engine, decide which calls it gets.
 */
#pragma once

#include <stddef.h>

#include "store/chain/tier.h"

#define KILNI_CHAIN_MAX_TIERS 16u

typedef struct kilni_chain {
    kiln_store store; /* first: a kilni_chain is a kiln_store */
    size_t count;
    /* The first directory that is written. It has the files in which the processes of this machine
     * share what they know about the tiers. NULL: none */
    kilni_tier *home;
    kilni_tier tiers[KILNI_CHAIN_MAX_TIERS];
} kilni_chain;

/* Opens every tier that can be opened. The statuses are those of kiln_store_open. If no tier can be
 * opened, fails with the first status of a tier that is not KILN_MISS, or with KILN_MISS if there
 * is none.
 *
 * @engines  as kilni_location_parse */
kiln_status kilni_chain_open(const char *location, const kiln_store_params *params,
                             const kilni_store_engine *const *engines, kiln_store **ret_store,
                             kiln_error *error);

/* ---- walk.c: the entries of all tiers ---- */

kiln_status kilni_chain_each(kiln_store *store, kiln_item_fn visit, void *user);
kiln_status kilni_chain_each_copy(kiln_store *store, kiln_item_fn visit, void *user);
kiln_status kilni_chain_each_request(kiln_store *store, kiln_item_fn visit, void *user);
kiln_status kilni_chain_item_info(kiln_item *item, kiln_item_info *ret_info);
kiln_status kilni_chain_item_read(kiln_item *item, kiln_entry **ret_entry);
kiln_status kilni_chain_item_remove(kiln_item *item);
kiln_status kilni_chain_item_quarantine(kiln_item *item);

/* ---- report.c: what the tiers did ---- */

void kilni_chain_each_tier(kiln_store *store, kiln_tier_fn visit, void *user);

/* Adds what this process has counted to the files of the tiers. */
void kilni_chain_save_counts(kilni_chain *chain);

/* ---- lease.c ---- */

/* A chain's lease consists of two leases. The first local tier that has leases grants the machine's
 * lease. Its holder then asks the first server that has leases for the fleet's lease. So all
 * processes that use the same chain ask the same tiers, as long as these work, and only one process
 * of each machine at a time asks the server. If no tier can grant one of the two leases, the other
 * one is sufficient. If another process of the machine had the machine's lease meanwhile, and a
 * local tier now has the key's entry, the chain's lease is shared. The parameters and
 * statuses are those of kilni_store_lease. */
kiln_status kilni_chain_lease(kiln_store *store, const kiln_key *key, uint64_t build_ns,
                              uint64_t wait_ns, kiln_lease **ret_lease);
void kilni_chain_lease_release(kiln_lease *lease);
