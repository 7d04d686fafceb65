/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys and objects for tests of the cache. The value of an object is a function of its key, and
 * each destruction is counted.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <kiln/cache.h>
#include <kiln/key.h>

typedef struct test_object {
    uint32_t value;
    atomic_int ends;
} test_object;

static inline uint32_t value_of_key(uint32_t number)
{
    return number * 2654435761u + 12345u;
}

/* A kiln_destroy_fn for objects that the test owns. */
static inline void count_end(void *user, void *object)
{
    (void)user;
    atomic_fetch_add(&((test_object *)object)->ends, 1);
}

/* A key whose part "name" is "key-<number>". */
static inline kiln_key *make_key(uint32_t number)
{
    char name[32];
    snprintf(name, sizeof name, "key-%u", number);
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    if (kiln_key_builder_new(&builder) == KILN_OK &&
        kiln_key_builder_add_text(builder, "name", name) == KILN_OK &&
        kiln_key_builder_add_number(builder, "number", number) == KILN_OK) {
        kiln_key_builder_finish(builder, &key);
    }
    kiln_key_builder_free(&builder);
    if (!key) {
        abort();
    }
    return key;
}

static inline kiln_cache_stats stats_of(kiln_cache *cache)
{
    kiln_cache_stats stats = {.struct_size = sizeof stats};
    if (kiln_cache_get_stats(cache, &stats) != KILN_OK) {
        abort();
    }
    return stats;
}
