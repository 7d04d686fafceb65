/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the cache engine share.
 *
 * Reading takes no lock: pin.c looks at objects, and takes holds on them, inside sections. reader.c
 * makes these sections visible to the threads that reclaim memory. Every change to what is in a
 * cache is made under its lock, which guards every field below whose comment does not say
 * otherwise.
 *
 * docs/internals/memory.md lists the files from the bottom up: no file calls a file that comes
 * later.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/cache.h>

#include "memory/groups.h"
#include "memory/resident.h"
#include "memory/table.h"

typedef struct kiln_pin kilni_object;
typedef struct kiln_ticket kilni_flight;
typedef struct kilni_listener kilni_listener;
typedef struct kilni_waiter kilni_waiter;
typedef struct kilni_departure kilni_departure;

/* A queue of objects, linked by kilni_object.link. */
typedef struct kilni_queue {
    kilni_object *first, *last;
} kilni_queue;

/* An object's place in the order of removal from the cache. The object with the lowest rank is
 * removed first. */
typedef struct kilni_rank {
    uint64_t worth;    /* the highest bit is set if the object is in use */
    uint64_t use;      /* kilni_object.use: the clock of the last use, above the frequency */
    uint64_t inserted; /* unique */
} kilni_rank;

/* How objects are ordered. */
typedef enum kilni_order {
    KILNI_ORDER_POLICY, /* by the cache's policy */
    KILNI_ORDER_COST    /* by the cost of building them again */
} kilni_order;

/* Candidates (victim.h): objects that rank low, in the order of the ranks that they had when they
 * were last examined. */
enum { KILNI_CANDIDATES = 32 };
typedef struct kilni_candidate {
    kilni_object *object;
    kilni_rank rank;
} kilni_candidate;

typedef struct kilni_candidates {
    kilni_candidate list[KILNI_CANDIDATES]; /* the lowest one first */
    size_t count;
    size_t choices; /* choices made since all candidates were ranked */
    /* The order and the policy by which the candidates are ranked. */
    kilni_order order;
    kiln_policy policy;
} kilni_candidates;

/* A call holds the lock for at most this many steps at a time. Each step evicts or examines an
 * object. */
enum { KILNI_STEPS = 256 };

/* The number of an epoch has this many bits, which is more than any cache needs. */
enum { KILNI_EPOCH_BITS = 40 };

/* Counters to which threads add without contention. At any time, up to KILNI_COUNTER_LINES readers
 * each have a line of their own, the same one in each cache, to which no other thread adds. All
 * other threads share one more line. */
enum { KILNI_COUNTER_LINES = 16 };

typedef enum kilni_counter { KILNI_COUNTER_HITS = 0, KILNI_COUNTER_MISSES = 1 } kilni_counter;

typedef struct kilni_counters {
    /* Accessed relaxed: each count is exact, and none is ordered with anything else. */
    struct {
        _Atomic uint64_t counts[8];
    } lines[KILNI_COUNTER_LINES + 1];
} kilni_counters;

struct kiln_cache {
    /* The fields that peek and pin read, and that no hit writes. They are in one cache line of the
     * processor. */

    _Alignas(64)
        kilni_table ready; /* objects in the cache; found without the lock, changed with it */
    /* The current epoch of retirements; the bits above KILNI_EPOCH_BITS identify the cache. Stored
     * with release under the lock. A section that loads an epoch, with acquire, can't find what was
     * retired before that epoch. */
    _Atomic uint64_t epoch;
    /* A thread waits, or waited, for sections of epochs below this one. Stored under the lock
     * before a heavy fence, loaded after a light one: read_section.c explains this. */
    _Atomic uint64_t awaited;
    /* If an object's use (policy.h) has this value, it is as recent and as frequent as it can be:
     * one more use changes nothing and is not reported. If a listener wants to be notified of hits,
     * no object has this value. Stored under the lock. Loaded relaxed: it does no harm to record a
     * use one tick too early, and a use that coincides with the addition of a listener may go
     * unreported. */
    _Atomic uint64_t settled_use;

