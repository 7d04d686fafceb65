/* SPDX-License-Identifier: Apache-2.0
 *
 * The constant tensor cache, as backends use it. Its users control it with kiln/constant.h.
 * docs/constants.md describes both.
 *
 *     kiln_constant_cache_of(KILN_ENGINE_GPU, 0, &cache);
 *     kiln_constant_get_or_add(cache, key, size, NULL, &answer, NULL);
 *     if (answer.outcome == KILN_HIT) {
 *         use(kiln_constant_buffer_of(answer.pin));
 *     } else if (kiln_constant_buffer_new(&memory, size, cache, &buffer) == KILN_OK) {
 *         compute(buffer);
 *         kiln_constant_fulfil(&answer.ticket, &buffer, 0, &answer.pin); // KILN_OWNER
 *     }
 *     kiln_ticket_abandon(&answer.ticket, KILN_ABANDON_TRANSIENT, KILN_OK, NULL); // it failed
 *     kiln_constant_buffer_free(&buffer);                                        // KILN_BYPASS
 *     kiln_pin_release(&answer.pin);
 *
 * Pins, watches and tickets are those of kiln/cache.h. A pin is co-ownership: the buffer stays
 * valid until the pin is released, even if it leaves the cache. A caller that executes often keeps
 * a pin and a watch, and asks the cache again only when kiln_watch_is_live returns 0; it releases
 * the pin then, or when the buffer's evicted function is called.
 *
 * When the process ends, Kiln leaves the caches and their contents alone: it does nothing in exit
 * handlers or destructors of its own. Pins may be released there. As always, releasing the last pin
 * of a constant that has left the cache frees the constant, by the functions of its backend. A
 * backend whose runtime may be gone by then releases its pins earlier, or not at all. Before the
 * library or a backend is unloaded, the user's call kiln_constant_set_enabled(0) empties the
 * caches; before that call all pins must have been released and all computations must have ended.
 *
 * All calls: KILN_E_INVALID means a NULL that is not allowed, an unknown kind, or a parameter
 * structure with a non-zero field that this version does not know. Any thread may make any call.
 * Calls do not block unless their comment says so.
 *
 * A backend's functions are called outside all locks, and may call Kiln. They run on any thread
 * that releases a constant: in a removal, in kiln_constant_fulfil or kiln_constant_buffer_new when
 * these make room, in the release of a pin, or in a look-up that was under way when another thread
 * removed something. These calls therefore take as long as the functions of all backends take. The
 * functions must not wait for other threads that call Kiln, and a caller of these calls must hold
 * no lock that one of the functions takes. A thread cannot be cancelled inside a function that was
 * called because a constant left a cache.
 *
 * Source: oneDNN's constant tensor cache (docs/seeds.md, C1 to C87).
 */
#ifndef KILN_CONSTANT_BACKEND_H
#define KILN_CONSTANT_BACKEND_H

#include <stddef.h>
#include <stdint.h>

#include <kiln/cache.h>
#include <kiln/engine.h>
#include <kiln/key.h>
#include <kiln/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The constants of one device. There is one for each kind and index in the process, and it is never
 * freed. */
typedef struct kiln_constant_cache kiln_constant_cache;

/* The memory of one constant, with the functions that free it. */
typedef struct kiln_constant_buffer kiln_constant_buffer;

/* ---- devices ---- */

/* Returns the cache of a device.
 *
 * @kind       a kiln_engine_kind
 * @index      the number of the device among those of its kind, from 0
 * @ret_cache  [out] lives as long as the process; must not be freed
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_NO_MEMORY. */
KILN_API kiln_status kiln_constant_cache_of(uint32_t kind, uint32_t index,
                                            kiln_constant_cache **ret_cache);

/* Lets users name a device by its runtime's handle. Binding a handle again replaces the earlier
 * binding.
 *
 * @device  the handle; only compared; not NULL
 * @kind    a kiln_engine_kind
 * @index   the number of the device among those of its kind, from 0
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_NO_MEMORY. */
KILN_API kiln_status kiln_constant_bind_device(const void *device, uint32_t kind, uint32_t index);

/* Removes the binding of a handle, for example when its device is released. NULL and an unbound
 * handle are ignored. */
KILN_API void kiln_constant_unbind_device(const void *device);

/* ---- keys ---- */

/* Returns a number, never 0, that this function has not returned before in this process. Contexts,
 * owners and generations are named by such numbers, because addresses and handles are reused. */
KILN_API uint64_t kiln_constant_unique_number(void);

