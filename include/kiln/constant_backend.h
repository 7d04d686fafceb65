/* SPDX-License-Identifier: Apache-2.0
 *
 * The constant tensor cache, as backends use it. The user governs it: kiln/constant.h.
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
 * Pins, watches and tickets are those of kiln/cache.h. A pin makes its holder a co-owner: the
 * buffer stays good until it is given back, whatever becomes of it in the cache. Who executes often
 * keeps pin and watch, and asks the cache again only once kiln_watch_is_live says 0; it gives the
 * pin back then, or when the buffer's evicted function is called.
 *
 * Caches, and what is in them, are left alone when the process ends: Kiln does nothing in exit
 * handlers or destructors of its own. Pins may be released there. As anywhere, the last one of a
 * constant that has left the cache has it freed by its backend's functions: a backend whose runtime
 * may be gone by then gives its pins back before, or not at all. Before the library or a backend is
 * unloaded the user's kiln_constant_set_enabled(0) empties the caches; pins are to be given back,
 * and computations to have ended, before that.
 *
 * NULL where something is needed, an unknown kind, and a parameter structure with something in it
 * that this version does not know are KILN_E_INVALID. Threads: any. Blocks: never, but where said.
 *
 * A backend's functions are called outside all locks, and may call Kiln. The thread that calls them
 * is any that lets a constant go: by a removal, by kiln_constant_fulfil or kiln_constant_buffer_new
 * where they make room, by the release of a pin, by a lookup that was under way when another thread
 * removed something. So these calls take as long as the functions of all backends do. These are not
 * to wait for other threads that call Kiln, nor is a lock to be held in a call that one of them
 * takes. No thread is cancelled in one that was called because a constant left a cache.
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

/* The constants of one device. Process-wide: all who ask for one kind and index get the same one.
 * It is never freed. */
typedef struct kiln_constant_cache kiln_constant_cache;

/* The memory of one constant, with the functions that it goes back by. */
typedef struct kiln_constant_buffer kiln_constant_buffer;

/* ---- devices ---- */

/* @kind   kiln_engine_kind
 * @index  of the device among those of its kind, from 0
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_NO_MEMORY. */
KILN_API kiln_status kiln_constant_cache_of(uint32_t kind, uint32_t index,
                                            kiln_constant_cache **ret_cache);

/* Lets users name a device by its runtime's handle. A handle that was bound already is bound anew.
 *
 * @device  only compared
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_NO_MEMORY. */
KILN_API kiln_status kiln_constant_bind_device(const void *device, uint32_t kind, uint32_t index);

/* For a handle that ends. NULL and one that was not bound are ignored. */
KILN_API void kiln_constant_unbind_device(const void *device);

/* ---- keys ---- */

/* A number that this process got from here never before; never 0. For contexts, owners and
 * generations: addresses and handles come back for something else. */
KILN_API uint64_t kiln_constant_unique_number(void);

/* All of it decides which constant is meant; keys are compared whole. */
typedef struct kiln_constant_key_params {
    size_t struct_size;
    uint64_t context;    /* whose memory it is: entries are never shared between contexts */
    uint64_t backend;    /* keeps the keys of backends apart */
    const void *key;     /* the backend's own: copied */
    size_t key_size;     /* in bytes */
    uint64_t generation; /* of the source: another one once what was at that address is something
                            else */
} kiln_constant_key_params;

/* Makes the key of a constant. Kept by the backend it makes lookups cheap.
 *
 * @ret_key  [out] to be given back with kiln_key_release
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_TOO_LARGE: above 2^40 bytes; KILN_E_NO_MEMORY. */
KILN_API kiln_status kiln_constant_key_new(const kiln_constant_key_params *params,
                                           kiln_key **ret_key);

/* ---- buffers ---- */

/* Returns memory of @size bytes, or NULL. */
typedef void *(*kiln_constant_allocate_fn)(size_t size, void *engine, void *allocator);
/* Gives memory back that kiln_constant_allocate_fn returned. */
typedef void (*kiln_constant_free_fn)(void *data, void *engine, void *allocator);
/* Holds engine and allocator, or gives that hold back. */
typedef void (*kiln_constant_hold_fn)(void *engine, void *allocator);
/* Tells that a buffer left the cache. */
typedef void (*kiln_constant_evicted_fn)(void *user, const kiln_constant_buffer *buffer);

/* A backend's functions for buffers. */
typedef struct kiln_constant_memory {
    size_t struct_size;
    kiln_constant_allocate_fn allocate;
    kiln_constant_free_fn free;
    void *engine; /* passed on */
    void *allocator;
    /* Called before the buffer's memory is allocated, and after it was freed: engine and allocator
     * live as long as the buffer. May both be NULL. */
    kiln_constant_hold_fn retain, release;
    /* Called when the buffer leaves the cache for any reason, after its watches turned; the buffer
     * is valid during the call. Not called for one that never got in. May be NULL. */
    kiln_constant_evicted_fn evicted;
    void *user; /* for evicted */
} kiln_constant_memory;

/* Allocates a buffer.
 *
 * @memory     lives for the call
 * @size       in bytes, more than 0
 * @cache      where @memory has no more: constants that nobody uses are evicted there until so many
 *             bytes are free, and it is asked once again; NULL: it is not
 * @ret_buffer [out] to be given to kiln_constant_fulfil or to kiln_constant_buffer_free
 * Returns KILN_OK; KILN_E_RESOURCES: allocate returned NULL; KILN_E_INVALID; KILN_E_NO_MEMORY.
 * Blocks: as allocate does. */
