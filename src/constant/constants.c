/* SPDX-License-Identifier: Apache-2.0 */
#include "constant/constants.h"

#include "memory/read_section.h"

static kilni_constants process = {.lock = PTHREAD_MUTEX_INITIALIZER};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool sees_forks;

/* The number of nested calls of the handlers below. If a process forks while it registers the
 * handlers, its child registers them again, and they run twice. */
static _Thread_local unsigned fork_depth;

static void before_fork(void)
{
    if (fork_depth++ == 0) {
        pthread_mutex_lock(&process.lock);
    }
}

static void after_fork(void)
{
    if (--fork_depth == 0) {
        pthread_mutex_unlock(&process.lock);
    }
}

static void begin(void)
{
    for (size_t i = 0; i < KILNI_CONSTANT_KINDS; i++) {
        process.kinds[i] =
            (kilni_constant_limits){.capacity_mib = KILN_UNLIMITED, .policy = KILN_POLICY_NO_EVICT};
    }
    sees_forks = pthread_atfork(before_fork, after_fork, after_fork) == 0;
}

kilni_constants *kilni_constants_get(void)
{
    pthread_once(&once, begin);
    return sees_forks ? &process : NULL;
}

kiln_constant_cache *kilni_constant_cache_first(const kilni_constants *constants)
{
    return atomic_load_explicit(&constants->caches, memory_order_acquire);
}

/* Returns true if this thread is inside a backend function that one of the caches called. */
static bool is_inside_backend(void)
{
    kiln_constant_cache *cache = kilni_constant_cache_first(&process);
    while (cache && !kilni_cache_is_departing(cache->memory)) {
        cache = cache->next;
    }
    return cache != NULL;
}

void kilni_constants_settle(kiln_constant_cache *cache)
{
    if (!is_inside_backend()) {
        kilni_cache_settle(cache->memory);
    }
}
