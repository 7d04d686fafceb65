/* SPDX-License-Identifier: Apache-2.0
 *
 * The objects in a cache by their groups, so that removing one group looks at no other objects.
 * They are in chains, about as many as there are objects; objects whose groups have the same hash
 * share a chain.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <kiln/status.h>

/* The public name of kilni_object is kiln_pin (memory.h). */
struct kiln_pin;

/* An object's place in its chain. It follows the object in memory, but only if the object can be of
 * a group, which is rare. */
typedef struct kilni_group_links {
    struct kiln_pin *next;
    struct kiln_pin **from; /* what points to the object */
} kilni_group_links;

kilni_group_links *kilni_group_links_of(struct kiln_pin *object);

/* Guarded by the cache's lock. Objects of no group are in no chain. */
typedef struct kilni_groups {
    struct kiln_pin **chains;
    size_t mask;  /* the number of chains, a power of two, less 1 */
    size_t count; /* of objects */
} kilni_groups;

/* Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_groups_init(kilni_groups *ret_groups);

/* Frees the chains, which must be empty. */
void kilni_groups_fini(kilni_groups *groups);

/* Adds an object. If there is no memory for more chains, they get longer. */
void kilni_groups_add(kilni_groups *groups, struct kiln_pin *object);

/* Removes an object, which must be in its chain unless it has no group. */
void kilni_groups_remove(kilni_groups *groups, struct kiln_pin *object);

/* Returns the first object of the chain that has a group's objects; NULL if the chain is empty. The
 * objects are linked by their links. Objects of other groups may be among them. */
struct kiln_pin *kilni_groups_first(const kilni_groups *groups, uint64_t group);
