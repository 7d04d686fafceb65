/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/group.h"

#include <stdlib.h>

#include "memory/memory.h"

enum { LEAST_CHAINS = 64 };

/* Consecutive numbers, and multiples of a number, get chains of their own, even if they differ only
 * in their highest bits, which the product alone would lose. */
static size_t chain_of(const kilni_groups *groups, uint64_t group)
{
    const uint64_t folded = group ^ group >> 32;
    return (size_t)(folded * UINT64_C(0x9e3779b97f4a7c15) >> 32) & groups->mask;
}

kiln_status kilni_groups_init(kilni_groups *ret_groups)
{
    kilni_object **chains = calloc(LEAST_CHAINS, sizeof(kilni_object *));
    if (!chains) {
        return KILN_E_NO_MEMORY;
    }
    *ret_groups = (kilni_groups){.chains = chains, .mask = LEAST_CHAINS - 1};
    return KILN_OK;
}

void kilni_groups_fini(kilni_groups *groups)
{
    free(groups->chains);
    *groups = (kilni_groups){0};
}

kilni_group_links *kilni_group_links_of(kilni_object *object)
{
    return (kilni_group_links *)(object + 1);
}

static void put(kilni_groups *groups, kilni_object *object)
{
    kilni_object **first = &groups->chains[chain_of(groups, object->slot.group)];
    kilni_group_links *links = kilni_group_links_of(object);
    *links = (kilni_group_links){.next = *first, .from = first};
    if (links->next) {
        kilni_group_links_of(links->next)->from = &links->next;
    }
    *first = object;
}

/* Distributes the objects over new chains, at least twice as many as there are objects. Without
 * memory, the chains stay as they are. */
static void rehash(kilni_groups *groups)
{
    size_t chain_count = LEAST_CHAINS;
    while (chain_count < groups->count * 2) {
        chain_count *= 2;
    }
    kilni_object **chains = calloc(chain_count, sizeof(kilni_object *));
    if (!chains) {
        return;
    }
    const kilni_groups old = *groups;
    groups->chains = chains;
    groups->mask = chain_count - 1;
    for (size_t i = 0; i <= old.mask; i++) {
        kilni_object *next;
        for (kilni_object *object = old.chains[i]; object; object = next) {
            next = kilni_group_links_of(object)->next;
            put(groups, object);
        }
    }
    free(old.chains);
}

void kilni_groups_add(kilni_groups *groups, kilni_object *object)
{
    if (object->slot.group == 0) {
        return;
    }
    const size_t chain_count = groups->mask + 1;
    groups->count++;
    if (groups->count > chain_count ||
        (chain_count > LEAST_CHAINS && groups->count < chain_count / 32)) {
        rehash(groups);
    }
    put(groups, object);
}

void kilni_groups_remove(kilni_groups *groups, kilni_object *object)
{
    if (object->slot.group == 0) {
        return;
    }
    groups->count--;
    const kilni_group_links *links = kilni_group_links_of(object);
    *links->from = links->next;
    if (links->next) {
        kilni_group_links_of(links->next)->from = links->from;
    }
}

kilni_object *kilni_groups_first(const kilni_groups *groups, uint64_t group)
{
    return groups->chains[chain_of(groups, group)];
}
