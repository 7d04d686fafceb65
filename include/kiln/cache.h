/* SPDX-License-Identifier: Apache-2.0
 *
 * Live objects in this process: each is built once, the total is bounded, and a policy decides
 * which are evicted.
 *
 *     kiln_cache *cache = NULL;
 *     kiln_pin *pin = NULL;
 *     const kiln_cache_params params = {.struct_size = sizeof params, .destroy = destroy};
 *     kiln_cache_new(&params, &cache);
 *     if (kiln_cache_get_or_build(cache, key, build, NULL, &pin, NULL) == KILN_OK) {
 *         use(kiln_pin_object(pin));
 *         kiln_pin_release(&pin);
 *     }
 *     kiln_cache_free(&cache);
 *
 * kiln_cache_get_or_build is the simple way to use a cache. A caller that builds asynchronously
 * reserves a key and fulfils the ticket later. A caller that looks things up on a hot path peeks
 * inside a section, or keeps a watch and does not call the cache at all while the watch is live.
 *
 * A key is absent, building, ready or failed. The first caller that asks for an absent key builds
 * it; later callers wait for that one build, called a flight.
 *
 * All calls: arguments must not be NULL unless their comment allows it. If one is, a call that has
 * a status returns KILN_E_INVALID and changes nothing, and any other call does nothing and returns
 * NULL or 0. Any thread may make any call unless its comment says otherwise. A call that removes or
 * releases objects may run destroy and listener functions on the calling thread; "Blocks" does not
 * include these.
 *
 * Eviction: when room is needed, objects without pins are evicted first, then pinned ones, in the
 * order of the policy. COST evicts the object of the lowest rank, L + frequency * cost / bytes.
 * Frequency counts the insertion and later uses, and saturates at 15. L is the highest rank evicted
 * so far, as it was at the object's last use. Among equals, the least recently used object is
 * evicted, then the least often used, then the oldest. A use is a hit or a peek. Recency is counted
 * in insertions: two uses without an insertion between them are equally recent, because a hit
 * writes nothing that other threads read. In a cache of more than 128 objects, the engine
 * compares random objects with the lowest ones that it found before, so that a choice takes the
 * same time in a cache of any size. It evicts a pinned object if all those that it compared are
 * pinned. NO_EVICT evicts only if the capacity is reduced, and then the newest objects, which the
 * smaller cache would not have admitted. AUTO is COST, which was the best policy in all workloads
 * that were replayed.
 *
 * A call that removes many objects lets other threads use the cache meanwhile. What these insert
 * then is not removed by kiln_cache_clear.
 */
#ifndef KILN_CACHE_H
#define KILN_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include <kiln/key.h>
#include <kiln/policy.h>
#include <kiln/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A cache. Any thread may use it. Pins and watches may outlive it.
 *
 * The cache holds no lock while it calls a destroy, build or listener function, and these may call
 * it again.
 *
 * A forked child has its own copy. The flights of the parent's other threads are over there, so the
 * next caller builds. Objects that those threads had pinned stay alive; only the code that made an
 * object knows whether it is usable in the child.
 *
 * A thread cannot be cancelled inside a destroy or listener function. If such a function ends its
 * thread by pthread_exit, or throws, the remaining notices of that call are not sent, and the
 * remaining objects are destroyed by a later call. A thread that calls the cache must not have
 * asynchronous cancellation enabled. */
typedef struct kiln_cache kiln_cache;

/* A counted hold on an object. The object lives until its last pin is released, even after
 * eviction, after a clear, or after the cache was freed. A pin does not keep the object in the
 * cache. */
typedef struct kiln_pin kiln_pin;

/* A weak handle. It reports whether the object is still in the cache; it holds nothing and blocks
 * nothing. */
typedef struct kiln_watch kiln_watch;

/* The right and the duty to build one absent key. A ticket must be fulfilled or abandoned, exactly
 * once. */
typedef struct kiln_ticket kiln_ticket;

