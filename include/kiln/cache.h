/* SPDX-License-Identifier: Apache-2.0
 *
 * Live objects in this process: each built once, bounded, evicted by policy.
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
 * The simple way is kiln_cache_get_or_build. Those who build asynchronously reserve a key and
 * fulfil the ticket later; those who look things up on a hot path peek inside a section, or keep a
 * watch and ask nothing of the cache while it is live.
 *
 * A key is absent, building, ready or failed. The first to ask for an absent key builds it; the
 * others wait for that one flight.
 *
 * Where NULL stands for something that is needed, calls that have a status return KILN_E_INVALID
 * and change nothing, and the others do nothing and answer NULL or 0.
 *
 * What goes first where room is needed: of the objects without pins, then of the pinned ones, that
 * which the policy names. For COST it is the one of the lowest rank, L + frequency * cost / bytes:
 * frequency counts insertion and uses and saturates at 15; L is the highest rank that went so far,
 * as it stood at the object's last use. Of equals the least recently used goes, of these the least
 * often used, then the oldest. A use is a hit or a peek. Recency is counted in insertions: uses
 * between two of them are equally recent, since a hit writes nothing that others read. Among 8,192
 * objects or more, room is made by the first to go of 64 picked at random. NO_EVICT evicts only
 * where a smaller capacity is set, and then the newest: they would not have been let in. AUTO is
 * COST, as the best on all that was replayed.
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

/* Any thread. Pins and watches may outlive it. It has no lock held while it calls a destroy, build
 * or listener function: these may call it again. A forked child has its own copy of it, in which
 * the flights of its parent's other threads are over, so that who asks next builds, and objects
 * pinned by those threads live on; whether the objects are good for anything there, their maker
 * knows. A thread can't be cancelled in a destroy or listener function; one that ends there by
 * pthread_exit, or throws, leaves what it had yet to tell untold, and what it had yet to destroy to
 * a later call. A thread that calls the cache is not to have asynchronous cancellation. */
typedef struct kiln_cache kiln_cache;

/* A counted hold on an object: it lives until its last pin goes, also after eviction, clear and
 * the cache's end. A pin does not keep the object in the cache. */
typedef struct kiln_pin kiln_pin;

/* A weak handle: tells whether the object is still in the cache, holds nothing, blocks nothing. */
typedef struct kiln_watch kiln_watch;

/* The right and the duty to build one absent key: fulfilled or abandoned, exactly once. */
typedef struct kiln_ticket kiln_ticket;

/* Called once for each object that was handed to the cache, when neither the cache nor a pin nor a
 * section nor a notice under way can reach it any more; outside all locks; on the thread that let
 * go last. An object may be kept for sections that were entered after it left the cache, but no
 * longer than until no section is open. */
typedef void (*kiln_destroy_fn)(void *user, void *object);

enum {
    KILN_CACHE_RETAIN_FAILURES = 1u, /* a failed key answers its failure until it is removed or
                                        gives way to later ones; one that was abandoned as transient
                                        or not shareable is absent, as all are without this flag.
                                        Failures have a sixteenth of max_entries and max_bytes, by
                                        their keys and texts, beside what is resident, and at least
                                        the last one is kept */
    KILN_CACHE_DISABLED = 2u         /* every reservation is a BYPASS, until a capacity is set */
};

/* What a cache may hold, and how its objects end. */
typedef struct kiln_cache_params {
    size_t struct_size;
    uint64_t max_bytes;      /* of what is resident, at most; 0: 256 MiB; KILN_UNLIMITED */
    uint64_t max_entries;    /* 0: 65,536; KILN_UNLIMITED */
    uint32_t policy;         /* kiln_policy */
    uint32_t flags;          /* KILN_CACHE_… */
    kiln_destroy_fn destroy; /* may be NULL: objects need no end */
    void *user;              /* for destroy; borrowed until the last object is gone */
} kiln_cache_params;

