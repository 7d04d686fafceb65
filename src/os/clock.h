/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* Reads CLOCK_MONOTONIC, in nanoseconds. Never returns 0. */
uint64_t kilni_clock_ns(void);

/* Reads the wall clock, in Unix seconds. */
int64_t kilni_clock_unix_s(void);

/* Reads the clock that the kernel uses for the timestamps of files, in Unix nanoseconds. It
 * advances in ticks. */
int64_t kilni_file_clock_ns(void);

/* Sleeps for the duration, or until a signal arrives. */
void kilni_sleep_ns(uint64_t duration_ns);