/* Destroys an object. Called once for each object that was given to the cache, when neither the
 * cache, nor a pin, a section or a running notice can reach it any more. Called outside all locks,
 * on the thread that released the object last. An object may be kept for sections that were entered
 * after it left the cache, but only until no section is open. */
typedef void (*kiln_destroy_fn)(void *user, void *object);

enum {
    /* A failed key returns its failure until it is removed or displaced by later failures. Without
     * this flag, and after an abandonment as transient or unshareable, the key is absent. Failures
     * may use a sixteenth of max_entries and of max_bytes, counted by their keys and texts, in
     * addition to resident objects; at least the latest failure is kept. */
    KILN_CACHE_RETAIN_FAILURES = 1u,
    KILN_CACHE_DISABLED = 2u /* every reservation returns KILN_BYPASS until a capacity is set */
};

/* What a cache may hold, and how its objects are destroyed. */
typedef struct kiln_cache_params {
    size_t struct_size;
    uint64_t max_bytes;      /* resident objects, in bytes; 0: 256 MiB; or KILN_UNLIMITED */
    uint64_t max_entries;    /* 0: 65,536; or KILN_UNLIMITED */
    uint32_t policy;         /* a kiln_policy */
    uint32_t flags;          /* KILN_CACHE_… or-ed */
    kiln_destroy_fn destroy; /* NULL: objects need no destruction */
    void *user; /* passed to destroy; borrowed until the last object is destroyed; may be NULL */
} kiln_cache_params;

/* Creates an empty cache. Starts no thread. Peeks and pins are faster if the process creates its
 * first cache before it starts other threads.
 *
 * @params     read during the call; NULL: all defaults
 * @ret_cache  [out] to be freed with kiln_cache_free
 * Returns KILN_OK; KILN_E_INVALID: NULL, an unknown policy or flag, or a non-zero field that this
 * version does not know; KILN_E_NO_MEMORY. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_cache_new(const kiln_cache_params *params, kiln_cache **ret_cache);

/* Empties and frees a cache and sets the pointer to NULL. NULL and a pointer to NULL are allowed.
 * No other thread may be in a call on the cache, and the caller must not be inside one of its
 * build, listener or destroy functions. All tickets must have been ended and all sections left.
 * Pinned objects stay alive, watches are no longer live, and listeners receive the evictions, but
 * not KILN_EVENT_CLEARED. Blocks: never. */
KILN_API void kiln_cache_free(kiln_cache **cache);

/* ---- build once ---- */

/* The result of a build. */
typedef struct kiln_built {
    void *object;     /* the cache owns it from then on; NULL only if nothing was built */
    uint64_t bytes;   /* size of the object */
    uint64_t cost_ns; /* the cost of a miss; 0: the duration of the build */
} kiln_built;

/* Builds the object of a key. Runs on the calling thread, outside all locks, and may use the cache
 * for other keys.
 *
 * On failure it returns an error, and may describe it in @error, which is never NULL; what it wrote
 * to @ret_built is then ignored. KILN_E_NO_MEMORY, KILN_E_RESOURCES, KILN_E_IO and KILN_TIMEOUT end
 * the flight as KILN_ABANDON_TRANSIENT does, all other errors as KILN_ABANDON_FAILED does. KILN_OK
 * without an object counts as KILN_E_INVALID. If the function ends its thread, or an exception
 * leaves it, the flight ends as KILN_ABANDON_TRANSIENT does. */
typedef kiln_status (*kiln_build_fn)(void *user, const kiln_key *key, kiln_built *ret_built,
                                     kiln_error *error);

/* Finds an object, or builds it once while later callers wait. If the cache can't take the object
 * (KILN_BYPASS), it is built for this caller alone.
 *
 * @key      retained if the cache needs it after the call
 * @build    called at most once
 * @user     passed to @build; may be NULL
 * @ret_pin  [out] to be released with kiln_pin_release; NULL with any status but KILN_OK, which
 *           includes the positive ones that @build may return
 * @error    may be NULL; on failure receives the text of the failed build, for each waiter too
 * Returns KILN_OK; KILN_E_INVALID; what @build returned, to its caller and to all waiters, but to
 * its caller alone if the error is transient; KILN_E_CYCLE: the build would wait for itself, and
 * @error names the keys; KILN_E_NO_MEMORY, before anything was built. Threads: any. Blocks: while
 * another caller builds the key. */
