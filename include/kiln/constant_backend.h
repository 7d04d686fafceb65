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
 * Pins, watches and tickets are those of kiln/cache.h. A buffer stays valid as long as a pin on it
 * is held, even if the buffer is removed from the cache. A caller that uses a constant often keeps
 * a pin and a watch, and asks the cache again only when kiln_watch_is_live returns 0. It releases
 * its pin then, or when the buffer's evicted function is called.
 *
 * When the process ends, Kiln does not touch the caches or their contents, because it has no exit
 * handlers or destructors that do so. Exit handlers of other code are allowed to release pins. If a
 * handler releases the last pin of a constant that was removed from the cache, Kiln frees the
 * constant as always, by calling functions of its backend. A backend whose runtime might no longer
 * work at that time releases its pins earlier, or not at all. Before the library or a backend is
 * unloaded, its user must empty the caches with kiln_constant_set_enabled(0). Before that call, all
 * pins must have been released and all computations must have ended.
 *
 * All calls: KILN_E_INVALID means one of the following. An argument is NULL although its comment
 * does not allow that; a kind is unknown; or a parameter structure has a non-zero field that this
 * version does not know. Any thread may make any call. Calls do not block unless their comment says
 * so.
 *
 * A backend's functions are called outside all locks, and may call Kiln. They run on any thread
 * that frees a constant: in a call that removes constants, in kiln_constant_fulfil or
 * kiln_constant_buffer_new when these make room, in kiln_pin_release, or in kiln_ticket_abandon.
 * These calls therefore take as long as the functions that they run, which may belong to any
 * backend. The functions must not wait for other threads that call Kiln, and a thread that makes
 * such a call must hold no lock that one of the functions takes. A thread cannot be cancelled
 * inside a function that was called because a constant was removed from a cache.
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
 * @index      the number of the device among the devices of its kind, from 0
 * @ret_cache  [out] valid until the process ends; must not be freed
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_NO_MEMORY. */
KILN_API kiln_status kiln_constant_cache_of(uint32_t kind, uint32_t index,
                                            kiln_constant_cache **ret_cache);

/* Lets users name a device by its runtime's handle. Binding a handle again replaces the earlier
 * binding. If a user has set a budget for the handle, and has set none for the kind since then, the
 * handle's budget takes effect now. This empties the cache.
 *
 * @device  the handle; only compared; not NULL
 * @kind    a kiln_engine_kind
 * @index   the number of the device among the devices of its kind, from 0
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_NO_MEMORY. */
KILN_API kiln_status kiln_constant_bind_device(const void *device, uint32_t kind, uint32_t index);

/* Removes the binding of a handle, for example when its device is released. If the handle is not
 * bound, removes the budget that was set for it. NULL and an unknown handle are ignored. */
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
    uint64_t generation; /* the version of the source data; it must change whenever different data
                            is stored at the same address */
} kiln_constant_key_params;

/* Makes the key of a constant. Look-ups are cheaper if the backend keeps the key.
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
/* Retains the engine and the allocator, or releases them. */
typedef void (*kiln_constant_hold_fn)(void *engine, void *allocator);
/* Notifies the backend that a buffer was removed from the cache. */
typedef void (*kiln_constant_evicted_fn)(void *user, const kiln_constant_buffer *buffer);

/* The functions of a backend that manage memory. They and their arguments must stay valid until the
 * buffer is freed. */
typedef struct kiln_constant_memory {
    size_t struct_size;
    kiln_constant_allocate_fn allocate;
    kiln_constant_free_fn free;
    void *engine; /* passed to the functions */
    void *allocator;
    /* retain is called before the buffer's memory is allocated, and release after the memory was
     * freed. So the engine and the allocator are valid as long as the buffer is. Both functions may
     * be NULL if the engine and the allocator outlive the buffer anyway. */
    kiln_constant_hold_fn retain, release;
    /* Called when the buffer is removed from the cache for any reason. By then, the watches on the
     * buffer are no longer live. The buffer is valid during the call. Not called for a buffer that
     * never was in the cache. May be NULL. */
    kiln_constant_evicted_fn evicted;
    void *user; /* passed to evicted; may be NULL */
} kiln_constant_memory;

