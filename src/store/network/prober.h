/* SPDX-License-Identifier: Apache-2.0
 *
 * Probes a server that is not being contacted, until the server answers. The I/O thread does this,
 * so that no caller waits for a probe.
 */
#pragma once

#include "store/network/breaker.h"
#include "store/network/loop.h"

typedef struct kilni_prober {
    kilni_task starting;
    kilni_timer timer; /* only the I/O thread uses it */
    kilni_breaker *breaker;
    /* Sends a request to the server, and ensures that the breaker learns the outcome. No caller
     * waits for the answer. Called on the I/O thread. */
    void (*probe)(struct kilni_prober *prober);
    /* The process whose I/O thread watches the breaker; KILNI_NO_PROCESS: none. The exchange
     * (acquire) in kilni_prober_start decides which thread posts the task. It pairs with the store
     * (release) with which the I/O thread ends its watch. After that store, the I/O thread no
     * longer reads the task. */
    _Atomic unsigned running_in;
} kilni_prober;

/* No process has this number. */
#define KILNI_NO_PROCESS UINT32_MAX

/* Initializes a prober. @breaker and @prober must stay valid until kilni_prober_stop is called. */
void kilni_prober_init(kilni_prober *prober, kilni_breaker *breaker,
                       void (*probe)(kilni_prober *prober));

/* Makes the I/O thread watch an open breaker and probe its server, until the breaker is closed.
 * Threads: all except the I/O thread. */
void kilni_prober_start(kilni_prober *prober);

/* Does the same as kilni_prober_start, but is called on the I/O thread. It posts no task, because
 * the task might run only after kilni_prober_stop. */
void kilni_prober_start_here(kilni_prober *prober);

/* Stops watching and probing. Called on the I/O thread. */
void kilni_prober_stop(kilni_prober *prober);