KILN_API kiln_status kiln_cache_get_or_build(kiln_cache *cache, const kiln_key *key,
                                             kiln_build_fn build, void *user, kiln_pin **ret_pin,
                                             kiln_error *error);

/* The possible answers to a reservation. */
typedef enum kiln_outcome {
    KILN_HIT = 1,   /* the answer has a pin on the object */
    KILN_OWNER = 2, /* the answer has a ticket: build the object, then fulfil or abandon */
    KILN_BYPASS = 3 /* the answer has neither: build for yourself, because the cache is full or
                       disabled, or the result can't be shared */
} kiln_outcome;

/* An answer, with the pin or ticket that belongs to it. */
typedef struct kiln_reservation {
    kiln_outcome outcome;
    kiln_pin *pin;       /* with KILN_HIT, otherwise NULL */
    kiln_ticket *ticket; /* with KILN_OWNER, otherwise NULL */
} kiln_reservation;

/* A value of wait_ns: do not wait. Not the same as KILN_UNLIMITED. */
#define KILN_NO_WAIT (UINT64_MAX - 1)

/* Options of a reservation. */
typedef struct kiln_reserve_params {
    size_t struct_size;
    uint64_t bytes;   /* expected size, reserved at once; 0: not known yet */
    uint64_t wait_ns; /* how long to wait for a build by another caller; 0 or KILN_UNLIMITED:
                         without limit; KILN_NO_WAIT: return KILN_TIMEOUT at once */
    uint64_t group;   /* the owner of the object, for kiln_cache_remove_group; 0: none */
} kiln_reserve_params;

/* Asks for a key. The answer is HIT, OWNER or BYPASS.
 *
 * Under KILN_POLICY_NO_EVICT the cache issues a ticket only if there is room beside everything
 * resident and reserved: room for one entry, and for @params->bytes, or for one byte if that is 0.
 * The reserved room stays free for the ticket. Under the other policies room is made when the
 * object arrives, and the cache issues a ticket for any size: waiters also share an object that is
 * too large to keep.
 *
 * A ticket belongs to the thread that received it, or that took it last (kiln_ticket_take); any
 * thread may end it. A request that would wait on itself, directly or through other threads that
 * wait in this cache, fails with KILN_E_CYCLE, and @error names the keys. If the thread that owns a
 * ticket ends first, the thread that has waited longest gets a ticket of its own, or else the next
 * caller does. The first ticket can still be ended, but the object that fulfils it then lives for
 * its pins only. If a thread forgets its ticket and goes on, other threads wait, up to their
 * wait_ns.
 *
 * @key              retained if the cache needs it after the call
 * @params           read during the call; NULL: all defaults
 * @ret_reservation  [out] its pin must be released, or its ticket ended
 * @error            may be NULL; receives the failure of the flight that was waited for
 * Returns KILN_OK; KILN_TIMEOUT; KILN_E_INVALID; KILN_E_CYCLE; KILN_E_NO_MEMORY; the status of the
 * failed flight that was waited for, or of the failure that was kept. Threads: any. Blocks: at most
 * wait_ns. */
KILN_API kiln_status kiln_cache_reserve(kiln_cache *cache, const kiln_key *key,
                                        const kiln_reserve_params *params,
                                        kiln_reservation *ret_reservation, kiln_error *error);

