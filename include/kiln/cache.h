/* SPDX-License-Identifier: Apache-2.0
 *
 * A cache of live objects in this process. Each object is built once, the total size is bounded,
 * and a policy decides which objects are evicted.
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
 * reserves a key and fulfils the ticket later. A caller on a hot path peeks at objects inside a
 * section. Or it keeps a pin and a watch, and does not call the cache at all while the watch is
 * live.
 *
 * A key has one of four states: absent, building, ready or failed. The first caller that asks for
 * an absent key builds it; later callers wait for that build, which is called a flight.
 *
 * All calls: arguments must not be NULL unless their comment allows it. If one is NULL
 * nevertheless, a call whose result is a status changes nothing and returns KILN_E_INVALID. Any
 * other call does nothing and returns NULL or 0. Any thread may make any call unless its comment
 * says otherwise. Destroy and listener functions run on the calling thread. "Blocks" does not
 * include the time that they take.
 *
 * Destruction: once nothing can reach an object, the next call that can destroy objects destroys
 * it. These calls can destroy objects: kiln_ticket_fulfil, kiln_ticket_abandon, and
 * kiln_cache_get_or_build and kiln_cache_obtain if they build; kiln_cache_set_capacity,
 * kiln_cache_set_capacity_flush, kiln_cache_evict_bytes, kiln_cache_remove, kiln_cache_remove_group
 * and kiln_cache_clear; kiln_pin_release, kiln_pending_drop and kiln_cache_visit if they release
 * the last hold on an object that was removed from the cache; kiln_cache_collect and
 * kiln_cache_free. No other call destroys objects. So a thread never waits for a destroy function
 * if it only enters and leaves sections, peeks, pins objects that are ready, or reads watches. With
 * KILN_CACHE_DEFER_DESTRUCTION only kiln_cache_collect destroys objects until the cache is freed.
 *
 * If a thread has a section open when an object is removed from the cache, the call that removes
 * the object does not destroy it. After that section has been left, the next call that can destroy
 * objects destroys it. Until then, the object keeps its memory, however large, and counts in
 * kiln_cache_stats.lingering_bytes. A program that removes objects and then only looks up objects
 * must call kiln_cache_collect to free the removed objects.
 *
 * Eviction: when room is needed, objects are evicted in the order of the policy. Objects without
 * pins come first. Objects that are pinned, or that kiln_cache_params.is_busy reports, come last.
 * COST evicts the object with the lowest rank. The rank of an object is L + frequency * cost /
 * bytes. The frequency counts the insertion and later uses, up to 15. L is the highest rank that
 * had been evicted by the time of the object's last use. Ties are broken by evicting the least
 * recently used object, then the least often used, then the oldest. A use is a hit or a peek.
 * Recency is counted in insertions and evictions, because a hit advances no clock. Two uses are
 * equally recent if nothing was inserted or evicted between them. In a cache of more than 32
 * objects, the engine does not compare all objects. It compares random objects with the best
 * candidates that it found before, so choosing takes the same time in a cache of any size. If all
 * objects that it compared are pinned, it evicts a pinned one. NO_EVICT evicts only if the capacity
 * is reduced. It then evicts the newest objects, which the smaller cache would not have admitted.
 * AUTO is the same as COST, which was the best policy in all workloads that were replayed.
 *
 * While a call removes many objects, other threads can use the cache. kiln_cache_clear does not
 * remove objects that other threads insert meanwhile.
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
 * The cache holds no lock while it calls a destroy, build or listener function, and these functions
 * may call the cache.
 *
 * A forked child has its own copy of the cache. In the child, the flights of the parent's other
 * threads have ended, so the next caller builds. Objects that those threads had pinned stay alive;
 * only the code that made an object knows whether it is usable in the child.
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

/* A weak handle. It reports whether an object is still in the cache. It does not keep the object
 * alive, and does not keep the cache from evicting it. */
typedef struct kiln_watch kiln_watch;

/* The right and the duty to build one absent key. A ticket must be fulfilled or abandoned, exactly
 * once. */
typedef struct kiln_ticket kiln_ticket;

/* Destroys an object. Called once for each object that the cache received, when the object can no
 * longer be reached from the cache, a pin, a section or a running notice. Called outside all locks,
 * by one of the calls that the top of this header lists. If a section can still reach the object
 * when it is removed from the cache, a later one of these calls destroys it. */
