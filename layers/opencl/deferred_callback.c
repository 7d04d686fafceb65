/* SPDX-License-Identifier: Apache-2.0 */
#include "deferred_callback.h"

#include <stdatomic.h>
#include <stdlib.h>

struct deferred_callback {
    link_callback notify;
    void *user_data;
    cl_program program; /* written by the driver's callback, before it sets has_arrived */
    /* Set by the driver's callback and by the layer, each with an exchange (acq_rel). The second of
     * these two exchanges returns 1. The thread that made it sees everything that the other thread
     * wrote before, and calls the application. */
    _Atomic int has_arrived;
};

deferred_callback *deferred_callback_new(link_callback notify, void *user_data)
{
    deferred_callback *made = calloc(1, sizeof *made);
    if (made) {
        made->notify = notify;
        made->user_data = user_data;
        atomic_init(&made->has_arrived, 0);
    }
    return made;
}

static void arrive(deferred_callback *deferred)
{
    if (atomic_exchange_explicit(&deferred->has_arrived, 1, memory_order_acq_rel)) {
        const deferred_callback copy = {.notify = deferred->notify,
                                        .user_data = deferred->user_data,
                                        .program = deferred->program};
        free(deferred);
        copy.notify(copy.program, copy.user_data);
    }
}

void CL_CALLBACK deferred_callback_from_driver(cl_program program, void *deferred)
{
    deferred_callback *held = deferred;
    held->program = program;
    arrive(held);
}

void deferred_callback_finish(deferred_callback *deferred)
{
    arrive(deferred);
}