/* Ends a ticket with its object; waiters get their pins. The cache owns the object from then on,
 * except after KILN_E_INVALID, which changes nothing. If there is no room for the object, or if its
 * flight was removed meanwhile, the object lives for its pins only.
 *
 * @ticket   set to NULL; may have been issued to a different thread
 * @object   the object that was built
 * @bytes    its actual size, which replaces the reserved one
 * @cost_ns  the cost of a miss; 0: the time since the reservation
 * @ret_pin  [out] to be released with kiln_pin_release; NULL: the caller needs no pin
 * Returns KILN_OK; KILN_E_INVALID: no ticket or no object. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_ticket_fulfil(kiln_ticket **ticket, void *object, uint64_t bytes,
                                        uint64_t cost_ns, kiln_pin **ret_pin);

/* Transfers a ticket to the calling thread, for a build that continues in a different thread than
 * the one that asked.
 *
 * @ticket  not ended, and not being ended by another thread
 * Returns KILN_OK; KILN_E_INVALID: NULL; KILN_E_NO_MEMORY: the ticket still belongs to the other
 * thread. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_ticket_take(kiln_ticket *ticket);

/* How a ticket ends without an object. */
typedef enum kiln_abandonment {
    KILN_ABANDON_FAILED = 1, /* every waiter gets the status and the text */
    /* The failure concerns the owner alone. The thread that has waited longest becomes the owner of
     * the same flight, with the room that the flight reserved and with the group that this thread
     * asked for; the others continue to wait. */
    KILN_ABANDON_TRANSIENT = 2,
    /* The object was built, but only its owner may use it: waiters get KILN_BYPASS. */
    KILN_ABANDON_UNSHAREABLE = 3
} kiln_abandonment;

/* Ends a ticket without an object.
 *
 * @ticket  set to NULL; NULL and a pointer to NULL are allowed
 * @how     a kiln_abandonment; any other value counts as KILN_ABANDON_FAILED
 * @status  with KILN_ABANDON_FAILED: the error that waiters get (KILN_E_INVALID instead of
 *          KILN_OK); otherwise ignored
 * @text    the message that waiters get, copied, and cut to the size of kiln_error's text; NULL:
 *          the text of the status
 * Threads: any. Blocks: never. */
KILN_API void kiln_ticket_abandon(kiln_ticket **ticket, kiln_abandonment how, kiln_status status,
                                  const char *text);

/* ---- look ---- */

/* A read section. An object that is peeked at inside a section stays valid until the section is
 * left, even if it is evicted, removed or cleared meanwhile.
 *
 * Sections should be short. A section belongs to one thread, which must leave it. When a thread
 * ends, the first eight of its open sections are left for it. Sections nest. In a process that had
 * threads before its first cache, one section or pin in the first million takes about 10 ms once,
 * while the system makes all later ones cheaper. */
typedef struct kiln_section {
    kiln_cache *cache;
    void *slot;
} kiln_section;

/* Enters a section.
 *
 * @cache        must not be NULL; unchecked, for speed
 * @ret_section  [out] must not be NULL; unchecked, for speed
 * Threads: any. Blocks: never. */
KILN_API void kiln_section_enter(kiln_cache *cache, kiln_section *ret_section);

/* Leaves a section. Must be called on the thread that entered it. May destroy objects, by the
 * cache's destroy function. */
KILN_API void kiln_section_leave(kiln_section *section);

/* Returns the object of a key that is ready, or NULL. It stays valid until the section is left; no
 * hold is taken. Counts as a use, but not in the statistics. Threads: the one that entered the
 * section. Blocks: never. */
KILN_API void *kiln_cache_peek(const kiln_section *section, const kiln_key *key);

/* Takes a pin on the object of a key that is ready. Never waits for a build.
 *
 * @ret_pin  [out] to be released with kiln_pin_release
 * Returns KILN_OK; KILN_MISS: the key is not ready; KILN_E_INVALID. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_cache_pin(kiln_cache *cache, const kiln_key *key, kiln_pin **ret_pin);

/* Returns the object that a pin holds, which is valid as long as the pin; NULL for NULL. */
KILN_API void *kiln_pin_object(const kiln_pin *pin);

/* Adds a hold on the same object and returns its argument. NULL is allowed. */
KILN_API kiln_pin *kiln_pin_retain(kiln_pin *pin);

/* Releases a pin and sets the pointer to NULL. NULL and a pointer to NULL are allowed. Releasing
 * the last pin of an object that has left the cache destroys the object. */
