/* SPDX-License-Identifier: Apache-2.0
 *
 * A call is work that a thread hands to the I/O thread. The thread waits for the result until a
 * deadline, and then returns without it. The call is freed when both threads have finished with it.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <kiln/status.h>

#include "store/network/loop.h"

/* The first member of a struct that describes the work. The caller allocates that struct. */
typedef struct kilni_call {
    kilni_task task; /* must be first: the I/O thread casts it to the call */
    void (*destroy)(struct kilni_call *call);
    uint64_t deadline_ns; /* of kilni_clock_ns */

    /* The caller holds one reference, and the I/O thread holds another. Each decrement is both a
     * release and an acquire, so the thread that frees the call sees all changes by the other
     * thread. */
    _Atomic unsigned references;

    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t finished;
    bool is_finished;
    bool is_abandoned; /* the caller has stopped waiting for the call */
} kilni_call;

/* Prepares a call, to which the caller then holds a reference. The I/O thread calls @run, which
 * begins the work. @run must ensure that kilni_call_finish is called when the work ends. Returns
 * KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_call_init(kilni_call *call, void (*run)(kilni_task *task),
                            void (*destroy)(kilni_call *call), uint64_t deadline_ns);

/* Hands the call to the I/O thread. Returns KILN_OK; KILN_E_IO: there is no I/O thread. */
kiln_status kilni_call_start(kilni_call *call);

/* Makes this thread's later waits for calls end at *@end_ns at the latest. NULL: at their
 * deadlines. See limit_calls in store/remote/connector.h. */
void kilni_call_limit_thread(const _Atomic uint64_t *end_ns);

/* Waits until a started call is finished, or until its deadline or the limit of this thread has
 * passed. Returns KILN_OK: the call is finished; KILN_TIMEOUT: the call is not finished, and the
 * caller must only release it. */
kiln_status kilni_call_wait(kilni_call *call);

/* Starts the call and waits for it. Returns KILN_OK: the call is finished; KILN_TIMEOUT: the call
 * is not finished, and the caller must only release it; KILN_E_IO: there is no I/O thread. */
kiln_status kilni_call_make(kilni_call *call);

/* Hands the call to the I/O thread without waiting. The caller's reference passes to the I/O
 * thread. */
void kilni_call_send(kilni_call *call);

/* Drops the caller's reference. */
void kilni_call_release(kilni_call *call);

/* ---- for the I/O thread ---- */

/* Wakes the caller, and drops the I/O thread's reference. */
void kilni_call_finish(kilni_call *call);

/* Returns true if the caller no longer waits for the call. */
bool kilni_call_is_abandoned(kilni_call *call);
