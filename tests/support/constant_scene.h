/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of constants: a backend that counts its allocations, devices that no other test uses,
 * and threads that look up constants. Include it after cmocka.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kiln/constant.h>
#include <kiln/constant_backend.h>

#include "support/constant_budget.h"

#define MIB ((size_t)1 << 20)

/* The engine and the allocator of a backend. It allocates one byte, whatever the size. */
typedef struct backend {
    atomic_int holds, allocations, frees, evictions;
    atomic_int refused; /* this many allocations fail before the others succeed */
    kiln_constant_memory memory;
} backend;

static inline void *backend_allocate(size_t size, void *engine, void *allocator)
{
    backend *b = engine;
    bool right = allocator == (void *)&b->memory && size > 0 && atomic_load(&b->holds) > 0;
    if (atomic_load(&b->refused) > 0) {
        atomic_fetch_sub(&b->refused, 1);
        return NULL;
    }
    void *data = right ? calloc(1, 1) : NULL;
    if (data) {
        atomic_fetch_add(&b->allocations, 1);
    }
    return data;
}

static inline void backend_free(void *data, void *engine, void *allocator)
{
    backend *b = engine;
    if (allocator == (void *)&b->memory && atomic_load(&b->holds) > 0) {
        atomic_fetch_add(&b->frees, 1);
    }
    free(data);
}

static inline void backend_retain(void *engine, void *allocator)
{
    (void)allocator;
    atomic_fetch_add(&((backend *)engine)->holds, 1);
}

static inline void backend_release(void *engine, void *allocator)
{
    (void)allocator;
    atomic_fetch_sub(&((backend *)engine)->holds, 1);
}

static inline void backend_evicted(void *user, const kiln_constant_buffer *buffer)
{
    if (kiln_constant_buffer_data(buffer)) {
        atomic_fetch_add(&((backend *)user)->evictions, 1);
    }
}

static inline void backend_init(backend *b)
{
    memset(b, 0, sizeof *b);
    b->memory = (kiln_constant_memory){.struct_size = sizeof b->memory,
                                       .allocate = backend_allocate,
                                       .free = backend_free,
                                       .engine = b,
                                       .allocator = &b->memory,
                                       .retain = backend_retain,
                                       .release = backend_release,
                                       .evicted = backend_evicted,
                                       .user = b};
}

/* Returns how many buffers of a backend exist. */
static inline int backend_live(backend *b)
{
    int live = atomic_load(&b->allocations) - atomic_load(&b->frees);
    assert_int_equal(atomic_load(&b->holds), live);
    return live;
}

/* ---- devices ---- */

/* Returns a device number that no test has used before. */
static inline uint32_t new_index(void)
{
    static uint32_t last = 1000;
    return ++last;
}

static inline kiln_constant_cache *cache_at(uint32_t kind, uint32_t index)
{
    kiln_constant_cache *cache = NULL;
    assert_int_equal(kiln_constant_cache_of(kind, index, &cache), KILN_OK);
    return cache;
}

static inline kiln_constant_cache *new_device(void)
{
    return cache_at(KILN_ENGINE_GPU, new_index());
}

/* Returns a device whose capacity and policy are set. */
static inline kiln_constant_cache *new_device_with(uint64_t capacity_mib, uint32_t policy)
{
    uint32_t index = new_index();
    assert_int_equal(constant_set_index(KILN_ENGINE_GPU, index, capacity_mib, policy), KILN_OK);
    return cache_at(KILN_ENGINE_GPU, index);
}

/* ---- constants ---- */

static inline kiln_key *key_with(uint64_t context, uint64_t backend_id, const char *text,
                                 uint64_t generation)
{
    kiln_constant_key_params params = {.struct_size = sizeof params,
                                       .context = context,
                                       .backend = backend_id,
                                       .key = text,
                                       .key_size = strlen(text),
                                       .generation = generation};
    kiln_key *key = NULL;
    assert_int_equal(kiln_constant_key_new(&params, &key), KILN_OK);
    return key;
}

static inline kiln_key *key_of(const char *text)
{
    return key_with(1, 1, text, 1);
}