KILN_API void kiln_pin_release(kiln_pin **pin);

/* Creates a watch on a pinned object. The watch may outlive pin, object and cache. If the object
 * has left the cache, or never was in it, the watch is not live from the beginning.
 *
 * @ret_watch  [out] to be freed with kiln_watch_free
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_NO_MEMORY. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_pin_watch(kiln_pin *pin, kiln_watch **ret_watch);

/* Returns 1 while the object is in the cache, and 0 from its eviction or removal on; 0 for NULL.
 * Costs one atomic load (acquire). The answer does not keep the object alive: a caller that goes on
 * to use the object must hold a pin. Threads: any. Blocks: never. */
KILN_API int kiln_watch_is_live(const kiln_watch *watch);

/* Frees a watch and sets the pointer to NULL. NULL and a pointer to NULL are allowed. */
KILN_API void kiln_watch_free(kiln_watch **watch);

/* ---- govern ---- */

/* Sets the cost of a miss of this key from now on, in nanoseconds: for example the time to reload
 * the entry, once a store holds it. Does not count as a use. Returns KILN_OK; KILN_MISS: the key is
 * not ready; KILN_E_INVALID. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_cache_set_cost(kiln_cache *cache, const kiln_key *key, uint64_t cost_ns);

/* Changes the capacity. A larger one keeps everything; a smaller one evicts by the policy; zero for
 * either limit clears and disables the cache until a capacity is set. Unlike in kiln_cache_params,
 * 0 means zero here. Flights continue; whether their objects fit is decided when they are
 * fulfilled.
 *
 * @max_bytes    resident objects, in bytes; or KILN_UNLIMITED
 * @max_entries  number of resident objects; or KILN_UNLIMITED
 * Returns KILN_OK; KILN_E_INVALID. Threads: any. Blocks: never.
 */
KILN_API kiln_status kiln_cache_set_capacity(kiln_cache *cache, uint64_t max_bytes,
                                             uint64_t max_entries);

/* Does the same, and removes everything in the cache, as the setters of the constant tensor cache
 * do. */
KILN_API kiln_status kiln_cache_set_capacity_flush(kiln_cache *cache, uint64_t max_bytes,
                                                   uint64_t max_entries);

/* Changes the policy; evicts nothing.
 *
 * @policy  a kiln_policy
 * Returns KILN_OK; KILN_E_INVALID. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_cache_set_policy(kiln_cache *cache, uint32_t policy);

/* Evicts unpinned objects, under any policy, until @bytes bytes were freed or no unpinned object is
 * left. The objects that are cheapest to rebuild are evicted first, by cost alone; ties are broken
 * as described at the top of this header. If almost all objects are pinned, the order is undefined.
 * Kept failures are removed too, but do not count as freed. For a device that is out of memory.
 *
 * @ret_freed  [out] in bytes; may be NULL
 * Returns KILN_OK; KILN_E_INVALID. Threads: any. Blocks: never.
 */
KILN_API kiln_status kiln_cache_evict_bytes(kiln_cache *cache, uint64_t bytes, uint64_t *ret_freed);

/* Removes a key that is ready or failed. A flight is not affected. Returns KILN_OK; KILN_MISS: the
 * key is absent or building; KILN_E_INVALID. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_cache_remove(kiln_cache *cache, const kiln_key *key);

/* Removes all ready keys of a group and returns how many there were. Kept failures of the group are
 * removed too. The waiters of the group's flights get KILN_BYPASS, and the objects of these flights
 * are not kept. All keys of the group are absent afterwards: the next caller builds anew, even
 * while the owner of such a flight is still building. Group 0 has no members. Threads: any. Blocks:
 * never. */
KILN_API size_t kiln_cache_remove_group(kiln_cache *cache, uint64_t group);

/* Removes everything, kept failures too. Flights continue for their owners and waiters, but their
 * objects are not kept. All keys are absent afterwards: the next caller builds anew. Threads: any.
 * Blocks: never. */
KILN_API void kiln_cache_clear(kiln_cache *cache);

/* ---- listen ---- */

