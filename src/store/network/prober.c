/* SPDX-License-Identifier: Apache-2.0 */
#include "store/network/prober.h"

#include <stddef.h>

#include "os/clock.h"

static void set_running_in(kilni_prober *prober, unsigned process)
{
    atomic_store_explicit(&prober->running_in, process, memory_order_release);
}

static void look(kilni_timer *timer)
{
    kilni_prober *prober = (kilni_prober *)((char *)timer - offsetof(kilni_prober, timer));
    const uint64_t now_ns = kilni_clock_ns();
    if (kilni_breaker_is_closed(prober->breaker, now_ns)) {
        set_running_in(prober, KILNI_NO_PROCESS);
        return;
    }
    if (kilni_breaker_admits(prober->breaker, now_ns)) {
        prober->probe(prober);
    }
    const uint64_t retry_ns = kilni_breaker_retry_ns(prober->breaker);
    kilni_timer_start(timer, retry_ns > now_ns ? retry_ns : now_ns + 1);
}

/* Initializes the timer again, because a forked child may have inherited the state of the parent's
 * timer. */
static void start_timer(kilni_prober *prober)
{
    prober->timer = (kilni_timer){.expire = look};
    look(&prober->timer);
}

static void start(kilni_task *task)
{
    start_timer((kilni_prober *)task);
}

void kilni_prober_init(kilni_prober *prober, kilni_breaker *breaker,
                       void (*probe)(kilni_prober *prober))
{
    prober->starting.run = start;
    prober->timer = (kilni_timer){.expire = look};
    prober->breaker = breaker;
    prober->probe = probe;
    atomic_init(&prober->running_in, KILNI_NO_PROCESS);
}

/* Returns true if the caller must start the prober, because the prober is not running in this
 * process. */
static bool claim(kilni_prober *prober)
{
    const unsigned process = kilni_loop_process();
    return atomic_exchange_explicit(&prober->running_in, process, memory_order_acquire) != process;
}

void kilni_prober_start(kilni_prober *prober)
{
    if (claim(prober) && kilni_loop_post(&prober->starting) != KILN_OK) {
        set_running_in(prober, KILNI_NO_PROCESS);
    }
}

void kilni_prober_start_here(kilni_prober *prober)
{
    if (claim(prober)) {
        start_timer(prober);
    }
}

/* Does nothing if this process has not started the prober. In a forked child, the timer then still
 * has the state of the parent's timer and must not be stopped. */
void kilni_prober_stop(kilni_prober *prober)
{
    const unsigned process = atomic_load_explicit(&prober->running_in, memory_order_relaxed);
    if (process == kilni_loop_process()) {
        kilni_timer_stop(&prober->timer);
        set_running_in(prober, KILNI_NO_PROCESS);
    }
}
