/* SPDX-License-Identifier: Apache-2.0 */
#include "floor.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A table whose cells point to entries. The key of an entry is compared. */
typedef struct entry {
    const kiln_key *key;
    uint64_t hash;
    void *object;
} entry;

struct floor_table {
    size_t mask;
    entry *cells[];
};

/* The key's digest, read from where Kiln keeps it, after the reference count. A function call would
 * cost more than a floor may. */
static uint64_t hash_of(const kiln_key *key)
{
    uint64_t hash;
    memcpy(&hash, (const char *)key + sizeof(size_t), sizeof hash);
    return hash;
}

static entry *new_entry(const kiln_key *key, void *object)
{
    entry *added = malloc(sizeof *added);
    if (!added) {
        abort();
    }
    *added = (entry){.key = key, .hash = hash_of(key), .object = object};
    return added;
}

static bool is_of(const entry *found, const kiln_key *key, uint64_t hash)
{
    return found->key == key || (found->hash == hash && kiln_key_equals(found->key, key));
}

/* Returns the smallest power of two that is at least @least. */
static size_t cell_count_for(size_t least, size_t wanted)
{
    while (least < wanted) {
        least *= 2;
    }
    return least;
}

floor_table *floor_new(size_t capacity)
{
    size_t count = cell_count_for(64, capacity * 2);
    floor_table *table = calloc(1, sizeof *table + count * sizeof table->cells[0]);
    if (table) {
        table->mask = count - 1;
    }
    return table;
}

void floor_free(floor_table *table)
{
    for (size_t i = 0; i <= table->mask; i++) {
        free(table->cells[i]);
    }
    free(table);
}

void floor_insert(floor_table *table, const kiln_key *key, void *object)
{
    entry *added = new_entry(key, object);
    size_t i = added->hash & table->mask;
    while (table->cells[i]) {
        i = (i + 1) & table->mask;
    }
    table->cells[i] = added;
}

void *floor_find(const floor_table *table, const kiln_key *key)
{
    uint64_t hash = hash_of(key);
    for (size_t i = hash & table->mask; table->cells[i]; i = (i + 1) & table->mask) {
        const entry *found = table->cells[i];
        if (is_of(found, key, hash)) {
            return found->object;
        }
    }
    return NULL;
}

/* ---- like the engine's ---- */

#define ADDRESS (((uint64_t)1 << 48) - 1)

struct tagged_table {
    size_t mask;
    uint64_t cells[];
};

static uint64_t tag_of(uint64_t hash)
{
    return (hash | (uint64_t)1 << 63) & ~ADDRESS;
}

tagged_table *tagged_new(size_t capacity)
{
    size_t count = cell_count_for(512, capacity * 3);
    tagged_table *table = calloc(1, sizeof *table + count * sizeof table->cells[0]);
    if (table) {
        table->mask = count - 1;
    }
    return table;
}

void tagged_free(tagged_table *table)
{
    for (size_t i = 0; i <= table->mask; i++) {
        free((void *)(uintptr_t)(table->cells[i] & ADDRESS));
    }
    free(table);
}

void tagged_insert(tagged_table *table, const kiln_key *key, void *object)
{
    entry *added = new_entry(key, object);
    size_t i = added->hash & table->mask;
    while (table->cells[i] != 0) {
        i = (i + 1) & table->mask;
    }
    table->cells[i] = tag_of(added->hash) | (uintptr_t)added;
}

/* Finds a key that is not in its first two cells. */
__attribute__((noinline)) static void *find_far(const tagged_table *table, const kiln_key *key)
{
    uint64_t hash = hash_of(key);
    for (size_t i = hash & table->mask; table->cells[i] != 0; i = (i + 1) & table->mask) {
        const entry *found = (const entry *)(uintptr_t)(table->cells[i] & ADDRESS);
        if (is_of(found, key, hash)) {
            return found->object;
        }
    }
    return NULL;
}

void *tagged_find(const tagged_table *table, const kiln_key *key)
{
    uint64_t hash = hash_of(key);
    uint64_t first = table->cells[hash & table->mask] ^ tag_of(hash);
    uint64_t second = table->cells[(hash + 1) & table->mask] ^ tag_of(hash);
    uint64_t rest = first < second ? first : second;
    if (rest <= ADDRESS && ((const entry *)(uintptr_t)rest)->key == key) {
        return ((const entry *)(uintptr_t)rest)->object;
    }
    return find_far(table, key);
}

/* ---- insertions that evict ---- */

typedef struct listed {
    struct listed *next, **from; /* in a chain of the table */
    struct listed *newer;
    kiln_key *key;
    uint64_t hash;
    void *object;
} listed;

struct floor_lru {
    size_t capacity, count;
    listed *oldest, *newest;
    size_t mask;
    listed *chains[];
};

floor_lru *floor_lru_new(size_t capacity)
{
    size_t count = cell_count_for(64, capacity * 2);
    floor_lru *cache = calloc(1, sizeof *cache + count * sizeof cache->chains[0]);
    if (cache) {
        cache->mask = count - 1;
        cache->capacity = capacity;
    }
    return cache;
}

static void remove_oldest(floor_lru *cache)
{
    listed *removed = cache->oldest;
    cache->oldest = removed->newer;
    *removed->from = removed->next;
    if (removed->next) {
        removed->next->from = removed->from;
    }
    kiln_key_release(&removed->key);
    free(removed);
    cache->count--;
}

void floor_lru_free(floor_lru *cache)
{
    while (cache->count > 0) {
        remove_oldest(cache);
    }
    free(cache);
}

static void append(floor_lru *cache, listed *added)
{
    *(cache->count++ > 0 ? &cache->newest->newer : &cache->oldest) = added;
    cache->newest = added;
}

void floor_lru_insert(floor_lru *cache, kiln_key *key, void *object)
{
    const uint64_t hash = hash_of(key);
    listed **chain = &cache->chains[hash & cache->mask];
    for (const listed *found = *chain; found; found = found->next) {
        if (found->hash == hash && kiln_key_equals(found->key, key)) {
            return;
        }
    }
    if (cache->count == cache->capacity) {
        remove_oldest(cache);
    }
    listed *added = malloc(sizeof *added);
    if (!added) {
        abort();
    }
    *added = (listed){
        .next = *chain, .from = chain, .key = kiln_key_retain(key), .hash = hash, .object = object};
    if (added->next) {
        added->next->from = &added->next;
    }
    *chain = added;
    append(cache, added);
}

int floor_load(const int *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}
