/* SPDX-License-Identifier: Apache-2.0 */
#include "neighbours.h"

#include <stdlib.h>
#include <string.h>

#include "../entry/driver.h"
#include "../store/walk.h"
#include "../text/memory.h"
#include "../text/progress.h"
#include "key_pairs.h"

/* The minimum weight of a part that differs, no matter how small the difference is. */
#define PART_WEIGHT 16

typedef struct neighbour_search {
    const explained_key *key;
    const char *digest;
    char *device; /* the key's */
    entry_filter *filter;
    near_entries found;
} neighbour_search;

/* Removes the beginning and the end that both parts share. Returns how many bytes of the longer
 * part are left. */
static uint64_t distance_of_parts(const kiln_key_part *a, const kiln_key_part *b)
{
    const uint64_t longer = a->size > b->size ? a->size : b->size;
    if (a->bytes == NULL || b->bytes == NULL) {
        return longer;
    }
    const unsigned char *first = a->bytes;
    const unsigned char *second = b->bytes;
    const uint64_t shorter = a->size < b->size ? a->size : b->size;
    uint64_t front = 0;
    while (front < shorter && first[front] == second[front]) {
        front++;
    }
    uint64_t back = 0;
    while (back < shorter - front && first[a->size - 1 - back] == second[b->size - 1 - back]) {
        back++;
    }
    return longer - front - back;
}

static int add_difference(void *user, kiln_key_change change, const kiln_key_part *before,
                          const kiln_key_part *after)
{
    near_entry *neighbour = user;
    neighbour->parts++;
    neighbour->bytes += PART_WEIGHT;
    if (change == KILN_KEY_CHANGED) {
        neighbour->bytes += distance_of_parts(before, after);
    } else {
        neighbour->bytes += before != NULL ? before->size : after->size;
    }
    if (change == KILN_KEY_REMOVED) {
        neighbour->all_parts++;
    }
    return 0;
}

static void free_neighbour(near_entry *neighbour)
{
    explained_key_free(&neighbour->key);
    free(neighbour->name);
    free(neighbour->device);
}

static bool is_nearer(const near_entry *a, const near_entry *b)
{
    if (a->is_of_other_device != b->is_of_other_device) {
        return b->is_of_other_device;
    }
    if (a->bytes != b->bytes) {
        return a->bytes < b->bytes;
    }
    if (a->created_s != b->created_s) {
        return a->created_s > b->created_s;
    }
    return strcmp(a->digest, b->digest) < 0;
}

/* Takes over @candidate. */
static void insert(near_entries *found, size_t limit, near_entry *candidate)
{
    size_t place = 0;
    while (place < found->count && is_nearer(&found->nearest[place], candidate)) {
        place++;
    }
    if (place == limit) {
        free_neighbour(candidate);
        return;
    }
    if (found->count == limit) {
        free_neighbour(&found->nearest[--found->count]);
    }
    memmove(&found->nearest[place + 1], &found->nearest[place],
            (found->count - place) * sizeof found->nearest[0]);
    found->nearest[place] = *candidate;
    found->count++;
}

static void compare(neighbour_search *search, const kiln_item_info *info, const char *digest,
                    const kiln_entry *entry)
{
    near_entry candidate = {
        .created_s = info->created_s,
        .key = explained_key_of(entry),
        .all_parts = kiln_key_part_count(search->key->key),
    };
    if (candidate.key.explanation != NULL && search->key->explanation != NULL) {
        candidate.all_parts += kiln_key_part_count(search->key->explanation);
    }
    key_pairs_difference(&candidate.key, search->key, add_difference, &candidate);
    memcpy(candidate.digest, digest, sizeof candidate.digest);
    owned char *device = device_of_key(candidate.key.key);
    candidate.is_of_other_device = strcmp(device, search->device) != 0;
    candidate.name = must(strdup(info->name));
    candidate.device = must(strdup(info->device));
    insert(&search->found, search->filter->limit, &candidate);
}

static int visit(void *user, kiln_item *item, const kiln_item_info *info, const char *digest)
{
    neighbour_search *search = user;
    kiln_entry *entry = NULL;
    progress_step("compared");
    if (info->state == KILN_OK && info->kind != KILN_ENTRY_REQUEST &&
        strcmp(digest, search->digest) != 0 && entry_filter_selects(search->filter, info, NULL) &&
        kiln_item_read(item, &entry) == KILN_OK) {
        if (entry_filter_selects_key(search->filter, kiln_entry_key(entry))) {
            compare(search, info, digest, entry);
        }
    }
    kiln_entry_release(&entry);
    return 0;
}

kiln_status neighbours_find(kiln_store *store, const explained_key *key, const char *digest,
                            entry_filter *filter, near_entries *ret_neighbours)
{
    neighbour_search search = {
        .key = key, .digest = digest, .device = device_of_key(key->key), .filter = filter};
    kiln_status status = walk_items(store, visit, &search);
    progress_end();
    free(search.device);
    if (status != KILN_OK) {
        neighbours_free(&search.found);
        return status;
    }
    *ret_neighbours = search.found;
    return KILN_OK;
}

void neighbours_free(near_entries *neighbours)
{
    for (size_t i = 0; i < neighbours->count; i++) {
        free_neighbour(&neighbours->nearest[i]);
    }
    neighbours->count = 0;
}
