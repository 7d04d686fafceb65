/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* CLOCK_MONOTONIC, in nanoseconds; never 0. */
uint64_t kilni_clock_ns(void);

/* Wall clock, in Unix seconds. */
int64_t kilni_clock_unix_s(void);

/* The clock that files' changes go by, in Unix nanoseconds: it moves in steps. */
int64_t kilni_clock_of_files_ns(void);

/* Sleeps so long, or until a signal comes. */
void kilni_sleep_ns(uint64_t duration_ns);