/* Makes an empty cache. Starts no thread. Where the process's first one is made before there are
 * other threads, peeks and pins cost less.
 *
 * @params     lives for the call; NULL: all defaults
 * @ret_cache  [out] to be given back with kiln_cache_free
 * Returns KILN_OK; KILN_E_INVALID: unknown policy or flag, or a field that this version does not
 * know and that is not zero; KILN_E_NO_MEMORY. Blocks: never. */
KILN_API kiln_status kiln_cache_new(const kiln_cache_params *params, kiln_cache **ret_cache);

/* Empties and frees a cache and sets the pointer to NULL; takes NULL and a pointer to NULL. No
 * other thread may be in a call on it, nor this one inside a build, listener or destroy function
 * of it; tickets must have been ended and sections left. Objects with pins live on, watches turn,
 * notices fire (the evictions', not KILN_EVENT_CLEARED). */
KILN_API void kiln_cache_free(kiln_cache **cache);

/* ---- build once ---- */

/* What a build yields. */
typedef struct kiln_built {
    void *object;     /* becomes the cache's; may be NULL only where nothing was built */
    uint64_t bytes;   /* what it occupies */
    uint64_t cost_ns; /* of a miss; 0: the time that the build took */
} kiln_built;

/* Builds the object of a key. Runs on the calling thread, outside all locks, and may use the cache
 * for other keys. On failure it returns an error, and may describe it in @error, which is never
 * NULL; what it wrote to @ret_built is then ignored. KILN_E_NO_MEMORY, KILN_E_RESOURCES, KILN_E_IO
 * and KILN_TIMEOUT end the flight as KILN_ABANDON_TRANSIENT does, all others as
 * KILN_ABANDON_FAILED. KILN_OK without an object counts as KILN_E_INVALID. Where its thread is
 * ended inside it, or an exception leaves it, the flight ends as KILN_ABANDON_TRANSIENT does. */
typedef kiln_status (*kiln_build_fn)(void *user, const kiln_key *key, kiln_built *ret_built,
                                     kiln_error *error);

/* Finds an object, or builds it once while later callers wait.
 *
 * @key      retained where needed
 * @build    called at most once
 * @ret_pin  [out] to be given back with kiln_pin_release
 * @error    may be NULL; on failure holds the text of the build that failed, for each waiter
 * Returns KILN_OK; KILN_E_INVALID; what @build returned, to it and to those who waited for it (to
 * it alone where that is transient); KILN_E_CYCLE: the build waits for itself, with an error that
 * names the keys; KILN_E_NO_MEMORY, before anything was built.
 * Where the cache can't take the object (BYPASS) it is built for this caller alone.
 * Threads: any. Blocks: while someone builds. */
KILN_API kiln_status kiln_cache_get_or_build(kiln_cache *cache, const kiln_key *key,
                                             kiln_build_fn build, void *user, kiln_pin **ret_pin,
                                             kiln_error *error);

/* The answers to a reservation, never folded together. */
typedef enum kiln_outcome {
    KILN_HIT = 1,   /* a pin on the object */
    KILN_OWNER = 2, /* a ticket: build it, then fulfil or abandon */
    KILN_BYPASS = 3 /* neither: build for yourself (full, disabled, or found not shareable) */
} kiln_outcome;

/* An answer, with what goes with it. */
typedef struct kiln_reservation {
    kiln_outcome outcome;
    kiln_pin *pin;       /* with KILN_HIT, else NULL */
    kiln_ticket *ticket; /* with KILN_OWNER, else NULL */
} kiln_reservation;

/* In place of a time to wait: none. */
#define KILN_NO_WAIT UINT64_MAX

/* How a key is asked for. */
typedef struct kiln_reserve_params {
    size_t struct_size;
    uint64_t bytes;   /* expected, reserved at once; 0: not known before fulfilment */
    uint64_t wait_ns; /* how long to wait for another's build; 0: as long as it takes; or
                         KILN_NO_WAIT: KILN_TIMEOUT at once */
    uint64_t group;   /* what owns the entry, for kiln_cache_remove_group; 0: nothing */
} kiln_reserve_params;

