/* SPDX-License-Identifier: Apache-2.0 */
#include "os/thread.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#define STACK_BYTES (256u << 10)

/* NULL is its address with a glibc before 2.32, whose headers do not declare it either. */
extern char __libc_single_threaded __attribute__((weak));

/* A thread that is started by one with a real-time policy gets the ordinary policy. The policies
 * SCHED_BATCH and SCHED_IDLE are inherited: a thread needs a privilege to leave the second. */
static void describe_thread(pthread_attr_t *attributes)
{
    const struct sched_param ordinary = {0};
    const int policy = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
    cpu_set_t processors;
    if (policy != SCHED_IDLE && policy != SCHED_BATCH) {
        pthread_attr_setinheritsched(attributes, PTHREAD_EXPLICIT_SCHED);
        pthread_attr_setschedpolicy(attributes, SCHED_OTHER);
        pthread_attr_setschedparam(attributes, &ordinary);
    }
    if (sched_getaffinity(getpid(), sizeof processors, &processors) == 0) {
        pthread_attr_setaffinity_np(attributes, sizeof processors, &processors);
    }
    pthread_attr_setstacksize(attributes, STACK_BYTES);
}

bool kilni_thread_start(void *(*run)(void *), void *argument, pthread_t *ret_thread)
{
    bool is_started = false;
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) == 0) {
        describe_thread(&attributes);
        is_started = pthread_create(ret_thread, &attributes, run, argument) == 0;
        pthread_attr_destroy(&attributes);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return is_started;
}

bool kilni_is_single_threaded(void)
{
    return &__libc_single_threaded && __libc_single_threaded;
}

bool kilni_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0) {
        return false;
    }
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    const bool is_made = pthread_cond_init(condition, &attributes) == 0;
    pthread_condattr_destroy(&attributes);
    return is_made;
}
