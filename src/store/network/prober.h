/* SPDX-License-Identifier: Apache-2.0
 *
 * Probes a server that is not being contacted, until it answers. The I/O thread does this, so that
 * no caller waits for a probe.
 */
#pragma once

#include "store/network/breaker.h"
#include "store/network/loop.h"

typedef struct kilni_prober {
    kilni_task starting;
    kilni_timer timer; /* only the I/O thread uses it */
    kilni_breaker *breaker;
    /* Sends a request to the server, for whose answer no caller waits, and ensures that the breaker
     * learns the outcome. Called on the I/O thread. */
    void (*probe)(struct kilni_prober *prober);
    /* The process whose I/O thread watches the breaker; KILNI_NO_PROCESS: none. The exchange
     * (acquire) in kilni_prober_start decides which thread posts the task. It pairs with the store
     * (release) by which the I/O thread stops watching: after that store, the I/O thread no longer
     * reads the task. */
    _Atomic unsigned running_in;
} kilni_prober;

/* No process has this number. */
#define KILNI_NO_PROCESS UINT32_MAX

/* @breaker and @prober must stay valid until kilni_prober_stop. */
void kilni_prober_init(kilni_prober *prober, kilni_breaker *breaker,
                       void (*probe)(kilni_prober *prober));

/* Makes the I/O thread watch an open breaker and probe its server, until the breaker is closed.
 * Threads: all but the I/O thread. */
void kilni_prober_start(kilni_prober *prober);

/* As kilni_prober_start, for the I/O thread. Posts no task, since the task might run only after
 * kilni_prober_stop. */
void kilni_prober_start_here(kilni_prober *prober);

/* Stops watching and probing. For the I/O thread. */
void kilni_prober_stop(kilni_prober *prober);
