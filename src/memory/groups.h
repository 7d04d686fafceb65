/* SPDX-License-Identifier: Apache-2.0
 *
 * Arranges the objects in a cache by group, so that a thread that removes a group examines no other
 * objects. The objects of a group are linked, and the first object represents the group in a chain.
 * Groups with the same hash share a chain, and there are about as many chains as objects. As in
 * linear hashing, chains are added and removed one at a time: the groups of one chain are
 * distributed over two chains, or the groups of two chains are joined in one chain. The time for
 * this does not depend on how many objects a group has. The chains are stored in chunks, so that no
 * call copies all of them.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <kiln/status.h>

/* The public name of kilni_object is kiln_pin (memory.h). */
struct kiln_pin;

/* The group of an object, and the object's place in the group. If an object can have a group, its
 * links follow it in memory. Few objects can have a group. */
typedef struct kilni_group_links {
    uint64_t group;              /* 0: none; set before the object can be found by its group */
    struct kiln_pin *next;       /* the next object of the same group */
    struct kiln_pin *next_group; /* in a group's first object: the first object of the next group */
    struct kiln_pin **from;      /* the pointer that points to the object */
} kilni_group_links;

/* Returns the links of an object that can have a group. */
kilni_group_links *kilni_group_links_of(struct kiln_pin *object);

/* Returns the group of an object, or 0 if it has none. */
uint64_t kilni_group_of(struct kiln_pin *object);

enum { KILNI_GROUP_CHUNK_SIZE = 64 };

/* Guarded by the cache's lock. Objects without a group are in no chain. */
typedef struct kilni_groups {
    struct kiln_pin ***chunks;
    size_t chunk_count, chunk_room; /* existing chunks; the capacity of the list of chunks */
    size_t chain_count;
    size_t mask;  /* the least power of two that is at least the number of chains, minus 1 */
    size_t count; /* of objects */
} kilni_groups;

/* Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_groups_init(kilni_groups *ret_groups);

/* Frees the chains, which must be empty. */
void kilni_groups_fini(kilni_groups *groups);

/* Adds an object. If there is no memory for more chains, the existing chains get longer. */
void kilni_groups_add(kilni_groups *groups, struct kiln_pin *object);

/* Removes an object. If the object has a group, it must be in the chain of that group. */
void kilni_groups_remove(kilni_groups *groups, struct kiln_pin *object);

/* Returns the first object of a group, or NULL if the group has no objects. */
struct kiln_pin *kilni_groups_first(const kilni_groups *groups, uint64_t group);