static inline kiln_reservation ask_as(kiln_constant_cache *cache, const kiln_key *key, size_t size,
                                      uint64_t owner)
{
    kiln_constant_params params = {.struct_size = sizeof params, .owner = owner};
    kiln_reservation answer = {0};
    assert_int_equal(kiln_constant_get_or_add(cache, key, size, &params, &answer, NULL), KILN_OK);
    return answer;
}

static inline kiln_ticket *own(kiln_constant_cache *cache, const kiln_key *key, size_t size)
{
    kiln_reservation answer = ask_as(cache, key, size, 0);
    assert_int_equal(answer.outcome, KILN_OWNER);
    assert_non_null(answer.ticket);
    return answer.ticket;
}

/* Returns only the outcome of a look-up, and releases the rest of its result. */
static inline kiln_outcome outcome_of(kiln_constant_cache *cache, const kiln_key *key, size_t size)
{
    kiln_reservation answer = ask_as(cache, key, size, 0);
    kiln_pin_release(&answer.pin);
    kiln_ticket_abandon(&answer.ticket, KILN_ABANDON_UNSHAREABLE, KILN_OK, NULL);
    return answer.outcome;
}

static inline kiln_constant_buffer *buffer_of(backend *b, size_t size)
{
    kiln_constant_buffer *buffer = NULL;
    assert_int_equal(kiln_constant_buffer_new(&b->memory, size, NULL, &buffer), KILN_OK);
    return buffer;
}

static inline kiln_pin *fulfil(backend *b, kiln_ticket *ticket, size_t size, uint64_t cost_ns)
{
    kiln_constant_buffer *buffer = buffer_of(b, size);
    kiln_constant_buffer *given = buffer;
    kiln_pin *pin = NULL;
    assert_int_equal(kiln_constant_fulfil(&ticket, &given, cost_ns, &pin), KILN_OK);
    assert_null(ticket);
    assert_null(given);
    assert_ptr_equal(kiln_constant_buffer_of(pin), buffer);
    return pin;
}

/* Adds a constant, and returns a pin on it. */
static inline kiln_pin *put_as(backend *b, kiln_constant_cache *cache, const kiln_key *key,
                               size_t size, uint64_t cost_ns, uint64_t owner)
{
    kiln_reservation answer = ask_as(cache, key, size, owner);
    assert_int_equal(answer.outcome, KILN_OWNER);
    return fulfil(b, answer.ticket, size, cost_ns);
}

static inline void put(backend *b, kiln_constant_cache *cache, const kiln_key *key, size_t size,
                       uint64_t cost_ns)
{
    kiln_pin *pin = put_as(b, cache, key, size, cost_ns, 0);
    kiln_pin_release(&pin);
}

static inline kiln_cache_stats stats_of(kiln_constant_cache *cache)
{
    kiln_cache_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(kiln_constant_get_stats(cache, &stats), KILN_OK);
    return stats;
}

/* ---- a thread that looks up ---- */

typedef struct asker {
    pthread_t thread;
    kiln_constant_cache *cache;
    const kiln_key *key;
    size_t size;
    uint64_t owner;
    kiln_status status;
    kiln_reservation answer;
    kiln_error error;
} asker;

static inline void *asker_ask(void *argument)
{
    asker *a = argument;
    kiln_constant_params params = {.struct_size = sizeof params, .owner = a->owner};
    a->error.struct_size = sizeof a->error;
    a->status = kiln_constant_get_or_add(a->cache, a->key, a->size, &params, &a->answer, &a->error);
    return NULL;
}

/* Returns once the thread waits for another thread's build. */
static inline void start_asker_as(asker *a, kiln_constant_cache *cache, const kiln_key *key,
                                  size_t size, uint64_t owner)
{
    *a = (asker){.cache = cache, .key = key, .size = size, .owner = owner};
    uint64_t waits = stats_of(cache).waits;
    assert_int_equal(pthread_create(&a->thread, NULL, asker_ask, a), 0);
    for (int i = 0; i < 20000 && stats_of(cache).waits == waits; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_int_equal(stats_of(cache).waits, waits + 1);
}

static inline void start_asker(asker *a, kiln_constant_cache *cache, const kiln_key *key,
                               size_t size)
{
    start_asker_as(a, cache, key, size, 0);
}

static inline void join_asker(asker *a)
{
    assert_int_equal(pthread_join(a->thread, NULL), 0);
}
