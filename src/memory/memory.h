/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations that the files of the cache engine share.
 *
 * Reading takes no lock: pin.c looks at objects, and takes holds on them, inside sections. reader.c
 * makes these sections visible to the threads that reclaim memory. A thread that changes what is in
 * a cache holds the cache's lock. This lock also guards every field below, unless the field's
 * comment says otherwise.
 *
 * docs/internals/memory.md lists these files from the bottom up: a file calls only files that are
 * listed before it.
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

/* The ways in which objects can be ranked. */
typedef enum kilni_order {
    KILNI_ORDER_POLICY, /* by the cache's policy */
    KILNI_ORDER_COST    /* by the cost of building them again */
} kilni_order;

/* Candidates (victim.h) are objects that rank low. They are kept in the order of the ranks that
 * they had when they were last examined. */
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

/* An epoch's number has this many bits. No cache needs more. */
enum { KILNI_EPOCH_BITS = 40 };

/* Counters to which threads add without contention. At any time, up to KILNI_COUNTER_LINES threads
 * with readers own one line each. Only its owner adds to such a line. A thread owns the same line
 * in all caches. All other threads share one more line. */
enum { KILNI_COUNTER_LINES = 16 };

typedef enum kilni_counter { KILNI_COUNTER_HITS = 0, KILNI_COUNTER_MISSES = 1 } kilni_counter;

typedef struct kilni_counters {
    /* Accessed with relaxed order: each count is exact, but no other access is ordered by it. */
    struct {
        _Atomic uint64_t counts[8];
    } lines[KILNI_COUNTER_LINES + 1];
} kilni_counters;

struct kiln_cache {
    /* Peeks and pins read these fields, and no hit writes them. They are all in one cache line of
     * the processor. */

    _Alignas(64)
        kilni_table ready; /* objects in the cache; found without the lock, changed with it */
    /* The current epoch of retirements. The bits above KILNI_EPOCH_BITS identify the cache. Stored
     * with release under the lock, and loaded with acquire. A section that has loaded an epoch
     * can't find anything that was retired before that epoch. */
    _Atomic uint64_t epoch;
    /* If this is not 0, a thread waits, or has waited, until all sections of epochs below this
     * value are left. Stored under the lock before a heavy fence, and loaded after a light fence
     * (see read_section.c). */
    _Atomic uint64_t awaited;
    /* If an object's use (policy.h) has this value, no use can be more recent or more frequent. One
     * more use of the object changes nothing, and is not reported. If a listener wants to be
     * notified of hits, no object's use has this value. Stored under the lock. Loaded relaxed,
     * because it does no harm to record a use one tick too early. A use that coincides with the
     * addition of a listener might not be reported. */
    _Atomic uint64_t settled_use;

    _Alignas(64) pthread_mutex_t lock;
    _Atomic unsigned lock_waiters; /* not guarded: threads that wait in kilni_cache_lock */

    /* Not guarded. Counts one reference for the user's handle, one for each object and one for each
     * pending answer. The thread that decrements this count to 0 frees the cache. Each decrement
     * acquires and releases, so that this thread sees all earlier changes. */
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

