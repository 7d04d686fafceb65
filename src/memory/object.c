/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/object.h"

#include <stdlib.h>

#include "memory/section.h"
#include "memory/watch.h"

kiln_status kilni_object_new(kiln_cache *cache, const kiln_key *key, uint64_t group,
                             kilni_object **ret_object)
{
    kilni_object *object = calloc(1, sizeof *object);
    if (!object) {
        return KILN_E_NO_MEMORY;
    }
    if (key) {
        kilni_slot_init(&object->slot, key, group, KILNI_SLOT_READY);
    }
    object->cache = kilni_cache_retain(cache);
    *ret_object = object;
    return KILN_OK;
}

void kilni_object_free(kilni_object *object)
{
    kiln_cache *cache = object->cache;
    kiln_watch_free(&object->watch);
    kiln_key_release(&object->slot.key);
    free(object);
    kilni_cache_release(cache);
}

void kilni_object_fill_locked(kilni_object *object, void *user_object, uint64_t bytes,
                              uint64_t cost_ns)
{
    object->object = user_object;
    object->bytes = bytes;
    object->cost_ns = cost_ns;
    object->cache->lingering_entries++;
    object->cache->lingering_bytes += bytes;
}

void kilni_object_settle_locked(kilni_object *object)
{
    if (!object->resident && object->pins == 0 && object->holds == 0) {
        kilni_section_retire_locked(object);
    }
}

void kilni_object_destroy_all(kilni_queue doomed)
{
    kilni_object *object;
    while ((object = kilni_queue_pop(&doomed))) {
        kiln_cache *cache = object->cache;
        if (cache->destroy) {
            cache->destroy(cache->user, object->object);
        }
        kilni_object_free(object);
    }
}

void kilni_queue_push(kilni_queue *queue, kilni_object *object)
{
    object->link = NULL;
    if (queue->last) {
        queue->last->link = object;
    } else {
        queue->first = object;
    }
    queue->last = object;
}

kilni_object *kilni_queue_pop(kilni_queue *queue)
{
    kilni_object *object = queue->first;
    if (object) {
        queue->first = object->link;
        if (!queue->first) {
            queue->last = NULL;
        }
        object->link = NULL;
    }
    return object;
}

void *kiln_pin_object(const kiln_pin *pin)
{
    return pin ? pin->object : NULL;
}

kiln_pin *kiln_pin_retain(kiln_pin *pin)
{
    if (pin) {
        pthread_mutex_lock(&pin->cache->lock);
        pin->pins++;
        pthread_mutex_unlock(&pin->cache->lock);
    }
    return pin;
}

void kiln_pin_release(kiln_pin **pin)
{
    if (!pin || !*pin) {
        return;
    }
    kilni_object *object = *pin;
    kiln_cache *cache = kilni_cache_retain(object->cache);
    *pin = NULL;
    pthread_mutex_lock(&cache->lock);
    object->pins--;
    kilni_object_settle_locked(object);
    kilni_queue doomed = kilni_section_collect_locked(cache);
    pthread_mutex_unlock(&cache->lock);
    kilni_object_destroy_all(doomed);
    kilni_cache_release(cache);
}
