/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiters of flights. A waiter is either a thread that waits for another thread's build or a
 * pending answer. It gets one of the following answers:
 *
 * - a pin, if the build succeeded;
 * - the failure and its text, if the build failed;
 * - the flight itself, so that the waiter can build, if the failure was transient or the owner
 *   ended without a result; only the thread that has waited longest gets it;
 * - KILN_BYPASS, so that the waiter builds for itself alone, if the result cannot be shared;
 * - KILN_E_CYCLE, without a wait, if the owner is waiting for this thread, directly or through
 *   other threads.
 *
 * Each thread that waits has its own condition variable. So only threads that have an answer are
 * woken, and a flight can be freed as soon as it has answered its waiters. A pending answer is also
 * in the list of waiters. But a pending answer is not a thread, so it never becomes the flight's
 * owner.
 */
#pragma once

#include "memory/memory.h"

/* A thread that waits for a flight, or a pending answer. The waiter of a thread is on the stack of
 * that thread. A waiter is in the cache's list until it is answered or gives up. */
struct kilni_waiter {
    kilni_waiter *next;
    /* The next waiter in the same list of waits. These lists serve all caches, and the lock of
     * waits guards them. */
    kilni_waiter *next_wait;
    uint64_t thread; /* KILNI_NOBODY: a pending answer */
    uint64_t group;  /* the group of the object if this thread comes to build it */
    /* The flight for which the waiter waits, or NULL if the waiter has its answer. Stored while
     * both the cache's lock and the lock of waits are held. */
    kilni_flight *flight;
    pthread_cond_t answered; /* used with the cache's lock; only for threads */
    kiln_status status;      /* KILN_BUSY, in pending answers only: the caller must ask again */
    kiln_reservation reservation; /* with KILN_OK */
    kiln_error *error;            /* may be NULL */
    struct kilni_notice *notice;  /* to be sent with the answer; NULL: none */
};

/* A pending answer. Its caller did not wait when it asked for a key that another caller was
 * building. Like a thread that waits, a pending answer gets its answer when that build ends. */
struct kiln_pending {
    kilni_waiter waiter; /* guarded by the cache's lock */
    kiln_cache *cache;   /* one reference */
    kiln_key *key;       /* one reference */
    kiln_reserve_params params;
    kiln_error error; /* of a build that failed */
};

/* Makes a pending answer that waits for a flight. Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_pending_new_locked(kilni_flight *flight, const kiln_reserve_params *params,
                                     kiln_pending **ret_pending);

/* Removes a pending answer from the list. It must not have been answered yet. */
void kilni_pending_detach_locked(kiln_pending *pending);

/* Waits for a flight's answer, but no longer than @params allows, as described for
 * kiln_cache_reserve. Gives up the lock while it waits. */
kiln_status kilni_wait_locked(kilni_flight *flight, const kiln_reserve_params *params,
                              kiln_reservation *ret_reservation, kiln_error *error);

/* These functions answer all waiters of a flight. The answer is a pin on the object that was built,
 * or KILN_BYPASS, or the flight's failure. */
void kilni_wait_pin_all_locked(const kilni_flight *flight, kilni_object *object);
void kilni_wait_bypass_all_locked(const kilni_flight *flight);
void kilni_wait_fail_all_locked(const kilni_flight *flight);

/* Makes the callers of a flight's pending answers ask again, because no thread is building the key
 * any longer. */
void kilni_wait_ask_again_locked(const kilni_flight *flight);

/* Returns true if a thread waits for a flight. Ignores pending answers. */
bool kilni_wait_has_thread(const kilni_flight *flight);

/* Makes all waiters of flight @from wait for flight @to. */
void kilni_wait_move_all_locked(const kilni_flight *from, kilni_flight *to);

/* Makes the thread that has waited longest the owner of the flight, and gives the flight the group
 * that this thread asked for. Returns false if no thread waits. In this case, callers of pending
 * answers must ask again. */
bool kilni_wait_hand_over_locked(kilni_flight *flight);

/* Called in a forked child. Forgets the parent's other threads. If a pending answer waits for a
 * flight of one of those threads, its caller must ask again. */
void kilni_waiters_forget_threads_locked(kiln_cache *cache);
