/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/followup.h"

#include "memory/listener.h"
#include "memory/object.h"
#include "memory/section.h"

/* The first use of an object is always reported; then one in this many of the thread's uses. */
enum { HIT_SAMPLE = 64 };

void kilni_followup_keep_locked(kilni_followup *followup, kilni_object *object, uint32_t event)
{
    kilni_departure_begin_locked(object->cache, &followup->departure);
    followup->object = object;
    followup->event = event;
    followup->last_listener = object->cache->last_listener;
}

void kilni_followup_add_evicted_locked(kilni_followup *followup, kilni_object *object,
                                       kiln_eviction reason)
{
    kilni_departure_begin_locked(object->cache, &followup->departure);
    if (!kilni_listeners_want_locked(object->cache, KILN_EVENT_EVICTED)) {
        kilni_object_release_locked(object);
        return;
    }
    kilni_queue_push(&followup->evicted, object);
    followup->reason = reason;
    followup->last_listener = object->cache->last_listener;
}

void kilni_followup_add_cleared_locked(kilni_followup *followup, kiln_cache *cache)
{
    kilni_departure_begin_locked(cache, &followup->departure);
    followup->cleared = true;
    followup->last_listener = cache->last_listener;
}

void kilni_followup_report_hit(kilni_object *object, bool first)
{
    /* Counted per thread, so that threads do not contend for the count. */
    static _Thread_local unsigned uses;
    if (!first && ++uses % HIT_SAMPLE != 0) {
        return;
    }
    kiln_cache *cache = object->cache;
    kilni_followup followup = {0};
    kilni_cache_lock(cache);
    if (kilni_object_is_resident(object)) {
        kilni_object_hold(object);
        kilni_followup_keep_locked(&followup, object, KILN_EVENT_HIT);
    }
    pthread_mutex_unlock(&cache->lock);
    kilni_followup_finish(cache, &followup);
}

static void notify(kiln_cache *cache, const kilni_followup *followup, uint32_t kind,
                   const kilni_object *object)
{
    kiln_event event = {.struct_size = sizeof event, .kind = kind};
    if (kind == KILN_EVENT_EVICTED) {
        event.reason = followup->reason;
    }
    if (object) {
        event.key = object->slot.key;
        event.object = object->object;
        event.bytes = atomic_load_explicit(&object->bytes, memory_order_relaxed);
    }
    kilni_listeners_notify(cache, &event, followup->last_listener);
}

static void notify_all(kiln_cache *cache, const kilni_followup *followup)
{
    for (const kilni_object *object = followup->evicted.first; object; object = object->link) {
        notify(cache, followup, KILN_EVENT_EVICTED, object);
    }
    if (followup->event != 0) {
        notify(cache, followup, followup->event, followup->object);
    }
    if (followup->cleared) {
        notify(cache, followup, KILN_EVENT_CLEARED, NULL);
    }
}

static void release_objects_locked(kilni_followup *followup)
{
    size_t step = 0;
    kilni_object *object;
    while ((object = kilni_queue_pop(&followup->evicted))) {
        kilni_object_release_locked(object);
        kilni_cache_step_locked(followup->departure.cache, &step);
    }
    if (followup->object) {
        kilni_object_release_locked(followup->object);
    }
    kilni_departure_end_locked(&followup->departure);
}

/* A cleanup handler, for a listener that ends its thread or throws. It does not call the user's
 * functions. */
static void abandon(void *argument)
{
    kilni_followup *followup = argument;
    kiln_cache *cache = followup->departure.cache;
    kilni_cache_lock(cache);
    release_objects_locked(followup);
    kilni_section_defer_locked(cache);
    pthread_mutex_unlock(&cache->lock);
}

void kilni_followup_finish(kiln_cache *cache, kilni_followup *followup)
{
    if (followup->departure.number == 0) {
        return;
    }
    pthread_cleanup_push(abandon, followup);
    notify_all(cache, followup);
    pthread_cleanup_pop(0);
    kilni_cache_lock(cache);
    release_objects_locked(followup);
    kilni_section_collect_and_unlock(cache);
}