typedef void (*kiln_destroy_fn)(void *user, void *object);

/* Returns 1 if an object is in use although no pin holds it, for example by another object that was
 * made from it. Otherwise returns 0. Such an object counts as pinned when the cache chooses what to
 * evict. Called on any thread that evicts, while that thread holds the cache's lock. So the
 * function must be quick, must not call Kiln, and must not wait for a thread that calls Kiln. */
typedef int (*kiln_busy_fn)(void *user, const void *object);

enum {
    /* Failures are kept: a request for a failed key gets its failure until the key is removed or
     * later failures displace it. Without this flag, a key is absent after a failure. A key is
     * always absent after its ticket was abandoned as transient or unshareable. Kept failures do
     * not count against the capacity. Their number is limited to a sixteenth of max_entries, and
     * the size of their keys and texts to a sixteenth of max_bytes. At least the latest failure is
     * kept. */
    KILN_CACHE_RETAIN_FAILURES = 1u,
    KILN_CACHE_DISABLED = 2u, /* every reservation returns KILN_BYPASS until a capacity is set */
    /* Objects that nothing can reach any more are kept until kiln_cache_collect destroys them, or
     * until the cache is freed. This flag is for objects that take long to destroy. */
    KILN_CACHE_DEFER_DESTRUCTION = 4u
};

