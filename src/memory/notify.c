/* SPDX-License-Identifier: Apache-2.0
 *
 * A listener stays in the list while it runs. If it is removed during that time, it leaves the list
 * when the last of its running calls ends. So a thread that walks over the list always has a
 * pointer to a listener that exists.
 */
#include "memory/notify.h"

#include <stdlib.h>

#include "memory/lifetime.h"
#include "memory/policy.h"
#include "memory/read_section.h"

/* ---- listeners ---- */

struct kilni_listener {
    kilni_listener *next;
    uint64_t id;
    uint32_t events;
    kiln_listener_fn call;
    void *user;
    void *owned;    /* freed with the listener; may be NULL */
    size_t running; /* calls under way */
    bool removed;   /* not called again */
};

/* The calls of listeners that this thread is inside, from the innermost to the outermost. */
typedef struct call_frame {
    kiln_cache *cache;
    kilni_listener *listener;
    const struct call_frame *outer;
} call_frame;

static _Thread_local const call_frame *innermost_call;

/* Returns true if this thread is inside a call of a listener of @cache. Returns false if @cache is
 * NULL. */
static bool is_inside_call(const kiln_cache *cache)
{
    const call_frame *frame = innermost_call;
    while (frame && frame->cache != cache) {
        frame = frame->outer;
    }
    return frame != NULL;
}

static kilni_listener *find_locked(const kiln_cache *cache, uint64_t id)
{
    kilni_listener *listener = cache->listeners;
    while (listener && listener->id != id) {
        listener = listener->next;
    }
    return listener;
}

/* Returns true if some listener wants an event. */
static bool want_locked(const kiln_cache *cache, uint32_t event)
{
    const kilni_listener *listener = cache->listeners;
    while (listener && (listener->removed || !(listener->events & event))) {
        listener = listener->next;
    }
    return listener != NULL;
}

/* Sets whether the threads that look up objects report hits. */
static void update_hit_reports_locked(kiln_cache *cache)
{
    kilni_policy_report_hits_locked(cache, want_locked(cache, KILN_EVENT_HIT));
}

static void free_listener(kilni_listener *listener)
{
    free(listener->owned);
    free(listener);
}

/* Takes a listener out of the list and frees it, if its user has removed it and none of its calls
 * is under way. */
static void retire_locked(kiln_cache *cache, kilni_listener *listener)
{
    if (!listener->removed || listener->running > 0) {
        return;
    }
    kilni_listener **link = &cache->listeners;
    while (*link != listener) {
        link = &(*link)->next;
    }
    *link = listener->next;
    free_listener(listener);
    pthread_cond_broadcast(&cache->listener_gone);
}

/* A cleanup handler, called if a listener ends its thread or throws an exception. */
static void abandon_call(void *argument)
{
    const call_frame *frame = argument;
    innermost_call = frame->outer;
    kilni_cache_lock(frame->cache);
    frame->listener->running--;
    retire_locked(frame->cache, frame->listener);
    pthread_mutex_unlock(&frame->cache->lock);
}

static void call(kiln_cache *cache, kilni_listener *listener, const kiln_event *event)
{
    call_frame frame = {.cache = cache, .listener = listener, .outer = innermost_call};
    innermost_call = &frame;
    pthread_cleanup_push(abandon_call, &frame);
    listener->call(listener->user, event);
    pthread_cleanup_pop(0);
    innermost_call = frame.outer;
}

/* Calls the listeners that want the event, in the order in which they were added. Skips listeners
 * that were added after @last_listener. Called with no lock held. */
static void notify_listeners(kiln_cache *cache, const kiln_event *event, uint64_t last_listener)
{
    kilni_cache_lock(cache);
    kilni_listener *listener = cache->listeners;
    while (listener && listener->id <= last_listener) {
        if (!listener->removed && (listener->events & event->kind)) {
            listener->running++;
            pthread_mutex_unlock(&cache->lock);
            call(cache, listener, event);
            kilni_cache_lock(cache);
            listener->running--;
        }
        kilni_listener *next = listener->next;
        retire_locked(cache, listener);
        listener = next;
    }
    pthread_mutex_unlock(&cache->lock);
}

static kiln_status add_listener(kiln_cache *cache, kilni_listener given, uint64_t *ret_id)
{
    const uint32_t known =
        KILN_EVENT_INSERTED | KILN_EVENT_HIT | KILN_EVENT_EVICTED | KILN_EVENT_CLEARED;
    if (!cache || !given.call || !ret_id || given.events == 0 || (given.events & ~known)) {
        return KILN_E_INVALID;
    }
    kilni_listener *added = malloc(sizeof *added);
    if (!added) {
        return KILN_E_NO_MEMORY;
    }
    *added = given;
    kilni_cache_lock(cache);
    added->id = ++cache->last_listener;
    kilni_listener **end = &cache->listeners;
    while (*end) {
        end = &(*end)->next;
    }
    *end = added;
    update_hit_reports_locked(cache);
    *ret_id = added->id;
    pthread_mutex_unlock(&cache->lock);
    return KILN_OK;
}

kiln_status kiln_cache_listen(kiln_cache *cache, uint32_t events, kiln_listener_fn listener,
                              void *user, uint64_t *ret_id)
{
    const kilni_listener given = {.events = events, .call = listener, .user = user};
    return add_listener(cache, given, ret_id);
}

