/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the cache engine share. This engine is the simple one: one lock for each
 * cache, and every field below is guarded by it unless its comment says otherwise.
 *
 * cache.c has the cache's life, capacity and counters; table.c finds keys; flight.c is single
 * flight and wait.c those who wait for one; object.c holds on objects, section.c looks at them,
 * watch.c the weak handles; policy.c chooses victims, admission.c lets in
 * and removal.c removes; listener.c tells, and
 * aftermath.c does what a call has to do once it holds no lock.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/cache.h>

#include "memory/table.h"

typedef struct kiln_pin kilni_object;
typedef struct kiln_ticket kilni_flight;
typedef struct kilni_listener kilni_listener;
typedef struct kilni_waiter kilni_waiter;

/* The first in, the first out. Linked by kilni_object.link. */
typedef struct kilni_queue {
    kilni_object *first, *last;
} kilni_queue;

struct kiln_cache {
    pthread_mutex_t lock;

    /* Not guarded: one for the user's handle and one for each object. What brings it to 0
     * (acquire, after the others' release) frees the cache. */
    _Atomic size_t references;

    /* Set once. */
    kiln_destroy_fn destroy;
    void *user;
    bool retains_failures;

    bool disabled;
    uint64_t max_bytes, max_entries;

    kilni_table table;     /* objects in the cache, attached flights, kept failures */
    kilni_waiter *waiters; /* those who wait for a flight, in the order in which they came */

    /* Objects that nothing but a section can reach, oldest first, and the sections that are open.
     * section.c has the rule. */
    kilni_queue retired;
    uint64_t epoch;
    size_t open_sections[2]; /* by parity of the epoch in which they were entered */

    kiln_policy policy; /* never KILN_POLICY_AUTO */
    uint64_t tick;      /* of the last insertion or use */
    double inflation;   /* GreedyDual's L: the rank of the dearest victim so far */

    kilni_listener *listeners; /* by ascending id */
    uint64_t last_listener;
    pthread_cond_t listener_gone; /* a listener left the list */

    uint64_t hits, misses, waits, bypasses, failures, evictions;
    uint64_t entries, bytes;                     /* of objects in the cache */
    uint64_t flights, reserved_bytes;            /* of attached flights */
    uint64_t lingering_entries, lingering_bytes; /* of objects that live, but not in the cache */
};

/* An object that was handed to the cache, or the place that a flight has ready for one. A pin is
 * a pointer to it and one of its counted holds. */
struct kiln_pin {
    kilni_slot slot;   /* key: NULL where it was built for one caller alone */
    kiln_cache *cache; /* set once; holds a reference */
    void *object;      /* set once, before the object can be reached */
    uint64_t bytes;    /* set once, likewise */
    uint64_t cost_ns;
    size_t pins;         /* of the user's */
    size_t holds;        /* of notices under way */
    bool resident;       /* in the cache's table */
    kiln_watch *watch;   /* NULL until someone wants one */
    kilni_object *link;  /* in the one queue that it is on, if any */
    uint64_t retired_at; /* the epoch in which it went to cache->retired */

    uint64_t uses;      /* since insertion */
    uint64_t inserted;  /* tick */
    uint64_t last_used; /* tick */
    uint32_t frequency; /* uses, saturating, insertion counted */
    double inflation;   /* the cache's at its last use */
};

/* A key that is being built, or whose failure is kept. The user's name for it is ticket. */
struct kiln_ticket {
    kilni_slot slot;
    kiln_cache *cache;
    kilni_object *object;    /* made beforehand, so that fulfilling needs no memory */
    bool attached;           /* in the table as a flight: what comes of it may be kept */
    uint64_t owner;          /* the thread that reserved, of kilni_thread_number */
    uint64_t reserved_bytes; /* counted in the cache's while attached */
    uint64_t started_ns;
    kiln_status failure; /* with KILNI_SLOT_FAILED */
    char text[sizeof((kiln_error *)NULL)->text];
};

/* One reference more; returns its argument. */
kiln_cache *kilni_cache_retain(kiln_cache *cache);

/* Gives a reference back. The last one frees the cache. No lock held. */
void kilni_cache_release(kiln_cache *cache);

/* The object of a key that is ready, or NULL. */
kilni_object *kilni_cache_find_ready_locked(const kiln_cache *cache, const kiln_key *key);
