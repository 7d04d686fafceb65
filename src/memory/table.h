/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of keys: found by digest, believed by comparison. Its user guards it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <kiln/key.h>

typedef enum kilni_slot_state {
    KILNI_SLOT_BUILDING = 1, /* the slot begins a kilni_flight */
    KILNI_SLOT_FAILED = 2,   /* likewise: a failure that is kept */
    KILNI_SLOT_READY = 3     /* the slot begins a kilni_object */
} kilni_slot_state;

/* What a key has in the table; the beginning of a larger structure. */
typedef struct kilni_slot {
    struct kilni_slot *next; /* in the same bucket */
    kiln_key *key;           /* a reference */
    uint64_t hash;           /* of the key's digest */
    uint64_t group;          /* 0: none */
    kilni_slot_state state;
} kilni_slot;

typedef struct kilni_table {
    kilni_slot **buckets;
    size_t bucket_count; /* a power of two */
    size_t slot_count;
} kilni_table;

/* KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_table_init(kilni_table *ret_table);

/* Frees the table, which is to be empty. */
void kilni_table_fini(kilni_table *table);

/* Gives a slot its key, of which it takes a reference. */
void kilni_slot_init(kilni_slot *slot, const kiln_key *key, uint64_t group, kilni_slot_state state);

kilni_slot *kilni_table_find(const kilni_table *table, const kiln_key *key);

/* The key must not be there. Never fails: a table that can't grow gets longer chains. */
void kilni_table_insert(kilni_table *table, kilni_slot *slot);

/* The slot must be there. */
void kilni_table_remove(kilni_table *table, kilni_slot *slot);

/* Walks all slots, in no order: the one after @slot, or the first for NULL; NULL at the end. To
 * remove a slot on the way, ask for the next one before. */
kilni_slot *kilni_table_next(const kilni_table *table, const kilni_slot *slot);