    _Alignas(64) pthread_mutex_t lock;
    _Atomic unsigned lock_waiters; /* not guarded: threads that wait in kilni_cache_lock */

    /* Not guarded. One for the user's handle, one for each object and one for each pending answer.
     * The thread that decrements it to 0 frees the cache. Decrements acquire and release, so that
     * this thread sees all earlier changes. */
    _Atomic size_t references;

    /* Set once. */
    kiln_destroy_fn destroy;
    kiln_busy_fn is_busy; /* NULL: no object is busy */
    void *user;
    bool retains_failures;

    bool disabled;
    bool defers_destruction; /* only kiln_cache_collect destroys, until the cache is freed */
    uint64_t max_bytes, max_entries;

    kilni_residents residents; /* the objects in the cache */
    kilni_groups groups;       /* the same objects, by group */
    kilni_candidates candidates;

    kilni_table pending;                           /* attached flights and kept failures */
    kilni_flight *oldest_failure, *newest_failure; /* of the kept failures */
    uint64_t retained_failures, retained_failure_bytes;
    kilni_waiter *waiters; /* waiters of all flights, in the order in which they came */

    /* Retired objects, and cells that were replaced, which sections may still see; oldest first. */
    kilni_queue retired;
    kilni_queue retired_unseen; /* retired objects that no section can see */
    kilni_cells *retired_cells;
    uint64_t last_retirement; /* the epoch of the last retirement */
    bool reclaims_nothing;    /* the last attempt to reclaim failed: the system refused its fence */
    /* Sections that have no place in a reader, and the epoch in which the first of them began. */
    size_t unlisted_sections;
    uint64_t unlisted_since;
    uint64_t sections_left; /* how often a thread has left a section that was awaited or had no
                               place */

    kiln_policy policy;    /* never KILN_POLICY_AUTO */
    double inflation;      /* GreedyDual's L: the highest merit (policy.h) of any victim */
    uint64_t random_state; /* for choosing samples */

    kilni_listener *listeners; /* by ascending id */
    uint64_t last_listener;
    pthread_cond_t listener_gone; /* signalled when a listener is removed from the list */

    kilni_departure *departures; /* newest first */
    uint64_t last_departure;
    pthread_cond_t departed; /* signalled when a departure ends, when sections_left changes, or when
                                nothing is reclaimed any longer */

    uint64_t waits, bypasses, failures, evictions;
    uint64_t entries, bytes;                     /* of objects in the cache */
    uint64_t flights, reserved_bytes;            /* of attached flights */
    uint64_t lingering_entries, lingering_bytes; /* of objects that exist outside the cache */

    kilni_counters counters; /* not guarded */

    kiln_cache *next, *previous; /* guarded by the lock of the list, in lifetime.c */
};

/* Values that are added to kiln_pin.holds. The number of pins in that sum can be negative
 * (pin_tally.h), which makes the sum smaller, but never by as much as half of such a value. */

/* The object is in the cache, or its eviction is being reported. */
#define KILNI_HOLD_RESIDENT ((int64_t)1 << 40)
/* The object was removed from the cache and is no longer shared, but threads may still have counts
 * of its pins. */
#define KILNI_HOLD_SETTLING ((int64_t)1 << 42)
/* The object is shared: threads may count pins on it in their tallies (pin_tally.h). Only a
 * resident object is shared. */
#define KILNI_HOLD_SHARED ((int64_t)1 << 44)

/* An object that was handed to the cache, or the place that a flight has ready for one. A pin is a
 * pointer to this structure and one of its counted holds. */
