/* SPDX-License-Identifier: Apache-2.0
 *
 * The objects in a cache by their groups, so that removing one group looks at no other: chains of
 * those whose groups have one hash, as many as there are objects.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <kiln/status.h>

/* The user's name for it is pin: memory.h. */
struct kiln_pin;

/* An object's place in its chain. It lies behind the object, and only behind one that can be of a
 * group: most are of none. */
typedef struct kilni_group_links {
    struct kiln_pin *next;
    struct kiln_pin **from; /* what points to the object */
} kilni_group_links;

kilni_group_links *kilni_group_links_of(struct kiln_pin *object);

/* Guarded by the cache's lock. Objects of no group are in no chain. */
typedef struct kilni_groups {
    struct kiln_pin **chains;
    size_t mask;  /* their number, a power of two, less 1 */
    size_t count; /* of objects */
} kilni_groups;

/* Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_groups_init(kilni_groups *ret_groups);

/* Frees the chains, in which nothing is any more. */
void kilni_groups_fini(kilni_groups *groups);

/* Puts an object in. Where there is no memory for more chains they get longer. */
void kilni_groups_add(kilni_groups *groups, struct kiln_pin *object);

/* Takes an object out, which is there unless it has no group. */
void kilni_groups_remove(kilni_groups *groups, struct kiln_pin *object);

/* The first object of the chain in which a group's are, linked by their links; others may be among
 * them. NULL: none. */
struct kiln_pin *kilni_groups_first(const kilni_groups *groups, uint64_t group);