/* What identifies a constant. Keys are compared completely. */
typedef struct kiln_constant_key_params {
    size_t struct_size;
    uint64_t context;    /* the context that owns the memory; contexts never share constants */
    uint64_t backend;    /* separates the keys of different backends */
    const void *key;     /* the backend's own key; copied */
    size_t key_size;     /* in bytes */
    uint64_t generation; /* of the source: a different number once something else is stored at its
                            address */
} kiln_constant_key_params;

/* Makes the key of a constant. A backend that keeps the key has cheaper look-ups.
 *
 * @params   read during the call
 * @ret_key  [out] one reference, to be released with kiln_key_release
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_TOO_LARGE: more than 2^40 bytes; KILN_E_NO_MEMORY. */
KILN_API kiln_status kiln_constant_key_new(const kiln_constant_key_params *params,
                                           kiln_key **ret_key);

/* ---- buffers ---- */

/* Allocates @size bytes of memory. Returns NULL on failure. */
typedef void *(*kiln_constant_allocate_fn)(size_t size, void *engine, void *allocator);
/* Frees memory that a kiln_constant_allocate_fn returned. */
typedef void (*kiln_constant_free_fn)(void *data, void *engine, void *allocator);
/* Retains engine and allocator, or releases them. */
typedef void (*kiln_constant_hold_fn)(void *engine, void *allocator);
/* Notifies the backend that a buffer left the cache. */
typedef void (*kiln_constant_evicted_fn)(void *user, const kiln_constant_buffer *buffer);

/* The functions of a backend that manage memory. They and their arguments must stay valid until the
 * buffer is freed. */
typedef struct kiln_constant_memory {
    size_t struct_size;
    kiln_constant_allocate_fn allocate;
    kiln_constant_free_fn free;
    void *engine; /* passed to the functions */
    void *allocator;
    /* retain is called before the buffer's memory is allocated, and release after it was freed, so
     * engine and allocator live as long as the buffer. Both NULL: they outlive it anyway. */
    kiln_constant_hold_fn retain, release;
    /* Called when the buffer leaves the cache for any reason, after its watches are no longer live.
     * The buffer is valid during the call. Not called for a buffer that never was in the cache. May
     * be NULL. */
    kiln_constant_evicted_fn evicted;
    void *user; /* passed to evicted; may be NULL */
} kiln_constant_memory;

/* Allocates a buffer.
 *
 * @memory      copied
 * @size        in bytes, greater than 0
 * @cache       if allocate returns NULL: constants in this cache that nobody uses are evicted until
 *              @size bytes are free, and allocate is called once more; NULL: it is not
 * @ret_buffer  [out] to be given to kiln_constant_fulfil or to kiln_constant_buffer_free
 * Returns KILN_OK; KILN_E_RESOURCES: allocate returned NULL; KILN_E_INVALID; KILN_E_NO_MEMORY.
 * Blocks: as allocate and the functions of evicted constants do. */
KILN_API kiln_status kiln_constant_buffer_new(const kiln_constant_memory *memory, size_t size,
                                              kiln_constant_cache *cache,
                                              kiln_constant_buffer **ret_buffer);

/* Frees a buffer that was not given to a cache, and sets the pointer to NULL. NULL and a pointer to
 * NULL are allowed. Blocks: on the buffer's fence. */
KILN_API void kiln_constant_buffer_free(kiln_constant_buffer **buffer);

/* The memory that kiln_constant_allocate_fn returned, and its size in bytes. NULL and 0 for NULL.
 * Valid as long as the buffer. */
KILN_API void *kiln_constant_buffer_data(const kiln_constant_buffer *buffer);
KILN_API size_t kiln_constant_buffer_size(const kiln_constant_buffer *buffer);

/* Returns the buffer that a constant's pin holds, which is valid as long as the pin; NULL for NULL.
 */
KILN_API kiln_constant_buffer *kiln_constant_buffer_of(const kiln_pin *pin);

/* Reports when a buffer is ready, if a device computes it asynchronously. */
typedef struct kiln_constant_fence {
    size_t struct_size;
    void *event;               /* such as a cl_event */
    void (*wait)(void *event); /* must not be NULL; returns once the buffer is ready */
    void (*release)(
        void *event); /* called once, after the buffer's memory was freed; may be NULL */
} kiln_constant_fence;

/* Sets the fence of a buffer. Its owner may do this once, before it fulfils the ticket. The
 * buffer's memory is not freed before the fence's wait has returned.
 *
 * @fence  copied
 * Returns KILN_OK; KILN_E_INVALID: also if the buffer has a fence. */