struct kiln_pin {
    kilni_slot slot; /* key: NULL if the object was built for one caller alone */
    void *object;    /* set once, before the object can be reached */
    /* The time of the last use, above a saturating count of uses (policy.h). Each use that changes
     * the value stores it. These stores are not ordered, and a lost one does no harm. */
    _Atomic uint64_t use;
    /* The number of pins that no tally counts, plus the number of notifications under way, plus the
     * KILNI_HOLD values that apply. The thread that decrements it to 0 retires the object, or
     * destroys it if that thread is collecting it. Each decrement that may reach 0 acquires and
     * releases, so that this thread sees all earlier changes. Once the value is 0, it never grows
     * again. */
    _Atomic int64_t holds;
    kiln_cache *cache; /* set once; holds a reference */
    /* Set before the object can be reached; grows under the lock. Read without the lock, relaxed,
     * only to notify listeners. For them, the old number is as good as the new one. */
    _Atomic uint64_t bytes;
    uint64_t cost_ns;  /* set before the object can be reached; changed under the lock */
    kiln_watch *watch; /* NULL until the first watch is asked for */
    union {
        /* While the object is in the cache. The clock does not reach 2^48: at a million ticks per
         * second, that takes nine years. */
        struct {
            uint64_t inserted : 48; /* the clock at the insertion */
            /* The lowest bits of the clock at the use to which @inflation belongs. If a later use
             * has the same bits, the object keeps an outdated inflation, which does no harm. */
            uint64_t seen_use : 16;
            double inflation; /* the cache's inflation at that use */
        };
        /* While the object is not in the cache. */
        struct {
            kilni_object *link;  /* the next object in the queue that this one is in */
            uint64_t retired_at; /* the epoch in which it was added to cache->retired */
        };
    };
};

/* The value of kiln_ticket.owner once the owner's thread has ended. The next thread that asks for
 * the key builds it. */
#define KILNI_NOBODY ((uint64_t)0)

/* A flight: a key that is being built, or whose failure is kept. The public name of a flight is
 * ticket. */
struct kiln_ticket {
    kilni_slot slot;
    kiln_cache *cache;
    kilni_object *object; /* allocated beforehand, so that fulfilling the ticket needs no memory */
    bool attached;        /* it is in cache->pending, and its result may be kept */
    /* The number of a thread (kilni_thread_number), or KILNI_NOBODY. Stored under the lock. A
     * thread that looks for a cycle of waits loads it without this lock, relaxed: the lock of
     * waits, which the owner takes before it waits, orders the store before that load. */
    _Atomic uint64_t owner;
    bool is_retry;           /* the build had a transient failure, and is tried once more */
    uint64_t group;          /* 0: none; also the group of the object */
    uint64_t reserved_bytes; /* counted in the cache's reserved_bytes while attached */
    uint64_t started_ns;
    kiln_status failure;         /* set when the flight fails, like @text */
    kilni_flight *older, *newer; /* links of the failures that are kept (failure.h) */
    char text[sizeof((kiln_error *)NULL)->text];
};

/* Takes the cache's lock. */
static inline void kilni_cache_lock(kiln_cache *cache)
{
    if (pthread_mutex_trylock(&cache->lock) == 0) {
        return;
    }
    atomic_fetch_add_explicit(&cache->lock_waiters, 1, memory_order_relaxed);
    pthread_mutex_lock(&cache->lock);
    atomic_fetch_sub_explicit(&cache->lock_waiters, 1, memory_order_relaxed);
}

/* Whether an object is in the cache. */
static inline bool kilni_object_is_resident(const kilni_object *object)
{
    return object->slot.state == KILNI_SLOT_READY;
}

/* Returns the object of a key if it is in the cache, or NULL. Without the lock, the object is valid
 * until the caller's section is left. */
static inline kilni_object *kilni_cache_find(const kiln_cache *cache, const kiln_key *key)
{
    return (kilni_object *)kilni_table_find(&cache->ready, key);
}

/* As kilni_cache_find, but returns the object only if it can be found quickly. NULL does not mean
 * that there is none. */
static inline kilni_object *kilni_cache_find_same(const kiln_cache *cache, const kiln_key *key)
{
    return (kilni_object *)kilni_table_find_same(&cache->ready, key);
}

static inline bool kilni_holds_are_shared(int64_t holds)
{
    return holds >= KILNI_HOLD_SHARED / 2;
}

/* Whether the object is shared at this moment. */
static inline bool kilni_object_is_shared(const kilni_object *object)
{
    return kilni_holds_are_shared(atomic_load_explicit(&object->holds, memory_order_relaxed));
}
