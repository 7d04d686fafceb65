/* SPDX-License-Identifier: Apache-2.0
 *
 * The I/O thread. Each process has one such thread for all servers. It starts with the first task.
 * It ends only if the application closes its descriptors, and in that case it is not started again.
 * It runs tasks, the functions of expired timers, and the functions of sockets that are ready, one
 * after the other. Sockets that are ready come before timers. None of these functions is allowed to
 * block.
 *
 * A forked child has no I/O thread until it posts a task. It inherits nothing from the parent's
 * thread. Instead, the child closes the sockets, and forgets the timers and tasks.
 */
#pragma once

#include <stdint.h>

#include <kiln/status.h>

#include "os/owned_descriptor.h"

/* Work for the I/O thread. The caller that posts a task owns its memory. The memory must stay valid
 * until run is called. */
typedef struct kilni_task {
    struct kilni_task *next;
    void (*run)(struct kilni_task *task);
} kilni_task;

/* Makes the I/O thread run a task. Threads: any. Returns KILN_OK; KILN_E_IO: there is no I/O
 * thread, and the task will not run. */
kiln_status kilni_loop_post(kilni_task *task);

/* Returns a number that identifies the process. A forked child's number differs from the parent's.
 * Threads: any. */
unsigned kilni_loop_process(void);

/* ---- for the I/O thread alone ---- */

/* A socket that the I/O thread watches. */
typedef struct kilni_socket {
    struct kilni_socket *next, *previous;
    uint64_t serial; /* epoll reports this number instead of the address, because the struct may be
                        freed before an event is read */
    kilni_owned_descriptor file;
    uint32_t events; /* the EPOLL… events to wait for */
    void (*ready)(struct kilni_socket *socket, uint32_t events);
} kilni_socket;

/* Watches a socket. The function ready of @socket must be set. @socket takes ownership of @file,
 * even on failure. Returns KILN_OK; KILN_E_IO. */
kiln_status kilni_socket_open(kilni_socket *socket, int file, uint32_t events);

/* Changes the events for which epoll waits. Returns KILN_OK; KILN_E_IO. */
kiln_status kilni_socket_wait_for(kilni_socket *socket, uint32_t events);

void kilni_socket_close(kilni_socket *socket);

/* A timer. A zeroed timer whose function is set is not running. */
typedef struct kilni_timer {
    struct kilni_timer *next, *previous;
    uint64_t at_ns; /* of kilni_clock_ns; 0: it is not running */
    void (*expire)(struct kilni_timer *timer);
} kilni_timer;

/* Starts a timer, or changes the time of a running timer. A timer stops when it expires. */
void kilni_timer_start(kilni_timer *timer, uint64_t at_ns);
void kilni_timer_stop(kilni_timer *timer);