KILN_API kiln_status kiln_constant_buffer_set_fence(kiln_constant_buffer *buffer,
                                                    const kiln_constant_fence *fence);

/* Returns the event that commands must wait for before they read the buffer; NULL: none. Valid as
 * long as the buffer. */
KILN_API void *kiln_constant_buffer_event(const kiln_constant_buffer *buffer);

/* Waits until the buffer is ready. Blocks: as the fence's wait does. */
KILN_API void kiln_constant_buffer_wait(const kiln_constant_buffer *buffer);

/* ---- constants ---- */

/* Options of a look-up. */
typedef struct kiln_constant_params {
    size_t struct_size;
    uint64_t owner;   /* the object whose end removes the constant, such as a compiled partition; if
                         several share the constant, the one that computed it; 0: it belongs to its
                         context only */
    uint64_t wait_ns; /* how long to wait for a computation by another caller; 0: without limit;
                         KILN_NO_WAIT: return KILN_TIMEOUT at once */
} kiln_constant_params;

/* Asks for a constant. HIT: the answer has a pin. OWNER: it has a ticket; compute the constant for
 * all callers. BYPASS: it has neither; compute the constant for yourself, because the cache is full
 * (under KILN_POLICY_NO_EVICT), its capacity is 0, or @size is 0. Room for @size bytes is reserved
 * as long as the ticket is open.
 *
 * @key              made by kiln_constant_key_new
 * @size             the size of the constant in bytes, if it has to be computed
 * @params           read during the call; NULL: all defaults
 * @ret_reservation  [out] its pin must be released, or its ticket ended
 * @error            may be NULL; receives the failure of the computation that was waited for
 * Returns what kiln_cache_reserve returns. Blocks: while another caller computes the constant, at
 * most wait_ns. */
KILN_API kiln_status kiln_constant_get_or_add(kiln_constant_cache *cache, const kiln_key *key,
                                              size_t size, const kiln_constant_params *params,
                                              kiln_reservation *ret_reservation, kiln_error *error);

/* Ends a ticket with a buffer, which the cache owns from then on; all waiters get pins. The size of
 * the buffer now counts instead of the reserved size. If there is no room for the buffer, or if its
 * computation was removed or flushed meanwhile, the buffer lives for its pins only. If a
 * computation fails, end the ticket with kiln_ticket_abandon.
 *
 * @ticket   set to NULL
 * @buffer   set to NULL
 * @cost_ns  the cost of computing the constant again; 0: the time since kiln_constant_get_or_add
 * @ret_pin  [out] to be released with kiln_pin_release; NULL: the caller needs no pin
 * Returns KILN_OK; KILN_E_INVALID, which changes nothing. */
KILN_API kiln_status kiln_constant_fulfil(kiln_ticket **ticket, kiln_constant_buffer **buffer,
                                          uint64_t cost_ns, kiln_pin **ret_pin);

/* Removes a constant. If it is being computed, its owner and waiters get it, but it is not kept.
 * Its memory may be freed a moment later, by a thread whose look-up is under way.
 *
 * Returns KILN_OK; KILN_MISS: the constant is not in the cache; KILN_E_INVALID. */
KILN_API kiln_status kiln_constant_remove_if_exist(kiln_constant_cache *cache, const kiln_key *key);

/* Remove all constants of an owner or of a context from the caches of all devices, and return how
 * many there were. Constants that are being computed are not kept, and their waiters get
 * KILN_BYPASS. Call these before the owner or context is released: when they return, all its
 * constants have been freed except those that are pinned or being computed, including constants
 * that had left the cache before and that other threads were about to free. Owner 0 has no
 * constants.
 *
 * Blocks: on the functions of backends that other threads are running, even if a destroy or
 * listener function of a program's own kiln_cache calls these. A call from inside a backend's
 * function that runs because a constant left a cache never blocks. */
KILN_API size_t kiln_constant_remove_owner(uint64_t owner);
KILN_API size_t kiln_constant_remove_context(uint64_t context);

/* Returns the bytes of the constants in the cache, without constants that are being computed or
 * that are in use but have left the cache. 0 for NULL. */
KILN_API uint64_t kiln_constant_get_size(kiln_constant_cache *cache);

/* Fills the counters, as kiln_cache_get_stats does. With KILN_POLICY_AUTO, policy is the one that
 * was chosen. Returns KILN_OK; KILN_E_INVALID. */
KILN_API kiln_status kiln_constant_get_stats(kiln_constant_cache *cache,
                                             kiln_cache_stats *ret_stats);

#ifdef __cplusplus
}
#endif

#endif
