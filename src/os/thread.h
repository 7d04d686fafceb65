/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that Kiln starts in an application's process.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

/* Starts a thread that has the default scheduling policy, may run on every processor that the
 * process's main thread may use, has a small stack, and blocks all signals. It inherits none of
 * these properties from its creator. Returns false if it cannot be started. */
bool kilni_thread_start(void *(*run)(void *), void *argument, pthread_t *ret_thread);

/* Initializes a condition variable whose deadlines are on the clock of kilni_clock_ns. Returns
 * false on failure. */
bool kilni_condition_init(pthread_cond_t *condition);
