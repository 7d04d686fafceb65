/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/failure.h"

#include "memory/flight.h"
#include "memory/lifetime.h"

/* Failures can use up to 1/SHARE of the cache's capacity. */
enum { SHARE = 16 };

/* Returns the size of a failure, including its key. The size of the structure includes the text. */
static uint64_t bytes_of(const kilni_flight *failure)
{
    size_t key_bytes;
    kiln_key_encoding(failure->slot.key, &key_bytes);
    return sizeof *failure + key_bytes;
}

void kilni_failure_keep_locked(kilni_flight *flight)
{
    kiln_cache *cache = flight->cache;
    /* The object will never exist, so its place is freed. This does not free the cache, because the
     * cache has other references. */
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

static void unlink_failure_locked(kilni_flight *failure)
{
    kiln_cache *cache = failure->cache;
    kilni_table_remove(&cache->pending, &failure->slot);
    *(failure->older ? &failure->older->newer : &cache->oldest_failure) = failure->newer;
    *(failure->newer ? &failure->newer->older : &cache->newest_failure) = failure->older;
    cache->retained_failures--;
    cache->retained_failure_bytes -= bytes_of(failure);
}

void kilni_failure_drop_locked(kilni_flight *failure)
{
    unlink_failure_locked(failure);
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

/* The newest failure is always kept, because a thread might be about to ask for the same key again.
 */
static bool has_too_many_locked(const kiln_cache *cache)
{
    return cache->retained_failures > 1 &&
           (cache->retained_failures > cache->max_entries / SHARE ||
            cache->retained_failure_bytes > cache->max_bytes / SHARE);
}

/* Removes the oldest failure from the table, links it to the failures in @taken, and returns it. */
static kilni_flight *take_oldest_locked(kiln_cache *cache, kilni_flight *taken)
{
    kilni_flight *failure = cache->oldest_failure;
    unlink_failure_locked(failure);
    failure->newer = taken;
    return failure;
}

/* Frees the failures in @taken. Gives up the lock for this time, because freeing many failures
 * sometimes returns memory to the system, and that takes time. */
static void free_taken_locked(kiln_cache *cache, kilni_flight *taken)
{
    pthread_mutex_unlock(&cache->lock);
    while (taken) {
        kilni_flight *next = taken->newer;
        kilni_flight_free(taken);
        taken = next;
    }
    kilni_cache_lock(cache);
}

void kilni_failures_shrink_locked(kiln_cache *cache)
{
    while (has_too_many_locked(cache)) {
        kilni_flight *taken = NULL;
        for (int i = 0; i < KILNI_STEPS && has_too_many_locked(cache); i++) {
            taken = take_oldest_locked(cache, taken);
        }
        free_taken_locked(cache, taken);
    }
}

void kilni_failures_drop_locked(kiln_cache *cache, uint64_t count)
{
    while (count > 0 && cache->oldest_failure) {
        kilni_flight *taken = NULL;
        for (int i = 0; i < KILNI_STEPS && count > 0 && cache->oldest_failure; i++, count--) {
            taken = take_oldest_locked(cache, taken);
        }
        free_taken_locked(cache, taken);
    }
}
