/* SPDX-License-Identifier: Apache-2.0 */
#include "constant/device.h"

#include <stdlib.h>

#include "constant/buffer.h"

/* ---- caches ---- */

kiln_constant_cache *kilni_constant_cache_find(const kilni_constants *constants, uint32_t kind,
                                               uint32_t index)
{
    kiln_constant_cache *cache = kilni_constant_cache_first(constants);
    while (cache && (cache->kind != kind || cache->index != index)) {
        cache = cache->next;
    }
    return cache;
}

static kiln_status cache_new(uint32_t kind, uint32_t index, kiln_constant_cache **ret_cache)
{
    kiln_constant_cache *cache = calloc(1, sizeof *cache);
    if (!cache) {
        return KILN_E_NO_MEMORY;
    }
    cache->kind = kind;
    cache->index = index;
    kiln_cache_params params = {.struct_size = sizeof params,
                                .destroy = kilni_constant_buffer_destroy};
    kiln_status status = kiln_cache_new(&params, &cache->memory);
    uint64_t listener;
    if (status == KILN_OK) {
        status = kiln_cache_listen(cache->memory, KILN_EVENT_EVICTED,
                                   kilni_constant_buffer_notify_evicted, NULL, &listener);
    }
    if (status != KILN_OK) {
        kiln_cache_free(&cache->memory);
        free(cache);
        return status;
    }
    *ret_cache = cache;
    return KILN_OK;
}

/* Adds a new cache to the list. Does not do so if another thread has added a cache for the same
 * device, or if the limits have changed since @made_with were applied to the new cache. */
static void add(kilni_constants *constants, kiln_constant_cache *made,
                kilni_constant_limits made_with)
{
    pthread_mutex_lock(&constants->lock);
    kilni_constant_limits limits = kilni_constant_limits_of_locked(constants, made);
    if (!kilni_constant_cache_find(constants, made->kind, made->index) &&
        kilni_constant_limits_equal(limits, made_with)) {
        made->next = kilni_constant_cache_first(constants);
        atomic_store_explicit(&constants->caches, made, memory_order_release);
    }
    pthread_mutex_unlock(&constants->lock);
}

/* Makes a device's cache, or finds one that another thread made meanwhile. The present limits are
 * applied to a cache before it is added to the list. So a thread that sets limits later finds the
 * cache in the list. */
static kiln_status make(kilni_constants *constants, uint32_t kind, uint32_t index,
                        kiln_constant_cache **ret_cache)
{
    kiln_constant_cache *made;
    kiln_status status = cache_new(kind, index, &made);
    if (status != KILN_OK) {
        return status;
    }
    kiln_constant_cache *there;
    do {
        add(constants, made, kilni_constant_limits_apply(made));
        there = kilni_constant_cache_find(constants, kind, index);
    } while (!there);
    if (there != made) {
        kiln_cache_free(&made->memory);
        free(made);
    }
    *ret_cache = there;
    return KILN_OK;
}

kiln_status kilni_constant_cache_of(kilni_constants *constants, uint32_t kind, uint32_t index,
                                    kiln_constant_cache **ret_cache)
{
    kiln_constant_cache *cache = kilni_constant_cache_find(constants, kind, index);
    kiln_status status = cache ? KILN_OK : make(constants, kind, index, &cache);
    if (status == KILN_OK) {
        *ret_cache = cache;
    }
    return status;
}

/* ---- handles ---- */

/* Returns the link to the binding of a handle, or the link at the end of the list if there is no
 * binding. */
static kilni_constant_binding **find_binding_locked(kilni_constants *constants, const void *device)
{
    kilni_constant_binding **link = &constants->bindings;
    while (*link && (*link)->device != device) {
        link = &(*link)->next;
    }
    return link;
}

kiln_status kilni_constant_limits_of_device(kilni_constants *constants, const void *device,
                                            kilni_constant_limits *ret_limits)
{
    pthread_mutex_lock(&constants->lock);
    const kilni_constant_binding *binding = *find_binding_locked(constants, device);
    if (binding) {
        *ret_limits = binding->cache ? kilni_constant_limits_of_locked(constants, binding->cache)
                                     : binding->wanted;
    }
    pthread_mutex_unlock(&constants->lock);
    return binding ? KILN_OK : KILN_MISS;
}

/* Returns the binding of a handle. If there is none, adds @spare as the binding and sets @spare to
 * NULL. */
static kilni_constant_binding *get_binding_locked(kilni_constants *constants, const void *device,
                                                  kilni_constant_binding **spare)
{
    kilni_constant_binding **link = find_binding_locked(constants, device);
    if (!*link) {
        *link = *spare;
        (*spare)->device = device;
        *spare = NULL;
    }
    return *link;
}

kiln_status kilni_constant_remember(kilni_constants *constants, const void *device,
                                    kilni_constant_limits wanted, kiln_constant_cache **ret_cache)
{
    kilni_constant_binding *spare = calloc(1, sizeof *spare);
    if (!spare) {
        return KILN_E_NO_MEMORY;
    }
    pthread_mutex_lock(&constants->lock);
    kilni_constant_binding *binding = get_binding_locked(constants, device, &spare);
    if (!binding->cache) {
        binding->wanted = wanted;
        binding->wanted_at = ++constants->sets;
    }
    *ret_cache = binding->cache;
    pthread_mutex_unlock(&constants->lock);
    free(spare);
    return KILN_OK;
}

/* Gives a cache the limits that were set for its handle before the handle was bound, unless the
 * limits of the cache's kind were set later. Returns true if the cache got them. */
static bool take_wanted_locked(kilni_constants *constants, kilni_constant_binding *binding,
                               kiln_constant_cache *cache)
{
    const kilni_constant_limits *kind = kilni_constant_limits_of_kind(constants, cache->kind);
    const bool is_wanted = binding->wanted_at > constants->set_at[kind - constants->kinds];
    if (is_wanted) {
        kilni_constant_limits_set_own_locked(constants, cache, binding->wanted);
    }
    binding->wanted_at = 0;
    return is_wanted;
}

kiln_status kilni_constant_bind(kilni_constants *constants, const void *device,
                                kiln_constant_cache *cache)
{
    kilni_constant_binding *spare = calloc(1, sizeof *spare);
    if (!spare) {
        return KILN_E_NO_MEMORY;
    }
    pthread_mutex_lock(&constants->lock);
    kilni_constant_binding *binding = get_binding_locked(constants, device, &spare);
    const bool has_new_limits = take_wanted_locked(constants, binding, cache);
    binding->cache = cache;
    pthread_mutex_unlock(&constants->lock);
    free(spare);
    if (has_new_limits) {
        kilni_constant_limits_apply(cache);
    }
    return KILN_OK;
}

void kiln_constant_unbind_device(const void *device)
{
    kilni_constants *constants = kilni_constants_get();
    if (!constants) {
        return;
    }
    pthread_mutex_lock(&constants->lock);
    kilni_constant_binding **link = find_binding_locked(constants, device);
    kilni_constant_binding *ended = *link;
    if (ended) {
        *link = ended->next;
    }
    pthread_mutex_unlock(&constants->lock);
    free(ended);
}
