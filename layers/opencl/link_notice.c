/* SPDX-License-Identifier: Apache-2.0 */
#include "link_notice.h"

#include <stdatomic.h>
#include <stdlib.h>

struct link_notice {
    link_callback notify;
    void *user_data;
    cl_program program; /* written by the driver's call, before it comes by */
    /* Two come by: the driver's call, and the layer when it is done. Each exchanges in a 1
     * (acq_rel); the second finds it, sees all that the first wrote, and calls the application. */
    _Atomic int came_by;
};

link_notice *link_notice_new(link_callback notify, void *user_data)
{
    link_notice *made = calloc(1, sizeof *made);
    if (made) {
        made->notify = notify;
        made->user_data = user_data;
        atomic_init(&made->came_by, 0);
    }
    return made;
}

static void come_by(link_notice *notice)
{
    if (atomic_exchange_explicit(&notice->came_by, 1, memory_order_acq_rel)) {
        const link_notice told = {
            .notify = notice->notify, .user_data = notice->user_data, .program = notice->program};
        free(notice);
        told.notify(told.program, told.user_data);
    }
}

void CL_CALLBACK link_notice_from_driver(cl_program program, void *notice)
{
    link_notice *held = notice;
    held->program = program;
    come_by(held);
}

void link_notice_let_go(link_notice *notice)
{
    come_by(notice);
}
