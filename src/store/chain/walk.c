/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks through all tiers. If several tiers have an entry, only the copy in the first of these
 * tiers is visited, because a look-up finds that copy.
 */
#include <stdlib.h>
#include <string.h>

#include "store/chain/chain.h"

/* ---- the digests that a walk has visited ---- */

typedef struct digest_cell {
    kiln_digest digest;
    bool is_taken;
} digest_cell;

/* A hash table with open addressing. It is at most half full. */
typedef struct digest_set {
    digest_cell *cells;
    size_t capacity; /* a power of two, or 0 */
    size_t count;
} digest_set;

/* Returns the cell that contains a digest; if there is none, the free cell into which the digest
 * belongs. The digest is a hash itself, so it is not hashed again. */
static digest_cell *find_cell(const digest_set *set, const kiln_digest *digest)
{
    size_t at;
    memcpy(&at, digest->bytes, sizeof at);
    for (;; at++) {
        digest_cell *cell = &set->cells[at & (set->capacity - 1)];
        if (!cell->is_taken || memcmp(&cell->digest, digest, sizeof *digest) == 0) {
            return cell;
        }
    }
}

static bool set_has(const digest_set *set, const kiln_digest *digest)
{
    return set->capacity > 0 && find_cell(set, digest)->is_taken;
}

static bool set_grow(digest_set *set)
{
    digest_set grown = {.capacity = set->capacity > 0 ? set->capacity * 2 : 256};
    grown.cells = calloc(grown.capacity, sizeof *grown.cells);
    if (!grown.cells) {
        return false;
    }
    for (size_t i = 0; i < set->capacity; i++) {
        if (set->cells[i].is_taken) {
            *find_cell(&grown, &set->cells[i].digest) = set->cells[i];
        }
    }
    grown.count = set->count;
    free(set->cells);
    *set = grown;
    return true;
}

static bool set_add(digest_set *set, const kiln_digest *digest)
{
    if (set->count * 2 >= set->capacity && !set_grow(set)) {
        return false;
    }
    digest_cell *cell = find_cell(set, digest);
    set->count += !cell->is_taken;
    *cell = (digest_cell){.digest = *digest, .is_taken = true};
    return true;
}

/* ---- items ---- */

typedef struct chain_item {
    kiln_item item;  /* first: a chain_item is a kiln_item */
    kiln_item *copy; /* the tier's item */
    size_t tier;
} chain_item;

kiln_status kilni_chain_item_info(kiln_item *item, kiln_item_info *ret_info)
{
    ret_info->struct_size = sizeof *ret_info;
    return kiln_item_get_info(((chain_item *)item)->copy, ret_info);
}

kiln_status kilni_chain_item_read(kiln_item *item, kiln_entry **ret_entry)
{
    return kiln_item_read(((chain_item *)item)->copy, ret_entry);
}

/* Removes the copies of an entry from the tiers below tier @above. The walk skips these copies, but
 * later look-ups would find them. */
static void remove_below(kilni_chain *chain, size_t above, const kiln_key *key)
{
    for (size_t i = above + 1; i < chain->count; i++) {
        kilni_tier *tier = &chain->tiers[i];
        kiln_store *store = kilni_tier_is_written(tier) ? kilni_tier_use(tier) : NULL;
        if (store) {
            kilni_tier_note(tier, kiln_store_remove(store, key));
        }
    }
}

kiln_status kilni_chain_item_remove(kiln_item *item)
{
    chain_item *self = (chain_item *)item;
    kilni_chain *chain = (kilni_chain *)item->store;
    if (!kilni_tier_is_written(&chain->tiers[self->tier])) {
        return KILN_E_READONLY;
    }
    /* The key can be read only from an intact entry. So if the removed entry is damaged, its copies
     * in the tiers below stay, and later look-ups find them. */
    kiln_entry *entry = NULL;
    kiln_item_read(self->copy, &entry);
    kiln_status status = kiln_item_remove(self->copy);
    if (status == KILN_OK && entry) {
        remove_below(chain, self->tier, kiln_entry_key(entry));
    }
    kiln_entry_release(&entry);
    return status;
}

