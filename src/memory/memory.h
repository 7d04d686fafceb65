/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the cache engine share.
 *
 * Reading takes no lock: section.c looks at objects and object.c holds them, both inside sections
 * that reader.c shows to the threads that reclaim. Every change to what is in a cache is made under
 * its lock, which guards every field below whose comment does not say otherwise.
 *
 * cache.c has a cache's life, capacity and counters; table.c finds keys; flight.c has single
 * flight, and wait.c the threads that wait for a flight; watch.c has the weak handles; policy.c
 * ranks objects, and victim.c finds those to evict first; admission.c admits objects; removal.c
 * removes them, and group.c finds those of a group; failure.c keeps failures; listener.c notifies
 * listeners; followup.c does what a call still has to do once it has given up the lock, and
 * departure.c lets a thread wait for that; process.c handles forks.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/cache.h>

#include "memory/counter.h"
#include "memory/group.h"
#include "memory/resident.h"
#include "memory/table.h"

typedef struct kiln_pin kilni_object;
typedef struct kiln_ticket kilni_flight;
typedef struct kilni_listener kilni_listener;
typedef struct kilni_waiter kilni_waiter;
typedef struct kilni_departure kilni_departure;

/* First in, first out. Linked by kilni_object.link. */
typedef struct kilni_queue {
    kilni_object *first, *last;
} kilni_queue;

/* An object's place in the order in which objects leave the cache: the lowest leaves first. */
typedef struct kilni_rank {
    uint64_t worth;    /* the highest bit says that it is pinned */
    uint64_t use;      /* kilni_object.use: the clock of the last use, above the frequency */
    uint64_t inserted; /* unique */
} kilni_rank;

/* Objects that rank low: victim.h. */
enum { KILNI_CANDIDATES = 32 };
typedef struct kilni_candidates {
    kilni_object *objects[KILNI_CANDIDATES];
    kilni_rank ranks[KILNI_CANDIDATES]; /* when they were last compared */
    size_t count;
    size_t highest; /* the one of the highest rank, once there are KILNI_CANDIDATES */
} kilni_candidates;

/* A call holds the lock for at most this many steps, each of which evicts or examines an object. */
enum { KILNI_STEPS = 256 };

/* An epoch has this many bits. No cache has that many epochs. */
enum { KILNI_EPOCH_BITS = 40 };

struct kiln_cache {
    /* What peek and pin read, and no hit writes: one cache line of the processor. */

    _Alignas(64)
        kilni_table ready; /* objects in the cache; found without the lock, changed with it */
    /* The current epoch of retirements; the bits above KILNI_EPOCH_BITS identify the cache. Stored
     * with release under the lock. A section that loads an epoch, with acquire, can't find what was
     * retired before that epoch. */
    _Atomic uint64_t epoch;
    /* Sections of epochs below this one keep something from being reclaimed; 0: nothing waits.
     * Stored under the lock before a heavy fence, loaded after a light one: section.c has the rule.
     */
    _Atomic uint64_t awaited;
    /* The use (policy.h) of an object for which one more use changes nothing and is not reported:
     * as recent and as frequent as can be. If some listener wants to be notified of hits, no object
     * has this value. Stored under the lock. Loaded relaxed: noting a use as one tick too early
     * does no harm, and a use that coincides with the arrival of a listener may go unreported. */
    _Atomic uint64_t settled_use;

    _Alignas(64) pthread_mutex_t lock;
    _Atomic unsigned lock_waiters; /* not guarded: threads that wait in kilni_cache_lock */

    /* Not guarded: one for the user's handle and one for each object. The thread that brings it to
     * 0 (acquire, after the others' release) frees the cache. */
    _Atomic size_t references;

    /* Set once. */
    kiln_destroy_fn destroy;
    void *user;
    bool retains_failures;

    bool disabled;
    uint64_t max_bytes, max_entries;

    kilni_residents residents; /* the objects in the cache */
    kilni_groups groups;       /* the same by group */
    kilni_candidates candidates;

    kilni_table pending;                           /* attached flights and kept failures */
    kilni_flight *oldest_failure, *newest_failure; /* of the kept ones */
    uint64_t retained_failures, retained_failure_bytes;
    kilni_waiter *waiters; /* threads that wait for a flight, in the order in which they came */

    /* Objects that only a section can reach, and cells that were replaced, oldest first. */
    kilni_queue retired;
    kilni_queue retired_unseen; /* objects that no section could ever reach */
    kilni_cells *retired_cells;
    uint64_t last_retirement; /* its epoch */
    bool reclaims_nothing;    /* the last attempt to reclaim failed: the system refused its fence */
    /* Sections that have no place in a reader, and the epoch in which the first of them began. */
    size_t unlisted_sections;
    uint64_t unlisted_since;

