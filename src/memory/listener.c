/* SPDX-License-Identifier: Apache-2.0
 *
 * A listener stays in the list while it runs. If it is removed meanwhile, it leaves the list when
 * the last of its running calls ends, so a walk over the list always stands on a listener that
 * exists.
 */
#include "memory/listener.h"

#include <stdlib.h>

#include "memory/policy.h"

struct kilni_listener {
    kilni_listener *next;
    uint64_t id;
    uint32_t events;
    kiln_listener_fn call;
    void *user;
    size_t running; /* calls under way */
    bool removed;   /* not called again */
};

/* The calls of listeners that this thread is in, innermost first. */
typedef struct call_frame {
    kiln_cache *cache;
    kilni_listener *listener;
    const struct call_frame *outer;
} call_frame;

static _Thread_local const call_frame *innermost_call;

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

bool kilni_listeners_want_locked(const kiln_cache *cache, uint32_t event)
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
    kilni_policy_report_hits_locked(cache, kilni_listeners_want_locked(cache, KILN_EVENT_HIT));
}

/* Takes a removed listener out of the list once none of its calls is under way. */
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
    free(listener);
    pthread_cond_broadcast(&cache->listener_gone);
}

/* A cleanup handler, for a listener that ends its thread or throws. */
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

void kilni_listeners_notify(kiln_cache *cache, const kiln_event *event, uint64_t last_listener)
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

kiln_status kiln_cache_listen(kiln_cache *cache, uint32_t events, kiln_listener_fn listener,
                              void *user, uint64_t *ret_id)
{
    const uint32_t known =
        KILN_EVENT_INSERTED | KILN_EVENT_HIT | KILN_EVENT_EVICTED | KILN_EVENT_CLEARED;
    if (!cache || !listener || !ret_id || events == 0 || (events & ~known)) {
        return KILN_E_INVALID;
    }
    kilni_listener *added = malloc(sizeof *added);
    if (!added) {
        return KILN_E_NO_MEMORY;
    }
    *added = (kilni_listener){.events = events, .call = listener, .user = user};
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

void kiln_cache_unlisten(kiln_cache *cache, uint64_t id)
{
    if (!cache) {
        return;
    }
    kilni_cache_lock(cache);
    kilni_listener *listener = find_locked(cache, id);
    if (listener) {
        listener->removed = true;
        update_hit_reports_locked(cache);
        retire_locked(cache, listener);
    }
    int cancelable;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelable);
    /* Two listeners that waited for each other, or one that waited for itself, would never return.
     */
    while (!is_inside_call(cache) && find_locked(cache, id)) {
        pthread_cond_wait(&cache->listener_gone, &cache->lock);
    }
    pthread_setcancelstate(cancelable, NULL);
    pthread_mutex_unlock(&cache->lock);
}

void kilni_listeners_forget_threads_locked(kiln_cache *cache)
{
    /* Initialized again: no thread of the child waits for it, whatever state it was copied in. */
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
        free(cache->listeners);
        cache->listeners = next;
    }
}