enum {
    KILN_EVENT_INSERTED = 1u,
    KILN_EVENT_HIT = 2u, /* sampled: an object's first use, and then one of every 64 uses by a
                            thread (the number may change) */
    KILN_EVENT_EVICTED = 4u,
    KILN_EVENT_CLEARED = 8u /* once for each clear or flush, after the evictions */
};

/* Why an object left the cache. */
typedef enum kiln_eviction {
    KILN_EVICTED_CAPACITY = 1, /* evicted by the policy, to make room */
    KILN_EVICTED_REMOVED = 2,  /* removed by key or with its group */
    KILN_EVICTED_CLEARED = 3,  /* removed by a clear or flush, or because the cache was freed */
    KILN_EVICTED_RESOURCES = 4 /* evicted by kiln_cache_evict_bytes */
} kiln_eviction;

/* What a listener receives. */
typedef struct kiln_event {
    size_t struct_size;
    uint32_t kind;       /* KILN_EVENT_… */
    uint32_t reason;     /* a kiln_eviction, with KILN_EVENT_EVICTED */
    const kiln_key *key; /* valid during the call; NULL with KILN_EVENT_CLEARED */
    const void *object;  /* valid during the call; NULL with KILN_EVENT_CLEARED */
    uint64_t bytes;
} kiln_event;

/* Called outside all locks, before the call that caused the event returns and on the same thread.
 * It may call the cache. The watches of an evicted object are no longer live by then. Notices from
 * different threads may arrive in a different order than their events. */
typedef void (*kiln_listener_fn)(void *user, const kiln_event *event);

/* Adds a listener, which receives the events that happen from now on.
 *
 * @events    KILN_EVENT_… or-ed, at least one
 * @listener  called for each such event, from any thread
 * @user      passed to @listener; borrowed until the listener is removed; may be NULL
 * @ret_id    [out] for kiln_cache_unlisten
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_NO_MEMORY. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_cache_listen(kiln_cache *cache, uint32_t events,
                                       kiln_listener_fn listener, void *user, uint64_t *ret_id);

/* Removes a listener. When the call returns, the listener is not running on another thread and will
 * not be called again. A call from inside a listener of this cache does not wait, since two
 * listeners that waited for each other would never return: the listener is not called again, but a
 * call in progress may continue. An unknown id is ignored. Threads: any. Blocks: while the listener
 * runs on another thread. */
KILN_API void kiln_cache_unlisten(kiln_cache *cache, uint64_t id);

/* ---- count ---- */

/* Counters of a cache. Each answer of reserve, pin and get_or_build counts as a hit (an object), a
 * miss (a ticket, or KILN_MISS) or a bypass. A request that waits for a flight also counts as a
 * wait, from the moment when it begins to wait, even if it gets no object. */
typedef struct kiln_cache_stats {
    size_t struct_size; /* set by the caller */
    uint64_t hits, misses, waits, bypasses;
    uint64_t failures;       /* flights that were abandoned, except as unshareable */
    uint64_t evictions;      /* to make room, and by kiln_cache_evict_bytes */
    uint64_t entries, bytes; /* resident objects */
    uint64_t reserved_bytes; /* of flights whose size is known */
    uint64_t lingering_entries,
        lingering_bytes; /* objects that are alive but are not, or never were, in the cache: pinned,
                            or seen in a section */
    uint64_t max_bytes, max_entries;
    uint32_t policy; /* the policy in effect: with KILN_POLICY_AUTO the one that was chosen */
    uint32_t reserved;
    uint64_t retained_failures,
        retained_failure_bytes; /* failures kept by KILN_CACHE_RETAIN_FAILURES, and the bytes of
                                   their keys and texts */
} kiln_cache_stats;

/* Fills @ret_stats as far as its struct_size reaches. Returns KILN_OK; KILN_E_INVALID. Threads:
 * any. Blocks: never. */
KILN_API kiln_status kiln_cache_get_stats(kiln_cache *cache, kiln_cache_stats *ret_stats);

#ifdef __cplusplus
}
#endif

#endif