/* What a cache may hold, and how its objects are destroyed. */
typedef struct kiln_cache_params {
    size_t struct_size;
    uint64_t max_bytes;      /* maximum size of resident objects; 0: 256 MiB; or KILN_UNLIMITED */
    uint64_t max_entries;    /* maximum number of resident objects; 0: 65,536; or KILN_UNLIMITED */
    uint32_t policy;         /* a kiln_policy */
    uint32_t flags;          /* KILN_CACHE_… or-ed */
    kiln_destroy_fn destroy; /* NULL: objects need no destruction */
    void *user; /* passed to the functions; borrowed until the last object is destroyed; may be
                   NULL */
    kiln_busy_fn is_busy; /* NULL: an object without pins is not in use */
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
 * build, listener or destroy functions. All tickets must have been ended, and all sections must
 * have been left. Pinned objects stay alive, watches are no longer live, and listeners receive the
 * evictions, but not KILN_EVENT_CLEARED. Blocks: never. */
KILN_API void kiln_cache_free(kiln_cache **cache);

/* ---- build once ---- */

/* The result of a build. */
typedef struct kiln_built {
    void *object;     /* the cache owns it after KILN_OK; NULL only if nothing was built */
    uint64_t bytes;   /* size of the object */
    uint64_t cost_ns; /* what a miss costs; 0: Kiln uses the measured build time */
} kiln_built;

/* Builds the object of a key. Runs on the calling thread, outside all locks, and may use the cache
 * for other keys.
 *
 * On failure, the function returns an error, and can describe the error in @error, which is never
 * NULL. The cache then ignores @ret_built. After KILN_E_NO_MEMORY, KILN_E_RESOURCES, KILN_E_IO and
 * KILN_TIMEOUT the flight ends as with KILN_ABANDON_TRANSIENT, so one waiter tries once more. After
 * all other errors it ends as with KILN_ABANDON_FAILED. KILN_OK without an object counts as
 * KILN_E_INVALID. If the function ends its thread, or an exception leaves it, the flight ends as
 * with KILN_ABANDON_TRANSIENT. */
typedef kiln_status (*kiln_build_fn)(void *user, const kiln_key *key, kiln_built *ret_built,
                                     kiln_error *error);

/* Finds an object, or builds it once while later callers wait. If the cache can't take the object
 * (KILN_BYPASS), it is built for this caller alone.
 *
 * @key      retained if the cache needs it after the call
 * @build    called at most once
 * @user     passed to @build; may be NULL
 * @ret_pin  [out] to be released with kiln_pin_release; NULL with any status other than KILN_OK,
 *           including a positive status that @build returned
 * @error    may be NULL; on failure receives the text of the failed build, also for callers that
 *           waited
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_CYCLE: the build would wait for itself, and @error names
 * the keys; KILN_E_NO_MEMORY: nothing was built; or what @build returned. All waiters get that
 * status too, but the first transient error goes only to the caller that ran @build. Threads: any.
 * Blocks: while another caller builds the key. */
KILN_API kiln_status kiln_cache_get_or_build(kiln_cache *cache, const kiln_key *key,
                                             kiln_build_fn build, void *user, kiln_pin **ret_pin,
                                             kiln_error *error);

/* How an object was obtained. */
typedef enum kiln_served {
    KILN_SERVED_HIT = 1,     /* it was in the cache */
    KILN_SERVED_BUILT = 2,   /* this caller built it, for all */
    KILN_SERVED_WAITED = 3,  /* another caller built it meanwhile */
    KILN_SERVED_BYPASSED = 4 /* this caller built it for itself alone */
} kiln_served;

/* Options of a reservation or a build; defined below. */
typedef struct kiln_reserve_params kiln_reserve_params;

/* Does the same as kiln_cache_get_or_build, with options, and reports how the object was obtained.
 *
 * @params      read during the call: the expected size, how long to wait for a build by another
 *              caller, and the group; its flags must be 0. NULL: all defaults
 * @ret_served  [out] may be NULL
 * Returns what kiln_cache_get_or_build returns; KILN_TIMEOUT: another caller is still building.
 * Threads: any. Blocks: while another caller builds the key, at most @params->wait_ns. */
KILN_API kiln_status kiln_cache_obtain(kiln_cache *cache, const kiln_key *key,
                                       const kiln_reserve_params *params, kiln_build_fn build,
                                       void *user, kiln_pin **ret_pin, kiln_served *ret_served,
                                       kiln_error *error);

/* The possible answers to a reservation. */
typedef enum kiln_outcome {
    KILN_HIT = 1,    /* the answer has a pin on the object */
    KILN_OWNER = 2,  /* the answer has a ticket: build the object, then fulfil or abandon */
    KILN_BYPASS = 3, /* the answer has neither a pin nor a ticket; build for yourself, because the
                        cache is full or disabled, or the result can't be shared */
    KILN_PENDING = 4 /* another caller is building; only with KILN_RESERVE_PENDING */
} kiln_outcome;

/* An answer that is not known yet. Any thread may use it until it is dropped. */
typedef struct kiln_pending kiln_pending;

/* An answer, with the pin or ticket that belongs to it. */
typedef struct kiln_reservation {
    kiln_outcome outcome;
    kiln_pin *pin;         /* with KILN_HIT, otherwise NULL */
    kiln_ticket *ticket;   /* with KILN_OWNER, otherwise NULL */
    kiln_pending *pending; /* with KILN_PENDING, otherwise NULL */
} kiln_reservation;

/* A value of wait_ns that means: do not wait. It differs from KILN_UNLIMITED. */
#define KILN_NO_WAIT (UINT64_MAX - 1)

/* Flags of a reservation. */
enum {
    /* If another caller is building the key, the call does not wait, and the answer is
     * KILN_PENDING. The call ignores wait_ns. */
    KILN_RESERVE_PENDING = 1u,
    /* If the key is absent, the call issues no ticket and returns KILN_MISS. A thread that waits
     * for a build can still get the ticket, if the build ends without an object. */
    KILN_RESERVE_NO_TICKET = 2u
};

struct kiln_reserve_params {
    size_t struct_size;
    uint64_t bytes;   /* expected size, reserved immediately; 0: not known yet */
    uint64_t wait_ns; /* how long to wait for a build by another caller; 0 or KILN_UNLIMITED:
                         without limit; KILN_NO_WAIT: return KILN_TIMEOUT immediately */
    uint64_t group;   /* the owner of the object, for kiln_cache_remove_group; 0: none */
    uint32_t flags;   /* KILN_RESERVE_… or-ed */
    uint32_t reserved;
};

/* Asks for a key. The answer is HIT, OWNER or BYPASS; with KILN_RESERVE_PENDING, it can also be
 * PENDING.
 *
 * Under KILN_POLICY_NO_EVICT, the cache issues a ticket only if it has room for one more entry and
 * for @params->bytes, in addition to everything resident and reserved. It then reserves this room.
 * If @params->bytes is 0, one byte must be free, but only the entry is reserved. Under the other
 * policies, the cache issues a ticket for any size, and makes room when the object arrives. If an
 * object is too large to keep, the waiters still get it.
 *
 * A ticket belongs to the thread that received it, or to the last thread that took it with
 * kiln_ticket_take. Any thread may end it. If a request would wait for itself, directly or through
 * other threads that wait in this or other caches, it fails with KILN_E_CYCLE, and @error names the
 * keys. If the thread that owns a ticket exits before the ticket is ended, the thread that has
 * waited longest gets a new ticket; if no thread waits, the next caller gets it. The first ticket
 * can still be ended, but the cache does not keep an object that fulfils it. Such an object exists
 * only as long as its pins do. If a thread runs on without ending its ticket, other threads wait,
 * for at most their wait_ns.
 *
 * @key              retained if the cache needs it after the call
 * @params           read during the call; NULL: all defaults
 * @ret_reservation  [out] the caller must release its pin, or end its ticket
 * @error            may be NULL; receives the failure of the flight that this call waited for
 * Returns KILN_OK; KILN_TIMEOUT; KILN_MISS: only with KILN_RESERVE_NO_TICKET; KILN_E_INVALID;
 * KILN_E_CYCLE; KILN_E_NO_MEMORY; the status of the failed flight that this call waited for, or of
 * a failure that the cache keeps. Threads: any. Blocks: at most wait_ns. */
KILN_API kiln_status kiln_cache_reserve(kiln_cache *cache, const kiln_key *key,
                                        const kiln_reserve_params *params,
                                        kiln_reservation *ret_reservation, kiln_error *error);

/* Waits for a pending answer: HIT, OWNER or BYPASS. OWNER means that the other caller's build ended
 * without an object, so this caller must build. Each thread that waits gets a separate answer, as
 * if it had reserved the key. This call detects cycles of waits.
 *
 * @wait_ns          as in kiln_reserve_params; KILN_NO_WAIT: do not wait
 * @ret_reservation  [out] the caller must release its pin, or end its ticket
 * @error            may be NULL; receives the failure of the build
 * Returns what kiln_cache_reserve returns; after KILN_TIMEOUT and KILN_E_CYCLE the answer is still
 * pending. Threads: any. Blocks: at most @wait_ns. */
KILN_API kiln_status kiln_pending_wait(kiln_pending *pending, uint64_t wait_ns,
                                       kiln_reservation *ret_reservation, kiln_error *error);

/* Called when a pending answer is known, or when the caller must ask for it again with
 * kiln_pending_wait. */
typedef void (*kiln_pending_fn)(void *user);

/* Registers a function that is called once. If the answer is already known, it is called
 * immediately. Otherwise it is called when the answer becomes known, on a thread that ends a build
 * and outside all locks; or when the answer is dropped before that. The function must neither throw
 * nor end its thread.
 *
 * @user  passed to @notify; may be NULL
 * Returns KILN_OK; KILN_E_INVALID: also if a function is already registered; KILN_E_NO_MEMORY.
 * Threads: any. Blocks: never. */
KILN_API kiln_status kiln_pending_notify(kiln_pending *pending, kiln_pending_fn notify, void *user);

/* Drops a pending answer and sets the pointer to NULL. The build continues. NULL and a pointer to
 * NULL are allowed. No other thread may be using the answer. Blocks: never. */
KILN_API void kiln_pending_drop(kiln_pending **pending);

/* Ends a ticket with the object that was built, and gives the waiters their pins. The cache then
 * owns the object, except after KILN_E_INVALID, which changes nothing. If there is no room for the
 * object, or if its flight was removed meanwhile, the object is not kept in the cache, and exists
 * only as long as its pins do.
 *
 * @ticket   set to NULL; may have been issued to a different thread
 * @object   the object that was built
 * @bytes    its actual size, which replaces the reserved one
 * @cost_ns  the cost of a miss; 0: the time since the reservation
 * @ret_pin  [out] to be released with kiln_pin_release; NULL: the caller needs no pin
 * Returns KILN_OK; KILN_E_INVALID: no ticket or no object. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_ticket_fulfil(kiln_ticket **ticket, void *object, uint64_t bytes,
                                        uint64_t cost_ns, kiln_pin **ret_pin);

/* Transfers a ticket to the calling thread, for a build that a different thread began.
 *
 * @ticket  must not have ended, and no other thread may be ending it
 * Returns KILN_OK; KILN_E_INVALID: NULL; KILN_E_NO_MEMORY: the ticket still belongs to its previous
 * thread. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_ticket_take(kiln_ticket *ticket);

/* How a ticket ends without an object. */
typedef enum kiln_abandonment {
    KILN_ABANDON_FAILED = 1, /* every waiter gets the status and the text */
    /* The failure is transient, or concerns the owner alone. The thread that has waited longest
     * becomes the owner of the same flight. It takes over the room that the flight reserved. The
     * object gets the group for which this thread asked. The other threads continue to wait. A
     * status other than KILN_OK is a transient failure. If a flight has a second transient failure,
     * all waiters get it, and the cache does not keep it. */
    KILN_ABANDON_TRANSIENT = 2,
    /* The object was built, but only its owner may use it: waiters get KILN_BYPASS. */
    KILN_ABANDON_UNSHAREABLE = 3
} kiln_abandonment;

/* Ends a ticket without an object.
 *
 * @ticket  set to NULL; NULL and a pointer to NULL are allowed
 * @how     a kiln_abandonment; any other value counts as KILN_ABANDON_FAILED
 * @status  with KILN_ABANDON_FAILED: the error that waiters get (KILN_E_INVALID instead of
 *          KILN_OK); with KILN_ABANDON_TRANSIENT: the failure, or KILN_OK if the reason concerns
 *          the owner alone; otherwise ignored
 * @text    the message that waiters get, copied, and truncated to the size of kiln_error's text;
 *          NULL: the text of the status
 * Threads: any. Blocks: never. */
KILN_API void kiln_ticket_abandon(kiln_ticket **ticket, kiln_abandonment how, kiln_status status,
                                  const char *text);

/* ---- look up ---- */

/* A read section. An object that is peeked at inside a section stays valid until the section is
 * left, even if it is evicted, removed or cleared meanwhile.
 *
 * Sections should be short. A section belongs to one thread, which must leave it. When a thread
 * ends, Kiln leaves the first eight of its open sections. Sections nest. If a process had several
 * threads before its first cache, one of its first million sections or pins takes about 10 ms. It
 * waits while the system makes all later sections and pins cheaper. */
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

/* Leaves a section. Must be called on the thread that entered it. Destroys nothing. */
KILN_API void kiln_section_leave(kiln_section *section);

/* Returns the object of a key, or NULL if the key is not ready. The object stays valid until the
 * section is left. The call takes no hold. It counts as a use, but the statistics do not include
 * it. Threads: only the one that entered the section. Blocks: never. */
KILN_API void *kiln_cache_peek(const kiln_section *section, const kiln_key *key);

/* Does the same as kiln_cache_peek for several keys. The processor fetches the memory of several
 * keys at the same time. This is faster only if the keys or the objects are not in the processor's
 * caches.
 *
 * @keys         may contain NULL, which counts as a key that is not ready
 * @ret_objects  [out] @count objects, in the order of the keys; NULL for each key that is not ready
 * Returns how many objects were found. Threads: only the one that entered the section. Blocks:
 * never. */
KILN_API size_t kiln_cache_peek_many(const kiln_section *section, const kiln_key *const *keys,
                                     size_t count, void **ret_objects);

/* Takes a pin on the object of a key that is ready. Never waits for a build.
 *
 * @ret_pin  [out] to be released with kiln_pin_release
 * Returns KILN_OK; KILN_MISS: the key is not ready; KILN_E_INVALID. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_cache_pin(kiln_cache *cache, const kiln_key *key, kiln_pin **ret_pin);

/* Does the same as kiln_cache_pin for several keys. It is faster in the same cases as
 * kiln_cache_peek_many.
 *
 * @keys      may contain NULL, which counts as a key that is not ready
 * @ret_pins  [out] @count pins, in the order of the keys; NULL for each key that is not ready. Each
 *            pin must be released with kiln_pin_release
 * Returns KILN_OK: all were found; KILN_MISS: at least one key is not ready, and there are pins for
 * all others; KILN_E_INVALID: nothing was written. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_cache_pin_many(kiln_cache *cache, const kiln_key *const *keys,
                                         size_t count, kiln_pin **ret_pins);

/* Returns the object that a pin holds; NULL for NULL. The object is valid as long as the pin is. */
KILN_API void *kiln_pin_object(const kiln_pin *pin);

/* Adds a hold on the same object and returns its argument. NULL is allowed. */
KILN_API kiln_pin *kiln_pin_retain(kiln_pin *pin);

/* Releases a pin and sets the pointer to NULL. NULL and a pointer to NULL are allowed. If this was
 * the last pin of an object that was removed from the cache, the call destroys the object. It does
 * not do so if a section was open when the object was removed, if a section is open now, or if the
 * cache has KILN_CACHE_DEFER_DESTRUCTION. In these cases a later call destroys the object, as the
 * top of this header describes. */
KILN_API void kiln_pin_release(kiln_pin **pin);

/* Creates a watch on a pinned object. The watch may outlive the pin, the object and the cache. If
 * the object is no longer in the cache, or never was, the watch is never live.
 *
 * @ret_watch  [out] to be freed with kiln_watch_free
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_NO_MEMORY. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_pin_watch(kiln_pin *pin, kiln_watch **ret_watch);

/* Returns 1 while the object is in the cache, and 0 after its eviction or removal; 0 for NULL.
 * Costs one atomic load (acquire). The answer does not keep the object alive, so a caller that then
 * uses the object must hold a pin. Threads: any. Blocks: never. */
KILN_API int kiln_watch_is_live(const kiln_watch *watch);

/* Frees a watch and sets the pointer to NULL. NULL and a pointer to NULL are allowed. */
KILN_API void kiln_watch_free(kiln_watch **watch);

/* ---- control ---- */

/* Sets the cost of future misses of this key, in nanoseconds. For example, once a store has the
 * entry, a miss costs only the time to reload it. The call does not count as a use. Returns
 * KILN_OK; KILN_MISS: the key is not ready; KILN_E_INVALID. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_cache_set_cost(kiln_cache *cache, const kiln_key *key, uint64_t cost_ns);

/* Changes the capacity. A larger capacity evicts nothing; a smaller one evicts objects by the
 * policy. If either limit is 0, the call clears the cache and disables it until a capacity is set.
 * (In kiln_cache_params, 0 means the default instead.) Flights continue. When a ticket is
 * fulfilled, the cache checks whether the object fits.
 *
 * @max_bytes    maximum size of the resident objects, in bytes; or KILN_UNLIMITED
 * @max_entries  maximum number of resident objects; or KILN_UNLIMITED
 * Returns KILN_OK; KILN_E_INVALID. Threads: any. Blocks: never.
 */
KILN_API kiln_status kiln_cache_set_capacity(kiln_cache *cache, uint64_t max_bytes,
                                             uint64_t max_entries);

/* Does the same as kiln_cache_set_capacity, and also removes everything in the cache, as the
 * setters of the constant tensor cache do. */
KILN_API kiln_status kiln_cache_set_capacity_flush(kiln_cache *cache, uint64_t max_bytes,
                                                   uint64_t max_entries);

/* Changes the policy; evicts nothing.
 *
 * @policy  a kiln_policy
 * Returns KILN_OK; KILN_E_INVALID. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_cache_set_policy(kiln_cache *cache, uint32_t policy);

/* Evicts unpinned objects until @bytes bytes were freed or no unpinned object is left. Under any
 * policy, the objects that are cheapest to rebuild are evicted first: only their cost counts. Ties
 * are broken as described at the top of this header. If almost all objects are pinned, the order is
 * undefined. Kept failures are removed too, but do not count as freed. This call is meant for a
 * device that is out of memory.
 *
 * @ret_freed  [out] in bytes; may be NULL
 * Returns KILN_OK; KILN_E_INVALID. Threads: any. Blocks: never.
 */
KILN_API kiln_status kiln_cache_evict_bytes(kiln_cache *cache, uint64_t bytes, uint64_t *ret_freed);

/* Removes a key that is ready or failed. A key that is building is not affected. Returns KILN_OK;
 * KILN_MISS: the key is absent or building; KILN_E_INVALID. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_cache_remove(kiln_cache *cache, const kiln_key *key);

/* Removes all ready keys of a group and returns how many there were. Kept failures of the group are
 * removed too. The waiters of the group's flights get KILN_BYPASS, and the objects of these flights
 * are not kept. All keys of the group are absent afterwards, so the next caller builds again, even
 * while the owner of such a flight is still building. Group 0 has no members. Threads: any. Blocks:
 * never. */
KILN_API size_t kiln_cache_remove_group(kiln_cache *cache, uint64_t group);

/* Removes everything, including kept failures. Flights continue for their owners and waiters, but
 * their objects are not kept. All keys are absent afterwards: the next caller builds again.
 * Threads: any. Blocks: never. */
KILN_API void kiln_cache_clear(kiln_cache *cache);

/* Destroys all objects that were removed from the cache and that nothing can reach any more.
 * Objects that a pin or a section still holds are not destroyed. Call this when the program has
 * time: after other threads have left their sections, or, with KILN_CACHE_DEFER_DESTRUCTION,
 * regularly. Returns how many objects were destroyed. Threads: any. Blocks: never. */
KILN_API size_t kiln_cache_collect(kiln_cache *cache);

/* ---- list ---- */

/* An object in a cache. */
typedef struct kiln_resident {
    size_t struct_size;
    const kiln_key *key; /* the key and the object are valid during the call */
    const void *object;
    uint64_t bytes, cost_ns, group;
    int32_t is_used; /* 1 if a pin holds the object, or if the cache's is_busy reports it; otherwise
                        0 */
    uint32_t reserved;
} kiln_resident;

/* Receives one object. Called outside all locks; may use the cache. It must neither throw nor end
 * its thread. Returns 0 to end the listing. */
typedef int (*kiln_visit_fn)(void *user, const kiln_resident *resident);

/* Lists the objects in a cache, in no particular order. An object that is in the cache during the
 * whole call is listed. It can be listed twice if other objects are removed meanwhile. Objects that
 * are inserted or removed meanwhile might be listed or not. Does not count as a use.
 *
 * @user  passed to @visit; may be NULL
 * Returns KILN_OK; KILN_E_INVALID. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_cache_visit(kiln_cache *cache, kiln_visit_fn visit, void *user);

/* ---- listen ---- */

enum {
    KILN_EVENT_INSERTED = 1u,
    KILN_EVENT_HIT = 2u, /* sampled: reported for an object's first use, and then for one of every
                            64 uses by a thread (this number can change) */
    KILN_EVENT_EVICTED = 4u,
    KILN_EVENT_CLEARED = 8u /* once for each clear or flush, after the evictions */
};

/* Why an object was removed from the cache. */
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

/* Called outside all locks, on the thread that caused the event, before that thread's call returns.
 * The listener may call the cache. If the object was evicted, its watches are no longer live. If
 * events happen on several threads, their notices can arrive in a different order. */
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
 * not be called again. A call from inside a listener of this cache does not wait, because two
 * listeners could otherwise wait for each other forever. In this case, the removed listener is not
 * called again, but it might still be running. An unknown id is ignored. Threads: any. Blocks:
 * while the listener runs on another thread. */
KILN_API void kiln_cache_unlisten(kiln_cache *cache, uint64_t id);

/* ---- count ---- */

/* Counters of a cache. Each answer of reserve, pin and get_or_build counts as a hit (an object), a
 * miss (a ticket, or KILN_MISS) or a bypass. A request that waits for a flight also counts as a
 * wait. It is counted when it begins to wait, even if it gets no object. */
typedef struct kiln_cache_stats {
    size_t struct_size; /* set by the caller */
    uint64_t hits, misses, waits, bypasses;
    uint64_t failures;       /* abandoned tickets, except those abandoned as unshareable */
    uint64_t evictions;      /* to make room, and by kiln_cache_evict_bytes */
    uint64_t entries, bytes; /* resident objects */
    uint64_t reserved_bytes; /* for flights whose size is known */
    uint64_t lingering_entries,
        lingering_bytes; /* objects that are alive but not in the cache, because they were removed
                            or never were in it. They are pinned, reachable in a section, or not
                            destroyed yet */
    uint64_t max_bytes, max_entries;
    uint32_t policy; /* the policy in effect; with KILN_POLICY_AUTO, the policy that was chosen */
    uint32_t reserved;
    uint64_t retained_failures,
        retained_failure_bytes; /* failures kept by KILN_CACHE_RETAIN_FAILURES, and the bytes of
                                   their keys and texts */
} kiln_cache_stats;

/* Fills the fields of @ret_stats that its struct_size covers. Returns KILN_OK; KILN_E_INVALID.
 * Threads: any. Blocks: never. */
KILN_API kiln_status kiln_cache_get_stats(kiln_cache *cache, kiln_cache_stats *ret_stats);

#ifdef __cplusplus
}
#endif

#endif
