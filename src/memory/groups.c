/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/groups.h"

#include <stdlib.h>

#include "key/hash.h"
#include "memory/memory.h"

enum { LEAST_CHAINS = KILNI_GROUP_CHUNK_SIZE, LEAST_CHUNK_ROOM = 16, CHAINS_JOINED_AT_ONCE = 4 };

static kilni_object **chain_at(const kilni_groups *groups, size_t i)
{
    return &groups->chunks[i / KILNI_GROUP_CHUNK_SIZE][i % KILNI_GROUP_CHUNK_SIZE];
}

/* Returns the chain of a group. The hash depends on a secret, so nobody can choose many groups that
 * share a chain. */
static kilni_object **chain_of(const kilni_groups *groups, uint64_t group)
{
    const size_t i = (size_t)kilni_hash_keyed(&group, sizeof group) & groups->mask;
    /* If a chain does not exist yet, its objects are in the chain from which it will be split. */
    return chain_at(groups, i < groups->chain_count ? i : i & groups->mask >> 1);
}

static kiln_status add_chunk(kilni_groups *groups)
{
    if (groups->chunk_count == groups->chunk_room) {
        size_t room = groups->chunk_room > 0 ? groups->chunk_room * 2 : LEAST_CHUNK_ROOM;
        kilni_object ***chunks =
            realloc(groups->chunks, room * sizeof *chunks); /* NOLINT: pointers to chunks */
        if (!chunks) {
            return KILN_E_NO_MEMORY;
        }
        groups->chunks = chunks;
        groups->chunk_room = room;
    }
    kilni_object **chunk = calloc(KILNI_GROUP_CHUNK_SIZE, sizeof *chunk); /* NOLINT: pointers */
    if (!chunk) {
        return KILN_E_NO_MEMORY;
    }
    groups->chunks[groups->chunk_count++] = chunk;
    return KILN_OK;
}

kiln_status kilni_groups_init(kilni_groups *ret_groups)
{
    kilni_groups groups = {.chain_count = LEAST_CHAINS, .mask = LEAST_CHAINS - 1};
    if (add_chunk(&groups) != KILN_OK) {
        kilni_groups_fini(&groups);
        return KILN_E_NO_MEMORY;
    }
    *ret_groups = groups;
    return KILN_OK;
}

void kilni_groups_fini(kilni_groups *groups)
{
    while (groups->chunk_count > 0) {
        free(groups->chunks[--groups->chunk_count]);
    }
    free(groups->chunks);
    *groups = (kilni_groups){0};
}

kilni_group_links *kilni_group_links_of(kilni_object *object)
{
    return (kilni_group_links *)(object + 1);
}

uint64_t kilni_group_of(kilni_object *object)
{
    return object->slot.can_have_group ? kilni_group_links_of(object)->group : 0;
}

/* @object  NULL: none */
static void set_link(kilni_object **link, kilni_object *object)
{
    *link = object;
    if (object) {
        kilni_group_links_of(object)->from = link;
    }
}

/* Returns the link to the first object of a group. If the group has no objects, returns the link at
 * the end of its chain. */
static kilni_object **find_link(const kilni_groups *groups, uint64_t group)
{
    kilni_object **link = chain_of(groups, group);
    while (*link && kilni_group_links_of(*link)->group != group) {
        link = &kilni_group_links_of(*link)->next_group;
    }
    return link;
}

/* Puts an object into its chain. If the group already has objects, its first object stays the
 * first. */
static void put(const kilni_groups *groups, kilni_object *object)
{
    kilni_group_links *links = kilni_group_links_of(object);
    kilni_object **link = find_link(groups, links->group);
    object->slot.is_first_of_group = !*link;
    if (*link) {
        link = &kilni_group_links_of(*link)->next;
    }
    set_link(&links->next, *link);
    links->next_group = NULL;
    set_link(link, object);
}

/* Moves each group of a chain to the chain to which it now belongs. */
static void distribute(const kilni_groups *groups, kilni_object **chain)
{
    kilni_object *first = *chain;
    *chain = NULL;
    while (first) {
        kilni_group_links *links = kilni_group_links_of(first);
        kilni_object *next = links->next_group;
        kilni_object **place = chain_of(groups, links->group);
        set_link(&links->next_group, *place);
        set_link(place, first);
        first = next;
    }
}

static void take(kilni_object *object)
{
    const kilni_group_links *links = kilni_group_links_of(object);
    kilni_object *next = links->next;
    if (object->slot.is_first_of_group && next) {
        next->slot.is_first_of_group = true;
        set_link(&kilni_group_links_of(next)->next_group, links->next_group);
    } else if (object->slot.is_first_of_group) {
        next = links->next_group;
    }
    set_link(links->from, next);
}

/* Adds a chain, and moves some groups of an existing chain to it. If there is no memory, the chains
 * stay as they are. */
static void add_chain(kilni_groups *groups)
{
    const size_t added = groups->chain_count;
    if (added == groups->chunk_count * KILNI_GROUP_CHUNK_SIZE && add_chunk(groups) != KILN_OK) {
        return;
    }
    groups->chain_count++;
    groups->mask |= added;
    distribute(groups, chain_at(groups, added & groups->mask >> 1));
}

static void join_last_chain(kilni_groups *groups)
{
    kilni_object **last = chain_at(groups, --groups->chain_count);
    if (groups->chain_count == (groups->mask >> 1) + 1) {
        groups->mask >>= 1;
    }
    distribute(groups, last);
    /* A spare chunk is kept. Otherwise, a caller that adds and removes objects at the boundary of a
     * chunk would allocate and free the chunk each time. */
    if (groups->chunk_count > groups->chain_count / KILNI_GROUP_CHUNK_SIZE + 2) {
        free(groups->chunks[--groups->chunk_count]);
    }
}

void kilni_groups_add(kilni_groups *groups, kilni_object *object)
{
    if (kilni_group_of(object) == 0) {
        return;
    }
    groups->count++;
    if (groups->count > groups->chain_count) {
        add_chain(groups);
    }
    put(groups, object);
}

void kilni_groups_remove(kilni_groups *groups, kilni_object *object)
{
    if (kilni_group_of(object) == 0) {
        return;
    }
    groups->count--;
    take(object);
    for (int i = 0; i < CHAINS_JOINED_AT_ONCE && groups->chain_count > LEAST_CHAINS &&
                    groups->count < groups->chain_count / 4;
         i++) {
        join_last_chain(groups);
    }
}

kilni_object *kilni_groups_first(const kilni_groups *groups, uint64_t group)
{
    return *find_link(groups, group);
}
