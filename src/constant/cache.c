/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions by which backends use a device's constants.
 */
#include <kiln/constant_backend.h>

#include <string.h>

#include "base/error.h"
#include "base/sized_struct.h"
#include "constant/constants.h"
#include "constant/device.h"
#include "constant/key.h"
#include "memory/evict.h"
#include "memory/pin.h"

/* Sets the reservation to a hit. If the constant that was found and the caller's constant differ in
 * size, they are not the same constant, and the reservation is set to a bypass. */
static inline void answer(kiln_constant_cache *cache, kiln_pin *pin, size_t size,
                          kiln_reservation *ret_reservation)
{
    if (__builtin_expect(kiln_constant_buffer_size(pin->object) == size, 1)) {
        *ret_reservation = (kiln_reservation){.outcome = KILN_HIT, .pin = pin};
        return;
    }
    atomic_fetch_add_explicit(&cache->misfits, 1, memory_order_relaxed);
    kiln_pin_release(&pin);
    *ret_reservation = (kiln_reservation){.outcome = KILN_BYPASS};
}

/* Asks for a constant that the first look-up did not find. */
__attribute__((noinline)) static kiln_status reserve(kiln_constant_cache *cache,
                                                     const kiln_key *key, size_t size,
                                                     const kiln_constant_params *params,
                                                     kiln_reservation *ret_reservation,
                                                     kiln_error *error)
{
    kiln_constant_params known;
    if (kilni_sized_struct_copy(params, &known, sizeof known) != KILN_OK ||
        !kilni_is_constant_key(key)) {
        return kilni_error_set(error, KILN_E_INVALID, 0,
                               "the key was not made by kiln_constant_key_new, or the parameters "
                               "are not of this version");
    }
    kiln_reserve_params reserve_params = {.struct_size = sizeof reserve_params,
                                          .bytes = size,
                                          .wait_ns = known.wait_ns,
                                          .group = known.owner,
                                          .flags = known.flags};
    kiln_status status =
        kiln_cache_reserve(cache->memory, key, &reserve_params, ret_reservation, error);
    if (status == KILN_OK && ret_reservation->outcome == KILN_HIT) {
        answer(cache, ret_reservation->pin, size, ret_reservation);
    }
    return status;
}

kiln_status kiln_constant_get_or_add(kiln_constant_cache *cache, const kiln_key *key, size_t size,
                                     const kiln_constant_params *params,
                                     kiln_reservation *ret_reservation, kiln_error *error)
{
    if (!cache || !key || !ret_reservation) {
        return kilni_error_set(error, KILN_E_INVALID, 0,
                               "the cache, the key or the result pointer is NULL");
    }
    if (size == 0) {
        /* To the engine, 0 means an unknown size. */
        atomic_fetch_add_explicit(&cache->empties, 1, memory_order_relaxed);
        *ret_reservation = (kiln_reservation){.outcome = KILN_BYPASS};
        return KILN_OK;
    }
    kilni_object *object = kilni_object_pin(cache->memory, key);
    if (!object) {
        return reserve(cache, key, size, params, ret_reservation, error);
    }
    answer(cache, object, size, ret_reservation);
    return KILN_OK;
}

kiln_status kiln_constant_wait(kiln_constant_cache *cache, kiln_pending *pending, size_t size,
                               uint64_t wait_ns, kiln_reservation *ret_reservation,
                               kiln_error *error)
{
    if (!cache) {
        return kilni_error_set(error, KILN_E_INVALID, 0, "the cache is NULL");
    }
    kiln_status status = kiln_pending_wait(pending, wait_ns, ret_reservation, error);
    if (status == KILN_OK && ret_reservation->outcome == KILN_HIT) {
        answer(cache, ret_reservation->pin, size, ret_reservation);
    }
    return status;
}

kiln_status kiln_constant_fulfil(kiln_ticket **ticket, kiln_constant_buffer **buffer,
                                 uint64_t cost_ns, kiln_pin **ret_pin)
{
    if (!buffer || !*buffer) {
        return KILN_E_INVALID;
    }
    kiln_status status =
        kiln_ticket_fulfil(ticket, *buffer, kiln_constant_buffer_size(*buffer), cost_ns, ret_pin);
    if (status == KILN_OK) {
        *buffer = NULL;
    }
    return status;
}

/* ---- removal ---- */

kiln_status kiln_constant_remove_if_exist(kiln_constant_cache *cache, const kiln_key *key)
{
    const kiln_status status = cache ? kilni_cache_forget(cache->memory, key) : KILN_E_INVALID;
    if (status == KILN_OK) {
        kilni_constants_settle(cache);
    }
    return status;
}

static size_t remove_everywhere(size_t (*remove)(kiln_cache *cache, uint64_t wanted),
                                uint64_t wanted)
{
    const kilni_constants *constants = kilni_constants_get();
    size_t removed = 0;
    kiln_constant_cache *first = constants ? kilni_constant_cache_first(constants) : NULL;
    kiln_constant_cache *cache;
    for (cache = first; cache; cache = cache->next) {
        removed += remove(cache->memory, wanted);
    }
    /* Other threads might not have freed all removed constants yet, or might still see one in a
     * look-up. */
    for (cache = first; cache; cache = cache->next) {
        kilni_constants_settle(cache);
    }
    return removed;
}

static bool is_of_context(uint64_t context, const kilni_slot *slot)
{
    return kilni_constant_key_context(slot->key) == context;
}

static size_t remove_of_context(kiln_cache *cache, uint64_t context)
{
    return kilni_cache_remove_matching(cache, is_of_context, context);
}

size_t kiln_constant_remove_owner(uint64_t owner)
{
    return owner != 0 ? remove_everywhere(kiln_cache_remove_group, owner) : 0;
}

size_t kiln_constant_remove_context(uint64_t context)
{
    return remove_everywhere(remove_of_context, context);
}

/* ---- counting ---- */

uint64_t kiln_constant_get_size(kiln_constant_cache *cache)
{
    kiln_cache_stats stats = {.struct_size = sizeof stats};
    return kiln_constant_get_stats(cache, &stats) == KILN_OK ? stats.bytes : 0;
}

kiln_status kiln_constant_get_stats(kiln_constant_cache *cache, kiln_cache_stats *ret_stats)
{
    if (!cache || !ret_stats || ret_stats->struct_size < sizeof ret_stats->struct_size) {
        return KILN_E_INVALID;
    }
    kiln_cache_stats stats = {.struct_size = sizeof stats};
    kiln_status status = kiln_cache_get_stats(cache->memory, &stats);
    if (status == KILN_OK) {
        size_t size = ret_stats->struct_size;
        stats.struct_size = size;
        /* The engine counted constants of the wrong size as hits. */
        const uint64_t misfits = atomic_load_explicit(&cache->misfits, memory_order_relaxed);
        stats.hits -= misfits < stats.hits ? misfits : stats.hits;
        stats.bypasses += misfits + atomic_load_explicit(&cache->empties, memory_order_relaxed);
        memcpy(ret_stats, &stats, size < sizeof stats ? size : sizeof stats);
    }
    return status;
}