    /* Retired objects, and replaced cells, that sections might still see. The oldest are first. */
    kilni_queue retired;
    kilni_queue retired_unseen; /* retired objects that no section can see */
    kilni_cells *retired_cells;
    uint64_t last_retirement; /* the epoch of the last retirement */
    /* A thread collects, and collects again if another thread sets collects_again. */
    bool collects_for_others;
    bool collects_again;
    bool reclaims_nothing; /* the last attempt to reclaim failed: the system refused its fence */
    /* The number of open sections that have no place in a reader, and the epoch in which the first
     * of these sections began. */
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
 * (pin_tally.h). It then makes the sum smaller, but always by less than half of any of these
 * values. */

/* The object is in the cache, or its eviction is being reported. */
#define KILNI_HOLD_RESIDENT ((int64_t)1 << 40)
/* The object was removed from the cache and is no longer shared, but tallies of threads might still
 * count pins on it. */
#define KILNI_HOLD_SETTLING ((int64_t)1 << 42)
/* The object is shared: threads are allowed to count pins on it in their tallies (pin_tally.h).
 * Only a resident object is shared. */
#define KILNI_HOLD_SHARED ((int64_t)1 << 44)

/* An object that was handed to the cache, or a place that a flight keeps ready for its object. A
 * pin is a pointer to this structure that owns one hold on the object. */
struct kiln_pin {
    kilni_slot slot; /* key: NULL if the object was built for one caller alone */
    void *object;    /* set once, before the object can be reached */
    /* The high bits are the time of the last use. The low bits are a saturating count of uses
     * (policy.h). Each use that changes the value stores it. These stores are not ordered, and it
     * does no harm if one is lost. */
    _Atomic uint64_t use;
    /* The number of pins that no tally counts, plus the number of notifications under way, plus the
     * KILNI_HOLD values that apply. The thread that decrements this value to 0 retires the object.
     * If that thread is collecting the object, it destroys the object instead. Each decrement that
     * can reach 0 acquires and releases, so that this thread sees all earlier changes. Once the
     * value is 0, it never grows again. */
    _Atomic int64_t holds;
    kiln_cache *cache; /* set once; holds a reference */
    /* Set before other threads can reach the object. Grows under the lock. Only threads that notify
     * listeners load it without the lock (relaxed). For listeners, the old size is as good as the
     * new size. */
    _Atomic uint64_t bytes;
    uint64_t cost_ns;  /* set before the object can be reached; changed under the lock */
    kiln_watch *watch; /* NULL until the first watch is asked for */
    union {
        /* Used while the object is in the cache. The clock does not reach 2^48, which would take
         * nine years at a million ticks per second. */
        struct {
            uint64_t inserted : 48; /* the clock at the insertion */
            /* The lowest bits of the clock at the use for which @inflation was recorded. If a later
             * use has the same bits, the object keeps an outdated inflation, which does no harm. */
            uint64_t seen_use : 16;
            double inflation; /* the cache's inflation at that use */
        };
        /* Used while the object is not in the cache. */
        struct {
            kilni_object *link;  /* the next object in the queue that this one is in */
            uint64_t retired_at; /* the epoch in which it was added to cache->retired */
        };
    };
};

/* The value of kiln_ticket.owner after the owner's thread has ended. The next thread that asks for
 * the key then builds it. */
#define KILNI_NOBODY ((uint64_t)0)

/* A flight is a key that is being built or whose failure is kept. The public name of a flight is
 * ticket. */
struct kiln_ticket {
    kilni_slot slot;
    kiln_cache *cache;
    kilni_object *object; /* allocated beforehand, so that fulfilling the ticket needs no memory */
    bool attached;        /* it is in cache->pending, and its result can be kept */
    /* The number of a thread (kilni_thread_number), or KILNI_NOBODY. Stored under the cache's lock.
     * A thread that looks for a cycle of waits loads it relaxed, without the cache's lock. The
     * owner takes the lock of waits before it waits, and this orders the store before that load. */
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

/* Returns true if an object is in the cache. */
static inline bool kilni_object_is_resident(const kilni_object *object)
{
    return object->slot.state == KILNI_SLOT_READY;
}

/* Returns the object of a key, or NULL if the object is not in the cache. A caller that does not
 * hold the lock may use the object until it leaves its section. */
static inline kilni_object *kilni_cache_find(const kiln_cache *cache, const kiln_key *key)
{
    return (kilni_object *)kilni_table_find(&cache->ready, key);
}

/* Does the same as kilni_cache_find, but finds the object only if that is possible quickly. If the
 * result is NULL, the object might still be in the cache. */
static inline kilni_object *kilni_cache_find_same(const kiln_cache *cache, const kiln_key *key)
{
    return (kilni_object *)kilni_table_find_same(&cache->ready, key);
}

static inline bool kilni_holds_are_shared(int64_t holds)
{
    return holds >= KILNI_HOLD_SHARED / 2;
}

/* Returns true if the object is shared at this moment. */
static inline bool kilni_object_is_shared(const kilni_object *object)
{
    return kilni_holds_are_shared(atomic_load_explicit(&object->holds, memory_order_relaxed));
}
