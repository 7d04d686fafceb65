/* SPDX-License-Identifier: Apache-2.0
 *
 * A section belongs to the epoch in which it was entered. The rule: an epoch begins only when no
 * section of the one before the last is open, so that open sections are of the present epoch or of
 * the one before it. An object retired in epoch e can be seen by sections of e and e - 1 at most;
 * both have been left when epoch e + 2 begins. Epochs turn only while something waits for them.
 */
#include "memory/section.h"

#include "memory/aftermath.h"
#include "memory/object.h"
#include "memory/policy.h"

void kilni_section_retire_locked(kilni_object *object)
{
    object->retired_at = object->cache->epoch;
    kilni_queue_push(&object->cache->retired, object);
}

kilni_queue kilni_section_collect_locked(kiln_cache *cache)
{
    kilni_queue doomed = {0};
    while (cache->retired.first) {
        if (cache->retired.first->retired_at + 2 <= cache->epoch) {
            kilni_object *object = kilni_queue_pop(&cache->retired);
            cache->lingering_entries--;
            cache->lingering_bytes -= object->bytes;
            kilni_queue_push(&doomed, object);
        } else if (cache->open_sections[(cache->epoch + 1) % 2] == 0) {
            cache->epoch++;
        } else {
            break;
        }
    }
    return doomed;
}

void kiln_section_enter(kiln_cache *cache, kiln_section *ret_section)
{
    *ret_section = (kiln_section){.cache = cache};
    if (!cache) {
        return;
    }
    pthread_mutex_lock(&cache->lock);
    size_t *open = &cache->open_sections[cache->epoch % 2];
    ++*open;
    ret_section->slot = open;
    pthread_mutex_unlock(&cache->lock);
}

void kiln_section_leave(kiln_section *section)
{
    if (!section || !section->cache) {
        return;
    }
    kiln_cache *cache = section->cache;
    pthread_mutex_lock(&cache->lock);
    --*(size_t *)section->slot;
    kilni_queue doomed = kilni_section_collect_locked(cache);
    pthread_mutex_unlock(&cache->lock);
    *section = (kiln_section){0};
    kilni_object_destroy_all(doomed);
}

void *kiln_cache_peek(const kiln_section *section, const kiln_key *key)
{
    if (!section || !section->cache || !key) {
        return NULL;
    }
    kiln_cache *cache = section->cache;
    kilni_aftermath after = {0};
    void *found = NULL;
    pthread_mutex_lock(&cache->lock);
    kilni_object *object = kilni_cache_find_ready_locked(cache, key);
    if (object) {
        found = object->object;
        kilni_aftermath_use_locked(&after, object);
    }
    pthread_mutex_unlock(&cache->lock);
    kilni_aftermath_finish(cache, &after);
    return found;
}
