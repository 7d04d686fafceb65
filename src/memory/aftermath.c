/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/aftermath.h"

#include "memory/listener.h"
#include "memory/object.h"
#include "memory/section.h"

/* One use in so many is told, the first one always. */
enum { HIT_SAMPLE = 64 };

void kilni_aftermath_keep_locked(kilni_aftermath *after, kilni_object *object, uint32_t event)
{
    kilni_departure_begin_locked(object->cache, &after->departure);
    after->object = object;
    after->event = event;
    after->last_listener = object->cache->last_listener;
}

void kilni_aftermath_evict_locked(kilni_aftermath *after, kilni_object *object,
                                  kiln_eviction reason)
{
    kilni_departure_begin_locked(object->cache, &after->departure);
    if (!kilni_listeners_want_locked(object->cache, KILN_EVENT_EVICTED)) {
        kilni_object_release_locked(object);
        return;
    }
    kilni_queue_push(&after->evicted, object);
    after->reason = reason;
    after->last_listener = object->cache->last_listener;
}

void kilni_aftermath_clear_locked(kilni_aftermath *after, kiln_cache *cache)
{
    kilni_departure_begin_locked(cache, &after->departure);
    after->cleared = true;
    after->last_listener = cache->last_listener;
}

void kilni_aftermath_tell_hit(kilni_object *object, bool first)
{
    /* Counted by thread, so that no two contend for the count. */
    static _Thread_local unsigned uses;
    if (!first && ++uses % HIT_SAMPLE != 0) {
        return;
    }
    kiln_cache *cache = object->cache;
    kilni_aftermath after = {0};
    kilni_cache_lock(cache);
    if (kilni_object_is_resident(object)) {
        kilni_object_hold(object);
        kilni_aftermath_keep_locked(&after, object, KILN_EVENT_HIT);
    }
    pthread_mutex_unlock(&cache->lock);
    kilni_aftermath_finish(cache, &after);
}

static void tell(kiln_cache *cache, const kilni_aftermath *after, uint32_t kind,
                 const kilni_object *object)
{
    kiln_event event = {.struct_size = sizeof event, .kind = kind};
    if (kind == KILN_EVENT_EVICTED) {
        event.reason = after->reason;
    }
    if (object) {
        event.key = object->slot.key;
        event.object = object->object;
        event.bytes = atomic_load_explicit(&object->bytes, memory_order_relaxed);
    }
    kilni_listeners_tell(cache, &event, after->last_listener);
}

static void tell_all(kiln_cache *cache, const kilni_aftermath *after)
{
    for (const kilni_object *object = after->evicted.first; object; object = object->link) {
        tell(cache, after, KILN_EVENT_EVICTED, object);
    }
    if (after->event != 0) {
        tell(cache, after, after->event, after->object);
    }
    if (after->cleared) {
        tell(cache, after, KILN_EVENT_CLEARED, NULL);
    }
}

static void let_go_locked(kilni_aftermath *after)
{
    size_t step = 0;
    kilni_object *object;
    while ((object = kilni_queue_pop(&after->evicted))) {
        kilni_object_release_locked(object);
        kilni_cache_step_locked(after->departure.cache, &step);
    }
    if (after->object) {
        kilni_object_release_locked(after->object);
    }
    kilni_departure_end_locked(&after->departure);
}

/* A cleanup handler, for a listener that ends its thread or throws: the user's functions are not
 * called from one. */
static void abandon(void *argument)
{
    kilni_aftermath *after = argument;
    kiln_cache *cache = after->departure.cache;
    kilni_cache_lock(cache);
    let_go_locked(after);
    kilni_section_leave_to_others_locked(cache);
    pthread_mutex_unlock(&cache->lock);
}

void kilni_aftermath_finish(kiln_cache *cache, kilni_aftermath *after)
{
    if (after->departure.number == 0) {
        return;
    }
    pthread_cleanup_push(abandon, after);
    tell_all(cache, after);
    pthread_cleanup_pop(0);
    kilni_cache_lock(cache);
    let_go_locked(after);
    kilni_section_collect_and_unlock(cache);
}
