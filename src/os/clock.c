/* SPDX-License-Identifier: Apache-2.0 */
#include "os/clock.h"

#include "os/os.h"

#define NS_PER_S 1000000000u

uint64_t kilni_clock_ns(void)
{
    struct timespec now = {0};
    kilni_os()->clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t time_ns = (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
    return time_ns > 0 ? time_ns : 1;
}

int64_t kilni_clock_unix_s(void)
{
    struct timespec now = {0};
    kilni_os()->clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec;
}

int64_t kilni_file_clock_ns(void)
{
    struct timespec now = {0};
    kilni_os()->clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return (int64_t)now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void kilni_sleep_ns(uint64_t duration_ns)
{
    struct timespec duration = {.tv_sec = (time_t)(duration_ns / NS_PER_S),
                                .tv_nsec = (long)(duration_ns % NS_PER_S)};
    kilni_os()->nanosleep(&duration, NULL);
}
