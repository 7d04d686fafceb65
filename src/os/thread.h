/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that Kiln starts in an application's process.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

/* Starts a thread with the default scheduling policy and a small stack. The thread can run on every
 * processor that the main thread of the process can use, and blocks all signals. It inherits none
 * of these properties from its creator. Returns false if the thread cannot be started. */
bool kilni_thread_start(void *(*run)(void *), void *argument, pthread_t *ret_thread);

/* Returns true only if the process has no other thread. Always false with a glibc before 2.32. */
bool kilni_is_single_threaded(void);

/* Initializes a condition variable with deadlines that are times of kilni_clock_ns. Returns false
 * on failure. */
bool kilni_condition_init(pthread_cond_t *condition);
