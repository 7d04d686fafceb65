/* SPDX-License-Identifier: Apache-2.0
 *
 * A chain of stores, "a|b|c". A lookup asks one tier after the other; an entry that it finds is
 * copied to the tiers above. A put goes to all tiers that accept it. What a tier is asked to do
 * depends on what it can do, not on its engine.
 */
#pragma once

#include <stddef.h>

#include "store/chain/tier.h"

#define KILNI_CHAIN_MAX_TIERS 16u

typedef struct kilni_chain {
    kiln_store store; /* first: a kilni_chain is a kiln_store */
    size_t count;
    kilni_tier tiers[KILNI_CHAIN_MAX_TIERS];
} kilni_chain;

/* Opens every tier that can be opened, and at least one. Statuses as kiln_store_open; if no tier
 * opens, the status of the first.
 *
 * @engines  as kilni_location_parse */
kiln_status kilni_chain_open(const char *location, const kiln_store_params *params,
                             const kilni_store_engine *const *engines, kiln_store **ret_store,
                             kiln_error *error);

/* ---- walk.c: what all tiers hold ---- */

kiln_status kilni_chain_each(kiln_store *store, kiln_item_fn visit, void *user);
kiln_status kilni_chain_each_copy(kiln_store *store, kiln_item_fn visit, void *user);
kiln_status kilni_chain_each_request(kiln_store *store, kiln_item_fn visit, void *user);
kiln_status kilni_chain_item_info(kiln_item *item, kiln_item_info *ret_info);
kiln_status kilni_chain_item_read(kiln_item *item, kiln_entry **ret_entry);
kiln_status kilni_chain_item_remove(kiln_item *item);
