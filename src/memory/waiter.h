/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiters of flights: threads that wait for what another thread builds, and pending answers. A
 * waiter gets one of the following answers:
 *
 * - a pin, if the build succeeded;
 * - the failure and its text, if the build failed;
 * - the flight itself, in order to build, if the failure was transient or the owner ended without a
 *   result; only the thread that has waited longest gets it;
 * - KILN_BYPASS, so that it builds for itself alone, if the result cannot be shared;
 * - KILN_E_CYCLE instead of waiting, if the owner waits, perhaps through others, for this thread.
 *
 * Each thread that waits has its own condition variable, so that only threads that have an answer
 * are woken, and a flight may be freed as soon as it has answered its waiters. A pending answer is
 * also in the list of waiters. But no thread waits for it, so it never becomes the flight's owner.
 */
#pragma once

#include "memory/memory.h"

/* Either a thread that waits for a flight, or a pending answer. A thread's waiter is on its stack.
 * A waiter is in the cache's list until it is answered or gives up. */
struct kilni_waiter {
    kilni_waiter *next;
    /* The next waiter in the list of waits of all caches, guarded by the lock of waits. */
    kilni_waiter *next_wait;
    uint64_t thread; /* KILNI_NOBODY: a pending answer */
    uint64_t group;  /* the group of the object if this thread comes to build it */
    /* The flight for which it waits; NULL once it has its answer. Stored under the cache's lock and
     * the lock of waits. */
    kilni_flight *flight;
    pthread_cond_t answered; /* used with the cache's lock; only for threads */
    kiln_status status;      /* KILN_BUSY, in pending answers only: the caller must ask again */
    kiln_reservation reservation; /* with KILN_OK */
    kiln_error *error;            /* may be NULL */
    struct kilni_notice *notice;  /* to be sent with the answer; NULL: none */
};

/* A pending answer. Its caller asked for a key that another caller is building, and did not wait.
 * Like a thread that waits, it gets an answer when that build ends. */
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

/* Takes a pending answer that has not been answered out of the list. */
void kilni_pending_detach_locked(kiln_pending *pending);

/* Waits for a flight's answer, at most for the time in @params, as described for
 * kiln_cache_reserve. Gives up the lock meanwhile. */
kiln_status kilni_wait_locked(kilni_flight *flight, const kiln_reserve_params *params,
                              kiln_reservation *ret_reservation, kiln_error *error);

/* Answer all waiters of a flight: with a pin on the object that was built, with BYPASS, or with the
 * flight's failure. */
void kilni_wait_pin_all_locked(const kilni_flight *flight, kilni_object *object);
void kilni_wait_bypass_all_locked(const kilni_flight *flight);
void kilni_wait_fail_all_locked(const kilni_flight *flight);

/* Makes the callers of a flight's pending answers ask again, since no thread builds any longer. */
void kilni_wait_ask_again_locked(const kilni_flight *flight);

/* Whether a thread waits for a flight; pending answers do not count. */
bool kilni_wait_has_thread(const kilni_flight *flight);

/* Makes all waiters of one flight wait for another. */
void kilni_wait_move_all_locked(const kilni_flight *from, kilni_flight *to);

/* Makes the thread that has waited longest the owner of the flight, and gives the flight the group
 * that this thread asked for. Returns false if no thread waits; callers of pending answers must
 * then ask again. */
bool kilni_wait_hand_over_locked(kilni_flight *flight);

/* In a forked child: forgets the parent's other threads. If a pending answer waits for a flight of
 * one of those threads, its caller must ask again. */
void kilni_waiters_forget_threads_locked(kiln_cache *cache);
