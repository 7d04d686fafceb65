/* SPDX-License-Identifier: Apache-2.0
 *
 * Preloaded into the tool, makes each look at the monotonic clock take another 0.3 s, so that tests
 * see what the tool shows of work that takes seconds.
 */
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define STEP_NS 300000000L

int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    static _Atomic long looks;
    const long result = syscall(SYS_clock_gettime, clock, ret_time);
    if (result == 0 && clock == CLOCK_MONOTONIC) {
        const long moved_ns = ret_time->tv_nsec + ++looks * STEP_NS;
        ret_time->tv_sec += moved_ns / 1000000000;
        ret_time->tv_nsec = moved_ns % 1000000000;
    }
    return (int)result;
}