kiln_status kilni_chain_item_quarantine(kiln_item *item)
{
    const chain_item *self = (const chain_item *)item;
    kilni_chain *chain = (kilni_chain *)item->store;
    return kilni_tier_is_written(&chain->tiers[self->tier]) ? kiln_item_quarantine(self->copy)
                                                            : KILN_E_READONLY;
}

/* ---- walks ---- */

typedef kiln_status walk_fn(kiln_store *store, kiln_item_fn visit, void *user);

typedef struct chain_walk {
    kilni_chain *chain;
    kiln_item_fn visit;
    void *user;
    const kiln_digest *digest; /* of the items to visit; NULL: all */
    bool meets_all;            /* the walk also visits copies that a look-up does not reach */
    size_t tier;
    digest_set met;
    bool has_ended;
    kiln_status status; /* KILN_E_NO_MEMORY, or KILN_OK */
} chain_walk;

/* Returns true if the walk has not yet visited an item with this item's digest. Records the digest.
 */
static bool is_first_copy(chain_walk *walk, kiln_item *item)
{
    kiln_item_info info = {.struct_size = sizeof info};
    if (kiln_item_get_info(item, &info) != KILN_OK || set_has(&walk->met, &info.digest)) {
        return false;
    }
    bool is_last_tier = walk->tier + 1 == walk->chain->count;
    if (!is_last_tier && !set_add(&walk->met, &info.digest)) {
        walk->status = KILN_E_NO_MEMORY;
    }
    return walk->status == KILN_OK;
}

static int visit_copy(void *user, kiln_item *item)
{
    chain_walk *walk = user;
    if (walk->meets_all || is_first_copy(walk, item)) {
        chain_item met = {.item.store = &walk->chain->store, .copy = item, .tier = walk->tier};
        walk->has_ended = walk->visit(walk->user, &met.item) != 0;
    }
    return walk->has_ended || walk->status != KILN_OK;
}

/* Walks through each tier. If a tier fails, the walk skips it and continues, and returns the first
 * failure at the end. */
static kiln_status walk_tiers(chain_walk *walk, walk_fn *each)
{
    kiln_status first_failure = KILN_OK;
    for (size_t i = 0; i < walk->chain->count && !walk->has_ended && walk->status == KILN_OK; i++) {
        kilni_tier *tier = &walk->chain->tiers[i];
        kiln_store *store = kilni_tier_use(tier);
        walk->tier = i;
        kiln_status status = store ? kilni_tier_note(tier, each(store, visit_copy, walk)) : KILN_OK;
        first_failure = first_failure == KILN_OK ? status : first_failure;
    }
    free(walk->met.cells);
    return walk->status == KILN_OK ? first_failure : walk->status;
}

kiln_status kilni_chain_each(kiln_store *store, kiln_item_fn visit, void *user)
{
    chain_walk walk = {.chain = (kilni_chain *)store, .visit = visit, .user = user};
    return walk_tiers(&walk, kiln_store_each);
}

static kiln_status each_of_digest(kiln_store *store, kiln_item_fn visit, void *user)
{
    const chain_walk *walk = user;
    return kiln_store_each_of_digest(store, walk->digest, visit, user);
}

kiln_status kilni_chain_each_of_digest(kiln_store *store, const kiln_digest *digest,
                                       kiln_item_fn visit, void *user)
{
    chain_walk walk = {
        .chain = (kilni_chain *)store, .visit = visit, .user = user, .digest = digest};
    return walk_tiers(&walk, each_of_digest);
}

kiln_status kilni_chain_each_copy(kiln_store *store, kiln_item_fn visit, void *user)
{
    chain_walk walk = {
        .chain = (kilni_chain *)store, .visit = visit, .user = user, .meets_all = true};
    return walk_tiers(&walk, kiln_store_each);
}

kiln_status kilni_chain_each_request(kiln_store *store, kiln_item_fn visit, void *user)
{
    chain_walk walk = {.chain = (kilni_chain *)store, .visit = visit, .user = user};
    return walk_tiers(&walk, kiln_store_each_request);
}