/* Asks for a key: HIT, OWNER or BYPASS.
 *
 * Under KILN_POLICY_NO_EVICT a ticket is given only where there is room beside all that is resident
 * or reserved (an entry, and the bytes, or one where they are not known); what is reserved then
 * stays free for it. Under the other policies room is made when the object is there, and a ticket
 * is given for any size: waiters share also what is too large to be kept.
 *
 * A ticket belongs to the thread that was given it, or took it last, whoever ends it. Who asks for
 * a key whose ticket is its own, or whose owner waits in this cache, itself or through others, for
 * one of its own, gets KILN_E_CYCLE and an error that names the keys, instead of waiting. Where
 * that thread ends first, who waited longest, or else who asks next, gets a ticket of its own. The
 * first one can still be ended, but what it is fulfilled with then lives for its pins only. A
 * thread that goes on and forgets its ticket keeps others waiting, for wait_ns at most.
 *
 * @params           lives for the call; NULL: all defaults
 * @ret_reservation  [out]
 * @error            may be NULL; holds the failure of the flight that was waited for
 * Returns KILN_OK; KILN_TIMEOUT; KILN_E_INVALID; KILN_E_CYCLE; KILN_E_NO_MEMORY; the status of the
 * flight that was waited for, or that was kept. Threads: any. Blocks: at most wait_ns. */
KILN_API kiln_status kiln_cache_reserve(kiln_cache *cache, const kiln_key *key,
                                        const kiln_reserve_params *params,
                                        kiln_reservation *ret_reservation, kiln_error *error);

/* Ends a ticket with its object; waiters get their pins. The object becomes the cache's in any
 * case, but for KILN_E_INVALID, which changes nothing. Where there is no room for it, and where its
 * flight was removed meanwhile, it lives for its pins only.
 *
 * @ticket   set to NULL
 * @bytes    actual size; settles what was reserved
 * @cost_ns  cost of a miss; 0: the time since the reservation
 * @ret_pin  [out] may be NULL where the owner wants no pin
 * Returns KILN_OK; KILN_E_INVALID: no ticket or no object. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_ticket_fulfil(kiln_ticket **ticket, void *object, uint64_t bytes,
                                        uint64_t cost_ns, kiln_pin **ret_pin);

/* Makes a ticket the calling thread's, for a build that goes on in another thread than the one that
 * asked.
 *
 * @ticket  not ended yet, nor being ended
 * Returns KILN_OK; KILN_E_INVALID: no ticket; KILN_E_NO_MEMORY, which leaves it as it was. Threads:
 * any. Blocks: never. */
KILN_API kiln_status kiln_ticket_take(kiln_ticket *ticket);

/* How a ticket ends without an object. */
typedef enum kiln_abandonment {
    KILN_ABANDON_FAILED = 1,     /* every waiter gets the status and the text */
    KILN_ABANDON_TRANSIENT = 2,  /* the failure is the owner's alone; who waited longest becomes the
                                    owner of the same flight, with what it reserved, for the group
                                    that it asked for itself; the others go on waiting */
    KILN_ABANDON_UNSHAREABLE = 3 /* it was built, for the owner only: waiters get BYPASS */
} kiln_abandonment;

/* Ends a ticket without an object.
 *
 * @ticket  set to NULL; NULL and a pointer to NULL are taken
 * @how     kiln_abandonment; any other value counts as KILN_ABANDON_FAILED
 * @status  with KILN_ABANDON_FAILED: an error, what the waiters get (KILN_E_INVALID for KILN_OK);
 *          else ignored
 * @text    may be NULL: the status's own; copied, as far as it fits kiln_error
 * Threads: any. Blocks: never. */
KILN_API void kiln_ticket_abandon(kiln_ticket **ticket, kiln_abandonment how, kiln_status status,
                                  const char *text);

/* ---- look ---- */

/* A read section: what is peeked at inside it stays valid until it is left, also when it is
 * evicted, removed or cleared meanwhile. Sections are short and belong to one thread, which leaves
 * them when it ends: of more than eight open at once the first eight. They nest. In a process that
 * had threads before its first cache one in a million, or a pin, takes some 10 ms, until the system
 * has made the others cheaper: once. */
typedef struct kiln_section {
    kiln_cache *cache;
    void *slot;
} kiln_section;

