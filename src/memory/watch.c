/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/watch.h"

#include <stdlib.h>

struct kiln_watch {
    /* kilni_watch_clear changes this from 1 to 0 with a release store, before listeners are
     * notified of the eviction. kiln_watch_is_live reads it with an acquire load. */
    _Atomic int live;
    /* Counts one reference for the object and one for each watch. The thread that decrements the
     * count to 0 frees the structure. */
    _Atomic size_t references;
};

kiln_status kiln_pin_watch(kiln_pin *pin, kiln_watch **ret_watch)
{
    if (!pin || !ret_watch) {
        return KILN_E_INVALID;
    }
    kiln_watch *spare = malloc(sizeof *spare);
    if (!spare) {
        return KILN_E_NO_MEMORY;
    }
    kilni_cache_lock(pin->cache);
    if (!pin->watch) {
        atomic_init(&spare->live, kilni_object_is_resident(pin));
        atomic_init(&spare->references, 1);
        pin->watch = spare;
        spare = NULL;
    }
    atomic_fetch_add_explicit(&pin->watch->references, 1, memory_order_relaxed);
    *ret_watch = pin->watch;
    pthread_mutex_unlock(&pin->cache->lock);
    free(spare);
    return KILN_OK;
}

void kilni_watch_clear(kiln_watch *watch)
{
    if (watch) {
        atomic_store_explicit(&watch->live, 0, memory_order_release);
    }
}

int kiln_watch_is_live(const kiln_watch *watch)
{
    return watch && atomic_load_explicit(&watch->live, memory_order_acquire);
}

void kiln_watch_free(kiln_watch **watch)
{
    if (!watch || !*watch) {
        return;
    }
    if (atomic_fetch_sub_explicit(&(*watch)->references, 1, memory_order_acq_rel) == 1) {
        free(*watch);
    }
    *watch = NULL;
}