/* Allocates a buffer.
 *
 * @memory      copied
 * @size        in bytes, greater than 0
 * @cache       if allocate returns NULL, the call evicts unused constants from this cache until
 *              @size bytes were freed, waits for constants that other threads are freeing, and
 *              calls allocate once more; NULL: allocate is called only once
 * @ret_buffer  [out] to be given to kiln_constant_fulfil or to kiln_constant_buffer_free
 * Returns KILN_OK; KILN_E_RESOURCES: allocate returned NULL; KILN_E_INVALID; KILN_E_NO_MEMORY.
 * Blocks: as long as allocate and the functions of evicted constants do, even on other threads. A
 * call from inside a backend's function does not wait for other threads. */
KILN_API kiln_status kiln_constant_buffer_new(const kiln_constant_memory *memory, size_t size,
                                              kiln_constant_cache *cache,
                                              kiln_constant_buffer **ret_buffer);

/* Frees a buffer that was not given to a cache, and sets the pointer to NULL. NULL and a pointer to
 * NULL are allowed. Blocks: on the buffer's fence. */
KILN_API void kiln_constant_buffer_free(kiln_constant_buffer **buffer);

/* Return the memory that kiln_constant_allocate_fn returned, and its size in bytes. For NULL, they
 * return NULL and 0. The memory is valid as long as the buffer is. */
KILN_API void *kiln_constant_buffer_data(const kiln_constant_buffer *buffer);
KILN_API size_t kiln_constant_buffer_size(const kiln_constant_buffer *buffer);

/* Returns the buffer that a constant's pin holds; NULL for NULL. The buffer is valid as long as the
 * pin is. */
KILN_API kiln_constant_buffer *kiln_constant_buffer_of(const kiln_pin *pin);

/* Reports when a buffer is ready, if a device computes it asynchronously. */
typedef struct kiln_constant_fence {
    size_t struct_size;
    void *event;               /* such as a cl_event */
    void (*wait)(void *event); /* must not be NULL; returns once the buffer is ready */
    void (*release)(
        void *event); /* called once, after the buffer's memory was freed; may be NULL */
} kiln_constant_fence;

/* Sets the fence of a buffer. The buffer's owner may do this once, before it fulfils the ticket.
 * The buffer's memory is not freed before the fence's wait has returned.
 *
 * @fence  copied
 * Returns KILN_OK; KILN_E_INVALID: also if the buffer already has a fence. */
KILN_API kiln_status kiln_constant_buffer_set_fence(kiln_constant_buffer *buffer,
                                                    const kiln_constant_fence *fence);

/* Returns the event that commands must wait for before they read the buffer; NULL: none. The event
 * is valid as long as the buffer is. */
KILN_API void *kiln_constant_buffer_event(const kiln_constant_buffer *buffer);

/* Waits until the buffer is ready. Blocks: as the fence's wait does. */
KILN_API void kiln_constant_buffer_wait(const kiln_constant_buffer *buffer);

/* ---- constants ---- */

/* Options of a look-up. */
typedef struct kiln_constant_params {
    size_t struct_size;
    uint64_t owner;   /* the object that owns the constant, such as a compiled partition, for
                         kiln_constant_remove_owner. If several objects share a constant, the object
                         that computed it owns it. 0: the constant belongs to its context only */
    uint64_t wait_ns; /* how long to wait for a computation by another caller; 0: without limit;
                         KILN_NO_WAIT: return KILN_TIMEOUT immediately */
    uint32_t flags;   /* KILN_RESERVE_… or-ed */
    uint32_t reserved;
} kiln_constant_params;