/* Begins a section.
 *
 * @ret_section  never NULL: so much is not asked on the way that is to be quick */
KILN_API void kiln_section_enter(kiln_cache *cache, kiln_section *ret_section);

/* Ends it, on the thread that entered it. */
KILN_API void kiln_section_leave(kiln_section *section);

/* The object of a key that is ready, or NULL; waits for no one. Counts as a use, not in the
 * statistics. Takes no hold: valid until the section is left. */
KILN_API void *kiln_cache_peek(const kiln_section *section, const kiln_key *key);

/* Takes a hold on the object of a key that is ready; waits for no one.
 *
 * Returns KILN_OK; KILN_MISS; KILN_E_NO_MEMORY. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_cache_pin(kiln_cache *cache, const kiln_key *key, kiln_pin **ret_pin);

/* The object that a pin holds; valid as long as that. */
KILN_API void *kiln_pin_object(const kiln_pin *pin);

/* One hold more on the same object; returns its argument. NULL is allowed. */
KILN_API kiln_pin *kiln_pin_retain(kiln_pin *pin);

/* Gives a hold back and sets the pointer to NULL; takes NULL and a pointer to NULL. The last one
 * destroys an object that the cache no longer holds. */
KILN_API void kiln_pin_release(kiln_pin **pin);

/* Makes a watch on a pinned object. It may outlive pin, object and cache. Where the object is not
 * in the cache any more, or never was, the watch is not live from the beginning.
 *
 * @ret_watch  [out] to be given back with kiln_watch_free
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_NO_MEMORY. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_pin_watch(kiln_pin *pin, kiln_watch **ret_watch);

/* 1 while the object is in the cache, 0 from its eviction or removal on. One atomic load
 * (acquire). Who needs the object beyond the answer holds a pin. Source: constant tensor cache
 * seed, callback/notification. */
KILN_API int kiln_watch_is_live(const kiln_watch *watch);

/* Ends a watch and sets the pointer to NULL; takes NULL and a pointer to NULL. */
KILN_API void kiln_watch_free(kiln_watch **watch);

/* ---- govern ---- */

/* Sets what a miss of this key costs from now on, in nanoseconds: the reload time once a store
 * holds the entry. No use. Returns KILN_OK; KILN_MISS: not ready; KILN_E_INVALID. */
KILN_API kiln_status kiln_cache_set_cost(kiln_cache *cache, const kiln_key *key, uint64_t cost_ns);

/* Changes capacity. More keeps all, less evicts by policy, zero (of either) clears and disables,
 * until a capacity is set. Unlike in the parameters, 0 means zero here. Flights go on; what their
 * objects may occupy is decided at fulfilment.
 * Returns KILN_OK; KILN_E_INVALID. */
KILN_API kiln_status kiln_cache_set_capacity(kiln_cache *cache, uint64_t max_bytes,
                                             uint64_t max_entries);

/* The same, and removes all that is there, as the constant tensor cache's setters do. */
KILN_API kiln_status kiln_cache_set_capacity_flush(kiln_cache *cache, uint64_t max_bytes,
                                                   uint64_t max_entries);

/* Changes the policy; evicts nothing. Returns KILN_OK; KILN_E_INVALID. */
KILN_API kiln_status kiln_cache_set_policy(kiln_cache *cache, uint32_t policy);

/* Evicts unpinned objects, under any policy, cheapest to rebuild first (by cost alone, then as
 * above), until @bytes were freed or none is left; kept failures too, which don't count. For a
 * device that is out of memory.
 * @ret_freed may be NULL. Returns KILN_OK; KILN_E_INVALID. */
KILN_API kiln_status kiln_cache_evict_bytes(kiln_cache *cache, uint64_t bytes, uint64_t *ret_freed);

/* Removes a key that is ready or failed. A flight goes on as if nothing had been said.
 * Returns KILN_OK; KILN_MISS: absent or building; KILN_E_INVALID. */
KILN_API kiln_status kiln_cache_remove(kiln_cache *cache, const kiln_key *key);

