/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/failure.h"

#include "memory/flight.h"
#include "memory/object.h"

/* Failures may use this fraction of the cache's bounds. */
enum { SHARE = 16 };

/* Includes the key. The text is part of the structure. */
static uint64_t bytes_of(const kilni_flight *failure)
{
    size_t key_bytes;
    kiln_key_encoding(failure->slot.key, &key_bytes);
    return sizeof *failure + key_bytes;
}

void kilni_failure_keep_locked(kilni_flight *flight)
{
    kiln_cache *cache = flight->cache;
    /* Frees the place of an object that will never exist. This does not free the cache, since the
     * caller still has it. */
    kilni_object_free(flight->object);
    flight->object = NULL;
    flight->slot.state = KILNI_SLOT_FAILED;
    kilni_table_insert(&cache->pending, &flight->slot);
    flight->older = cache->newest_failure;
    *(flight->older ? &flight->older->newer : &cache->oldest_failure) = flight;
    cache->newest_failure = flight;
    cache->retained_failures++;
    cache->retained_failure_bytes += bytes_of(flight);
    kilni_failures_shrink_locked(cache);
}

void kilni_failure_drop_locked(kilni_flight *failure)
{
    kiln_cache *cache = failure->cache;
    kilni_table_remove(&cache->pending, &failure->slot);
    *(failure->older ? &failure->older->newer : &cache->oldest_failure) = failure->newer;
    *(failure->newer ? &failure->newer->older : &cache->newest_failure) = failure->older;
    cache->retained_failures--;
    cache->retained_failure_bytes -= bytes_of(failure);
    kilni_flight_free(failure);
}

void kilni_failure_forget(kiln_cache *cache, const kiln_key *key)
{
    kilni_cache_lock(cache);
    kilni_slot *slot = kilni_table_find(&cache->pending, key);
    if (slot && slot->state == KILNI_SLOT_FAILED) {
        kilni_failure_drop_locked((kilni_flight *)slot);
    }
    pthread_mutex_unlock(&cache->lock);
}

/* The newest failure is always kept: a thread may be about to ask for its key again. */
void kilni_failures_shrink_locked(kiln_cache *cache)
{
    while (cache->retained_failures > 1 &&
           (cache->retained_failures > cache->max_entries / SHARE ||
            cache->retained_failure_bytes > cache->max_bytes / SHARE)) {
        kilni_failure_drop_locked(cache->oldest_failure);
    }
}

void kilni_failures_drop_all_locked(kiln_cache *cache)
{
    while (cache->oldest_failure) {
        kilni_failure_drop_locked(cache->oldest_failure);
    }
}
