/* SPDX-License-Identifier: Apache-2.0 */
#include "store/network/call.h"

#include <time.h>

#include "os/clock.h"
#include "os/thread.h"

#define NS_PER_S 1000000000u

/* How often a thread that waits looks whether its limit has changed. */
#define LOOK_EACH_NS UINT64_C(20000000)

/* NULL: the thread's calls have no limit except their deadlines. This library is opened at run
 * time, and LeakSanitizer of gcc 12 crashes if a thread has other thread-local data of such a
 * library. */
static _Thread_local const _Atomic uint64_t *thread_limit
    __attribute__((tls_model("initial-exec")));

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

void kilni_call_limit_thread(const _Atomic uint64_t *end_ns)
{
    thread_limit = end_ns;
}

/* Returns when this thread must look again whether to wait for the call; 0: it must stop waiting.
 */
static uint64_t next_look_ns(const kilni_call *call)
{
    const uint64_t now_ns = kilni_clock_ns();
    uint64_t until_ns = call->deadline_ns;
    if (thread_limit) {
        const uint64_t limit_ns = atomic_load_explicit(thread_limit, memory_order_relaxed);
        until_ns = limit_ns < until_ns ? limit_ns : until_ns;
    }
    if (now_ns >= until_ns) {
        return 0;
    }
    return thread_limit && until_ns - now_ns > LOOK_EACH_NS ? now_ns + LOOK_EACH_NS : until_ns;
}

kiln_status kilni_call_wait(kilni_call *call)
{
    uint64_t until_ns;
    pthread_mutex_lock(&call->lock);
    while (!call->is_finished && (until_ns = next_look_ns(call)) != 0) {
        const struct timespec until = {.tv_sec = (time_t)(until_ns / NS_PER_S),
                                       .tv_nsec = (long)(until_ns % NS_PER_S)};
        pthread_cond_timedwait(&call->finished, &call->lock, &until);
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