kiln_status kilni_cache_listen_owning(kiln_cache *cache, uint32_t events, kiln_listener_fn listener,
                                      void *user, uint64_t *ret_id)
{
    const kilni_listener given = {.events = events, .call = listener, .user = user, .owned = user};
    return add_listener(cache, given, ret_id);
}

void kilni_cache_unlisten(kiln_cache *cache, uint64_t id, const kiln_cache *beside)
{
    kilni_cache_lock(cache);
    kilni_listener *listener = find_locked(cache, id);
    if (listener) {
        listener->removed = true;
        update_hit_reports_locked(cache);
        retire_locked(cache, listener);
    }
    int cancelable;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelable);
    /* This call must not wait inside such a listener: two listeners could wait for each other
     * forever, and a listener could wait for itself. */
    while (!is_inside_call(cache) && !is_inside_call(beside) && find_locked(cache, id)) {
        pthread_cond_wait(&cache->listener_gone, &cache->lock);
    }
    pthread_setcancelstate(cancelable, NULL);
    pthread_mutex_unlock(&cache->lock);
}

void kiln_cache_unlisten(kiln_cache *cache, uint64_t id)
{
    if (cache) {
        kilni_cache_unlisten(cache, id, NULL);
    }
}

void kilni_listeners_forget_threads_locked(kiln_cache *cache)
{
    /* The condition variable is initialized again, because its copied state might include waiting
     * threads of the parent. No thread of the child waits. */
    pthread_cond_init(&cache->listener_gone, NULL);
    kilni_listener *listener = cache->listeners;
    while (listener) {
        kilni_listener *next = listener->next;
        listener->running = 0;
        for (const call_frame *frame = innermost_call; frame; frame = frame->outer) {
            listener->running += frame->listener == listener;
        }
        retire_locked(cache, listener);
        listener = next;
    }
}

void kilni_listeners_free(kiln_cache *cache)
{
    while (cache->listeners) {
        kilni_listener *next = cache->listeners->next;
        free_listener(cache->listeners);
        cache->listeners = next;
    }
}

/* ---- what a call still has to do ---- */

void kilni_followup_keep_locked(kilni_followup *followup, kilni_object *object, uint32_t event)
{
    kilni_departure_begin_locked(object->cache, &followup->departure);
    followup->object = object;
    followup->event = want_locked(object->cache, event) ? event : 0;
    followup->last_listener = object->cache->last_listener;
}

void kilni_followup_add_evicted_locked(kilni_followup *followup, kilni_object *object,
                                       kiln_eviction reason)
{
    kilni_departure_begin_locked(object->cache, &followup->departure);
    if (!want_locked(object->cache, KILN_EVENT_EVICTED)) {
        kilni_object_release_removed_locked(object);
        return;
    }
    kilni_queue_push(&followup->evicted, object);
    followup->reason = reason;
    followup->last_listener = object->cache->last_listener;
}

void kilni_followup_add_cleared_locked(kilni_followup *followup, kiln_cache *cache)
{
    kilni_departure_begin_locked(cache, &followup->departure);
    followup->cleared = want_locked(cache, KILN_EVENT_CLEARED);
    followup->last_listener = cache->last_listener;
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
    notify_listeners(cache, &event, followup->last_listener);
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
        kilni_object_release_removed_locked(object);
        kilni_cache_step_locked(followup->departure.cache, &step);
    }
    if (followup->object) {
        kilni_object_release_locked(followup->object);
    }
    kilni_departure_end_locked(&followup->departure);
}

/* A cleanup handler, called if a listener ends its thread or throws an exception. It does not call
 * the user's functions. */
static void abandon(void *argument)
{
    kilni_followup *followup = argument;
    kiln_cache *cache = followup->departure.cache;
    kilni_cache_lock(cache);
    release_objects_locked(followup);
    pthread_mutex_unlock(&cache->lock);
}

/* Notifies the listeners, takes the lock, and releases the objects. Returns with the lock held. */
static void notify_and_lock(kiln_cache *cache, kilni_followup *followup)
{
    pthread_cleanup_push(abandon, followup);
    notify_all(cache, followup);
    pthread_cleanup_pop(0);
    kilni_cache_lock(cache);
    release_objects_locked(followup);
}

void kilni_followup_finish_and_unlock(kiln_cache *cache, kilni_followup *followup)
{
    if (followup->departure.number == 0) {
        pthread_mutex_unlock(&cache->lock);
        return;
    }
    if (followup->evicted.first || followup->event != 0 || followup->cleared) {
        pthread_mutex_unlock(&cache->lock);
        notify_and_lock(cache, followup);
    } else {
        release_objects_locked(followup);
    }
    kilni_section_collect_and_unlock(cache);
}

/* ---- hits ---- */

/* The first use of an object is always reported. Of each thread's other uses, one in HIT_SAMPLE is
 * reported. */
enum { HIT_SAMPLE = 64 };

/* This function destroys no objects, because a thread that looks up an object must not destroy any.
 */
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
        pthread_mutex_unlock(&cache->lock);
        notify_and_lock(cache, &followup);
    }
    pthread_mutex_unlock(&cache->lock);
}
