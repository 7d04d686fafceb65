/* SPDX-License-Identifier: Apache-2.0 */
#include "floor.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Of the same make as the engine's, so that the difference is what protection costs: cells that
 * name entries, and an entry that is believed by its key. */
typedef struct entry {
    const kiln_key *key;
    uint64_t hash;
    void *object;
} entry;

struct floor_table {
    size_t mask;
    entry *cells[];
};

/* The key's digest where kiln keeps it: behind its count of references. A call for it would be no
 * floor. */
static uint64_t hash_of(const kiln_key *key)
{
    uint64_t hash;
    memcpy(&hash, (const char *)key + sizeof(size_t), sizeof hash);
    return hash;
}

floor_table *floor_new(size_t capacity)
{
    size_t count = 64;
    while (count < capacity * 2) {
        count *= 2;
    }
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
    entry *added = malloc(sizeof *added);
    if (!added) {
        abort();
    }
    *added = (entry){.key = key, .hash = hash_of(key), .object = object};
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
        if (found->key == key || (found->hash == hash && kiln_key_equals(found->key, key))) {
            return found->object;
        }
    }
    return NULL;
}

int floor_load(const int *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}
