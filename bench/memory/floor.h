/* SPDX-License-Identifier: Apache-2.0
 *
 * The least that a look-up can cost behind a library's boundary if nothing is protected: in a plain
 * table, and in a table like the engine's. Also the least that an insertion that evicts can cost,
 * and a plain atomic load. Built as a separate shared library.
 */
#pragma once

#include <stddef.h>

#include <kiln/key.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct floor_table floor_table;

/* NULL: out of memory. */
KILN_API floor_table *floor_new(size_t capacity);
KILN_API void floor_free(floor_table *table);
KILN_API void floor_insert(floor_table *table, const kiln_key *key, void *object);
KILN_API void *floor_find(const floor_table *table, const kiln_key *key);

/* A table with tags in its cells, and without branches that a processor has to predict. The
 * difference between this table and the engine is the cost of protection. */
typedef struct tagged_table tagged_table;

KILN_API tagged_table *tagged_new(size_t capacity);
KILN_API void tagged_free(tagged_table *table);
KILN_API void tagged_insert(tagged_table *table, const kiln_key *key, void *object);
KILN_API void *tagged_find(const tagged_table *table, const kiln_key *key);

/* The least that a cache does for an insertion that evicts: a look-up that misses, an allocated
 * entry with a reference to its key in a table and in a list, and the removal of the entry that was
 * inserted first. */
typedef struct floor_lru floor_lru;

KILN_API floor_lru *floor_lru_new(size_t capacity);
KILN_API void floor_lru_free(floor_lru *cache);
KILN_API void floor_lru_insert(floor_lru *cache, kiln_key *key, void *object);

KILN_API int floor_load(const int *word);

#ifdef __cplusplus
}
#endif