    kiln_policy policy;    /* never KILN_POLICY_AUTO */
    double inflation;      /* GreedyDual's L: the highest rank of a victim so far */
    uint64_t random_state; /* for choosing samples */

    kilni_listener *listeners; /* by ascending id */
    uint64_t last_listener;
    pthread_cond_t listener_gone; /* a listener left the list */

    kilni_departure *departures; /* newest first */
    uint64_t last_departure;
    pthread_cond_t departed; /* a departure left the list, or nothing is reclaimed any longer */

    uint64_t waits, bypasses, failures, evictions;
    uint64_t entries, bytes;                     /* of objects in the cache */
    uint64_t flights, reserved_bytes;            /* of attached flights */
    uint64_t lingering_entries, lingering_bytes; /* of objects that exist, but not in the cache */

    kilni_counters counters; /* not guarded: counter.h */

    kiln_cache *next, *previous; /* guarded by the lock in process.c */
};

/* An object that was handed to the cache, or the place that a flight has ready for one. A pin is a
 * pointer to it and one of its counted holds. */
struct kiln_pin {
    kilni_slot slot; /* key: NULL if the object was built for one caller alone */
    void *object;    /* set once, before the object can be reached */
    /* The time of the last use, above a saturating count of uses: policy.h. Each use that changes
     * it stores it, with no order among these stores: one that is lost does no harm. */
    _Atomic uint64_t use;
    /* One for being in the cache, one for each pin, and one for each notification under way. The
     * thread that brings it to 0 (acquire, after the others' release) retires the object. It never
     * grows from 0. */
    _Atomic size_t holds;
    kiln_cache *cache; /* set once; holds a reference */
    /* Set before the object can be reached; grows under the lock. Read without the lock only to
     * notify listeners, to which the old number and the new one are equally good: relaxed. */
    _Atomic uint64_t bytes;
    uint64_t cost_ns;  /* set before the object can be reached; changed under the lock */
    kiln_watch *watch; /* NULL until the first watch is asked for */
    union {
        /* While it is in the cache. */
        struct {
            uint64_t inserted; /* the clock */
            uint64_t seen_use; /* the clock of the use that @inflation belongs to */
            double inflation;  /* the cache's at that use */
            size_t position;   /* in cache->residents */
        };
        /* While it is not. */
        struct {
            kilni_object *link;  /* in the one queue that it is on, if any */
            uint64_t retired_at; /* the epoch in which it went to cache->retired */
        };
    };
};

/* The owner of a flight whose thread has ended: the next thread that asks takes its place. */
#define KILNI_NOBODY ((uint64_t)0)

/* A key that is being built, or whose failure is kept. The public name of a flight is ticket. */
struct kiln_ticket {
    kilni_slot slot;
    kiln_cache *cache;
    kilni_object *object;    /* made beforehand, so that fulfilling needs no memory */
    bool attached;           /* in cache->pending: its result may be kept */
    uint64_t owner;          /* a thread, by kilni_thread_number; or KILNI_NOBODY */
    uint64_t reserved_bytes; /* counted in the cache's while attached */
    uint64_t started_ns;
    kiln_status failure;         /* with KILNI_SLOT_FAILED, like the fields below */
    kilni_flight *older, *newer; /* of the failures that are kept: failure.h */
    char text[sizeof((kiln_error *)NULL)->text];
};

/* Takes the cache's lock. */
void kilni_cache_lock(kiln_cache *cache);

/* For a call that holds the lock for many steps. After every KILNI_STEPS of them, lets the threads
 * that wait for the lock have it, if any, and takes it again. */
void kilni_cache_step_locked(kiln_cache *cache, size_t *step);

/* Adds a reference. Returns its argument. */
kiln_cache *kilni_cache_retain(kiln_cache *cache);

/* Releases a reference. The last one frees the cache. No lock held. */
void kilni_cache_release(kiln_cache *cache);

/* Whether every reservation is a BYPASS, since the cache is off. */
bool kilni_cache_is_off(kiln_cache *cache);

/* Whether an object is in the cache. */
static inline bool kilni_object_is_resident(const kilni_object *object)
{
    return object->slot.state == KILNI_SLOT_READY;
}

/* Returns the object of a key that is ready, or NULL. Without the lock, it is valid until the
 * section is left. */
static inline kilni_object *kilni_cache_find(const kiln_cache *cache, const kiln_key *key)
{
    return (kilni_object *)kilni_table_find(&cache->ready, key);
}

/* The same, if it is quick. NULL says nothing. */
static inline kilni_object *kilni_cache_find_same(const kiln_cache *cache, const kiln_key *key)
{
    return (kilni_object *)kilni_table_find_same(&cache->ready, key);
}