/* Asks for a constant. HIT: the answer has a pin. OWNER: it has a ticket; compute the constant for
 * all callers. BYPASS: it has neither; compute the constant for yourself, because the cache is full
 * (under KILN_POLICY_NO_EVICT), its capacity is 0, @size is 0, or the cache has a buffer of a
 * different size under this key. PENDING, with KILN_RESERVE_PENDING: another caller computes the
 * constant, and the answer has a kiln_pending for kiln_constant_wait and kiln_pending_drop.
 *
 * As long as the ticket is open, room for the constant is reserved.
 *
 * @key              made by kiln_constant_key_new
 * @size             the size of the constant in bytes
 * @params           read during the call; NULL: all defaults
 * @ret_reservation  [out] the caller must release its pin, or end its ticket
 * @error            may be NULL; receives the failure of the computation that this call waited for
 * Returns what kiln_cache_reserve returns. Blocks: while another caller computes the constant, at
 * most wait_ns. */
KILN_API kiln_status kiln_constant_get_or_add(kiln_constant_cache *cache, const kiln_key *key,
                                              size_t size, const kiln_constant_params *params,
                                              kiln_reservation *ret_reservation, kiln_error *error);

/* Waits for a constant that another caller computes, as kiln_pending_wait does. The answer is HIT,
 * OWNER or BYPASS.
 *
 * @pending  as returned by kiln_constant_get_or_add for the same @cache and @size
 * @wait_ns  as in kiln_constant_params
 * Returns what kiln_pending_wait returns. Blocks: at most @wait_ns. */
KILN_API kiln_status kiln_constant_wait(kiln_constant_cache *cache, kiln_pending *pending,
                                        size_t size, uint64_t wait_ns,
                                        kiln_reservation *ret_reservation, kiln_error *error);

/* Ends a ticket with a buffer, and gives all waiters pins. The cache then owns the buffer. The
 * actual size of the buffer replaces the reserved size. If there is no room for the buffer, or if
 * the constant was removed or the cache flushed during the computation, the buffer lives only as
 * long as its pins do. If a computation fails, end the ticket with kiln_ticket_abandon.
 *
 * @ticket   set to NULL
 * @buffer   set to NULL
 * @cost_ns  the cost of computing the constant again; 0: the time since kiln_constant_get_or_add
 * @ret_pin  [out] to be released with kiln_pin_release; NULL: the caller needs no pin
 * Returns KILN_OK; KILN_E_INVALID, which changes nothing. */
KILN_API kiln_status kiln_constant_fulfil(kiln_ticket **ticket, kiln_constant_buffer **buffer,
                                          uint64_t cost_ns, kiln_pin **ret_pin);

/* Removes a constant. If it is being computed, its owner and waiters get it, but it is not kept.
 * Otherwise its memory has been freed when the call returns, unless it is pinned.
 *
 * Returns KILN_OK; KILN_MISS: the constant is not in the cache; KILN_E_INVALID. Blocks: as the next
 * two calls do. */
KILN_API kiln_status kiln_constant_remove_if_exist(kiln_constant_cache *cache, const kiln_key *key);

/* Remove all constants of an owner or of a context from the caches of all devices, and return how
 * many there were. Constants that are being computed are not kept, and their waiters get
 * KILN_BYPASS. Call these before the owner or context is released. When they return, all its
 * constants have been freed except those that are pinned or being computed. That includes constants
 * that had been removed from the cache before, and that other threads were about to free. Owner 0
 * has no constants.
 *
 * Blocks: on backends' functions that other threads are running, even if a destroy or listener
 * function of the program's own kiln_cache makes one of these calls. If a backend's function runs
 * because a constant was removed from a cache, a call from inside that function never blocks. */
KILN_API size_t kiln_constant_remove_owner(uint64_t owner);
KILN_API size_t kiln_constant_remove_context(uint64_t context);

/* Returns the total size of the constants in the cache, in bytes; 0 for NULL. Constants that are
 * being computed do not count, nor do constants that are in use but were removed from the cache. */
KILN_API uint64_t kiln_constant_get_size(kiln_constant_cache *cache);

/* Fills the counters, as kiln_cache_get_stats does. With KILN_POLICY_AUTO, the field policy
 * contains the policy that was chosen. Returns KILN_OK; KILN_E_INVALID. */
KILN_API kiln_status kiln_constant_get_stats(kiln_constant_cache *cache,
                                             kiln_cache_stats *ret_stats);

#ifdef __cplusplus
}
#endif

#endif