KILN_API kiln_status kiln_constant_buffer_new(const kiln_constant_memory *memory, size_t size,
                                              kiln_constant_cache *cache,
                                              kiln_constant_buffer **ret_buffer);

/* Frees a buffer that no cache was given, and sets the pointer to NULL; takes NULL and a pointer to
 * NULL. Blocks: on its fence. */
KILN_API void kiln_constant_buffer_free(kiln_constant_buffer **buffer);

/* What kiln_constant_allocate_fn returned, and how many bytes it was asked for. */
KILN_API void *kiln_constant_buffer_data(const kiln_constant_buffer *buffer);
KILN_API size_t kiln_constant_buffer_size(const kiln_constant_buffer *buffer);

/* The buffer that a pin of a constant holds; valid as long as that. NULL for NULL. */
KILN_API kiln_constant_buffer *kiln_constant_buffer_of(const kiln_pin *pin);

/* When a buffer will be ready, where it is computed by a device that runs beside the host. */
typedef struct kiln_constant_fence {
    size_t struct_size;
    void *event;                  /* such as a cl_event */
    void (*wait)(void *event);    /* returns once the buffer is ready; needed */
    void (*release)(void *event); /* called once, after the buffer's memory was freed; may be NULL
                                   */
} kiln_constant_fence;

/* Gives a buffer its fence. Its owner does it, once, before it fulfils. The buffer's memory is
 * freed no sooner than wait has returned.
 *
 * Returns KILN_OK; KILN_E_INVALID, also where it has a fence. */
KILN_API kiln_status kiln_constant_buffer_set_fence(kiln_constant_buffer *buffer,
                                                    const kiln_constant_fence *fence);

/* What commands that read the buffer have to wait for; NULL: nothing. Valid as long as the buffer.
 */
KILN_API void *kiln_constant_buffer_event(const kiln_constant_buffer *buffer);

/* Waits until the buffer is ready. Blocks: as the fence's wait does. */
KILN_API void kiln_constant_buffer_wait(const kiln_constant_buffer *buffer);

/* ---- constants ---- */

/* How a constant is asked for. */
typedef struct kiln_constant_params {
    size_t struct_size;
    uint64_t owner;   /* whose end takes the constant along, such as a compiled partition; of those
                         who share it, who computed it; 0: nobody's but the context's */
    uint64_t wait_ns; /* how long to wait for another's computation; 0: as long as it takes; or
                         KILN_NO_WAIT */
} kiln_constant_params;

/* Asks for a constant: HIT, a pin; OWNER, a ticket: compute it for all; BYPASS: compute it for
 * yourself, because the cache is full (under KILN_POLICY_NO_EVICT), has capacity 0, or because
 * @size is 0. Room for @size is reserved as long as the ticket is open.
 *
 * @key     of kiln_constant_key_new
 * @size    in bytes, of what will be computed
 * @params  lives for the call; NULL: all defaults
 * @error   may be NULL; holds the failure of the computation that was waited for
 * Returns what kiln_cache_reserve returns. Blocks: while another computes it, at most wait_ns. */
KILN_API kiln_status kiln_constant_get_or_add(kiln_constant_cache *cache, const kiln_key *key,
                                              size_t size, const kiln_constant_params *params,
                                              kiln_reservation *ret_reservation, kiln_error *error);

/* Ends a ticket with a buffer, which becomes the cache's; all who waited get pins. What counts from
 * then on is the buffer's size. Where there is no room for it, and where it was removed or
 * flushed meanwhile, it lives for its pins only. A computation that failed is ended by
 * kiln_ticket_abandon.
 *
 * @ticket   set to NULL
 * @buffer   set to NULL
 * @cost_ns  of computing it again; 0: the time since kiln_constant_get_or_add
 * @ret_pin  [out] may be NULL where the owner wants no pin
 * Returns KILN_OK; KILN_E_INVALID, which changes nothing. */
KILN_API kiln_status kiln_constant_fulfil(kiln_ticket **ticket, kiln_constant_buffer **buffer,
                                          uint64_t cost_ns, kiln_pin **ret_pin);

/* Removes a constant. One that is being computed goes to those who are in it, and is not kept. A
 * thread that looks something up right now may free it a moment later.
 *
 * Returns KILN_OK; KILN_MISS: it is not there; KILN_E_INVALID. */
KILN_API kiln_status kiln_constant_remove_if_exist(kiln_constant_cache *cache, const kiln_key *key);

/* Remove all constants of an owner or of a context, from the caches of all devices, and return how
 * many. Of those that are being computed nothing is kept, and who waits for one gets BYPASS. To be
 * called before what they stand for is released: but for those that are pinned or being computed
 * all are freed when these return, also such as left the cache before and as other threads were
 * about to free. Owner 0 is none. Blocks: on the functions of backends that other threads are in,
 * also where a destroy or listener function of a program's own kiln_cache calls them; from inside a
 * backend's function that a constant's leaving called, never. */
KILN_API size_t kiln_constant_remove_owner(uint64_t owner);
KILN_API size_t kiln_constant_remove_context(uint64_t context);

/* Bytes of the constants in the cache: neither of what is being computed, nor of what is in use but
 * no longer in it. NULL: 0. */
KILN_API uint64_t kiln_constant_get_size(kiln_constant_cache *cache);

/* Counters, as kiln_cache_get_stats fills them; with KILN_POLICY_AUTO policy is what was chosen.
 * Returns KILN_OK; KILN_E_INVALID. */
KILN_API kiln_status kiln_constant_get_stats(kiln_constant_cache *cache,
                                             kiln_cache_stats *ret_stats);

#ifdef __cplusplus
}
#endif

#endif