/* Removes all ready keys of a group; returns how many. Flights of the group end as BYPASS for their
 * waiters, and their objects are not kept; kept failures of the group go too. All its keys are
 * absent then: who asks next builds anew, also while the owner of such a flight still builds.
 * Group 0 is no group. */
KILN_API size_t kiln_cache_remove_group(kiln_cache *cache, uint64_t group);

/* Removes everything, kept failures too. Flights go on for those who are in them; their objects are
 * not kept. All keys are absent then: who asks next builds anew. */
KILN_API void kiln_cache_clear(kiln_cache *cache);

/* ---- listen ---- */

enum {
    KILN_EVENT_INSERTED = 1u,
    KILN_EVENT_HIT =
        2u, /* sampled: an object's first use, then one in some (now 64) of a thread's */
    KILN_EVENT_EVICTED = 4u,
    KILN_EVENT_CLEARED = 8u /* once for a clear or flush, after the evictions */
};

/* Why an object left the cache. */
typedef enum kiln_eviction {
    KILN_EVICTED_CAPACITY = 1, /* by policy, to make room */
    KILN_EVICTED_REMOVED = 2,  /* by remove, or with its group */
    KILN_EVICTED_CLEARED = 3,  /* by clear, flush or the cache's end */
    KILN_EVICTED_RESOURCES = 4 /* by kiln_cache_evict_bytes */
} kiln_eviction;

/* What a listener is told. */
typedef struct kiln_event {
    size_t struct_size;
    uint32_t kind;       /* KILN_EVENT_… */
    uint32_t reason;     /* kiln_eviction, with KILN_EVENT_EVICTED */
    const kiln_key *key; /* NULL with KILN_EVENT_CLEARED */
    const void *object;  /* valid during the call */
    uint64_t bytes;
} kiln_event;

/* Called outside all locks, on the thread that did what it tells of, before that call returns; may
 * call the cache. The watches of an evicted object have turned by then. Notices that come from
 * different threads may overtake each other. */
typedef void (*kiln_listener_fn)(void *user, const kiln_event *event);

/* A listener is told of what happens after it was added.
 *
 * @events  KILN_EVENT_… or-ed, at least one
 * @ret_id  [out] for kiln_cache_unlisten
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_NO_MEMORY. */
KILN_API kiln_status kiln_cache_listen(kiln_cache *cache, uint32_t events,
                                       kiln_listener_fn listener, void *user, uint64_t *ret_id);

/* When it returns, the listener is not running on another thread and will not be called again. From
 * inside a listener of this cache it does not wait, since two that waited for each other would
 * never return: no new call is made, but one that is under way may still run. An unknown id is
 * ignored. */
KILN_API void kiln_cache_unlisten(kiln_cache *cache, uint64_t id);

/* ---- count ---- */

/* Each answer of reserve, pin and get_or_build counts as a hit (an object), a miss (a ticket, or
 * KILN_MISS) or a bypass; one that waits for a flight counts among the waits besides, from the
 * moment when it begins to, also where it gets no object. */
typedef struct kiln_cache_stats {
    size_t struct_size; /* set by the caller */
    uint64_t hits, misses, waits, bypasses;
    uint64_t failures;       /* flights that were abandoned, but as unshareable */
    uint64_t evictions;      /* to make room, and by kiln_cache_evict_bytes */
    uint64_t entries, bytes; /* resident */
    uint64_t reserved_bytes; /* of flights whose size is known */
    uint64_t lingering_entries, lingering_bytes; /* not destroyed, but no longer, or never, in the
                                                    cache: pinned, or seen in a section */
    uint64_t max_bytes, max_entries;
    uint32_t policy; /* with KILN_POLICY_AUTO: what was chosen */
    uint32_t reserved;
    uint64_t retained_failures, retained_failure_bytes; /* KILN_CACHE_RETAIN_FAILURES: of those that
                                                           are kept, with their keys and texts */
} kiln_cache_stats;

/* Fills as much as struct_size says. Returns KILN_OK; KILN_E_INVALID. */
KILN_API kiln_status kiln_cache_get_stats(kiln_cache *cache, kiln_cache_stats *ret_stats);

#ifdef __cplusplus
}
#endif

#endif
