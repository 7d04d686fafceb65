/* SPDX-License-Identifier: Apache-2.0 */
#include "store/network/call.h"

#include <errno.h>
#include <time.h>

#include "os/thread.h"

#define NS_PER_S 1000000000u

kiln_status kilni_call_init(kilni_call *call, void (*run)(kilni_task *task),
                            void (*destroy)(kilni_call *call), uint64_t deadline_ns)
{
    if (pthread_mutex_init(&call->lock, NULL) != 0) {
        return KILN_E_NO_MEMORY;
    }
    if (!kilni_condition_init(&call->finished)) {
        pthread_mutex_destroy(&call->lock);
        return KILN_E_NO_MEMORY;
    }
    call->task.run = run;
    call->destroy = destroy;
    call->deadline_ns = deadline_ns;
    call->is_finished = false;
    call->is_abandoned = false;
    atomic_init(&call->references, 1);
    return KILN_OK;
}

static void drop_reference(kilni_call *call)
{
    if (atomic_fetch_sub_explicit(&call->references, 1, memory_order_acq_rel) > 1) {
        return;
    }
    pthread_cond_destroy(&call->finished);
    pthread_mutex_destroy(&call->lock);
    call->destroy(call);
}

kiln_status kilni_call_wait(kilni_call *call)
{
    const struct timespec deadline = {.tv_sec = (time_t)(call->deadline_ns / NS_PER_S),
                                      .tv_nsec = (long)(call->deadline_ns % NS_PER_S)};
    int error = 0;
    pthread_mutex_lock(&call->lock);
    while (!call->is_finished && error != ETIMEDOUT) {
        error = pthread_cond_timedwait(&call->finished, &call->lock, &deadline);
    }
    call->is_abandoned = !call->is_finished;
    const kiln_status status = call->is_finished ? KILN_OK : KILN_TIMEOUT;
    pthread_mutex_unlock(&call->lock);
    return status;
}

kiln_status kilni_call_start(kilni_call *call)
{
    atomic_fetch_add_explicit(&call->references, 1, memory_order_relaxed);
    const kiln_status status = kilni_loop_post(&call->task);
    if (status != KILN_OK) {
        drop_reference(call);
    }
    return status;
}

kiln_status kilni_call_make(kilni_call *call)
{
    const kiln_status status = kilni_call_start(call);
    return status == KILN_OK ? kilni_call_wait(call) : status;
}

/* The caller's reference passes to the I/O thread. If there is no I/O thread, this function drops
 * the reference. */
void kilni_call_send(kilni_call *call)
{
    if (kilni_loop_post(&call->task) != KILN_OK) {
        drop_reference(call);
    }
}

void kilni_call_release(kilni_call *call)
{
    drop_reference(call);
}

void kilni_call_finish(kilni_call *call)
{
    pthread_mutex_lock(&call->lock);
    call->is_finished = true;
    pthread_cond_signal(&call->finished);
    pthread_mutex_unlock(&call->lock);
    drop_reference(call);
}

bool kilni_call_is_abandoned(kilni_call *call)
{
    pthread_mutex_lock(&call->lock);
    const bool is_abandoned = call->is_abandoned;
    pthread_mutex_unlock(&call->lock);
    return is_abandoned;
}
