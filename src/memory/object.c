/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/object.h"

#include <stdlib.h>

#include "memory/admission.h"
#include "memory/followup.h"
#include "memory/policy.h"
#include "memory/section.h"
#include "memory/watch.h"

kiln_status kilni_object_new(kiln_cache *cache, const kiln_key *key, uint64_t group,
                             kilni_object **ret_object)
{
    kilni_object *object =
        kilni_slot_calloc(sizeof *object + (group != 0 ? sizeof(kilni_group_links) : 0));
    if (!object) {
        return KILN_E_NO_MEMORY;
    }
    if (key) {
        kilni_slot_init(&object->slot, key, group, KILNI_SLOT_NONE);
    }
    object->slot.can_have_group = group != 0;
    atomic_init(&object->holds, 1);
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

void kilni_object_fill_alone(kilni_object *object, void *user_object, uint64_t bytes,
                             uint64_t cost_ns)
{
    kilni_cache_lock(object->cache);
    kilni_object_fill_locked(object, user_object, bytes, cost_ns);
    pthread_mutex_unlock(&object->cache->lock);
}

void kilni_object_grow(kilni_object *object, uint64_t more_bytes)
{
    kiln_cache *cache = object->cache;
    kilni_followup followup = {0};
    kilni_cache_lock(cache);
    object->bytes += more_bytes;
    if (kilni_object_is_resident(object)) {
        cache->bytes += more_bytes;
        kilni_readmit_locked(object, &followup);
    } else {
        cache->lingering_bytes += more_bytes;
    }
    pthread_mutex_unlock(&cache->lock);
    kilni_followup_finish(cache, &followup);
}

/* Returns true if that was the last hold. */
static bool drop_hold(kilni_object *object)
{
    return atomic_fetch_sub_explicit(&object->holds, 1, memory_order_acq_rel) == 1;
}

void kilni_object_release_locked(kilni_object *object)
{
    if (drop_hold(object)) {
        kilni_section_retire_locked(object);
    }
}

/* A cleanup handler, for a destroy function that ends its thread or throws. */
static void free_object(void *object)
{
    kilni_object_free(object);
}

void kilni_object_destroy_all(kilni_queue *doomed)
{
    kilni_object *object;
    while ((object = kilni_queue_pop(doomed))) {
        const kiln_cache *cache = object->cache;
        pthread_cleanup_push(free_object, object);
        if (cache->destroy) {
            cache->destroy(cache->user, object->object);
        }
        pthread_cleanup_pop(1);
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

/* ---- pins ---- */

void kilni_object_note_use(kilni_object *object)
{
    bool first = kilni_policy_use(object);
    if (kilni_policy_reports_hits(object->cache)) {
        kilni_followup_report_hit(object, first);
    }
}

void kilni_object_note_hit(kilni_object *object)
{
    kiln_cache *cache = object->cache;
    kilni_counter_add(&cache->counters, KILNI_COUNTER_HITS, kilni_reader_number());
    if (!kilni_policy_is_settled(cache, object)) {
        kilni_object_note_use(object);
    }
}

kilni_object *kilni_object_pin(kiln_cache *cache, const kiln_key *key)
{
    kilni_place *place = kilni_section_enter(cache);
    kilni_object *object = kilni_cache_find_same(cache, key);
    if (!object) {
        object = kilni_cache_find(cache, key);
    }
    if (object && !kilni_object_try_hold(object)) {
        object = NULL;
    }
    kilni_section_leave(cache, place);
    if (!object) {
        return NULL;
    }
    kilni_object_note_hit(object);
    return object;
}

kiln_status kiln_cache_pin(kiln_cache *cache, const kiln_key *key, kiln_pin **ret_pin)
{
    if (!cache || !key || !ret_pin) {
        return KILN_E_INVALID;
    }
    kilni_object *object = kilni_object_pin(cache, key);
    if (!object) {
        kilni_counter_add(&cache->counters, KILNI_COUNTER_MISSES, kilni_reader_number());
        return KILN_MISS;
    }
    *ret_pin = object;
    return KILN_OK;
}

void *kiln_pin_object(const kiln_pin *pin)
{
    return pin ? pin->object : NULL;
}

kiln_pin *kiln_pin_retain(kiln_pin *pin)
{
    if (pin) {
        kilni_object_hold(pin);
    }
    return pin;
}

void kiln_pin_release(kiln_pin **pin)
{
    if (!pin || !*pin) {
        return;
    }
    kilni_object *object = *pin;
    *pin = NULL;
    if (!drop_hold(object)) {
        return;
    }
    /* This thread must retire the object, which lives until then. The cache may end with the
     * object. */
    kiln_cache *cache = kilni_cache_retain(object->cache);
    kilni_cache_lock(cache);
    kilni_section_retire_locked(object);
    kilni_section_collect_and_unlock(cache);
    kilni_cache_release(cache);
}
