/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters to which all threads add without contention. Each of the first readers has a line of its
 * own in each cache, to which it alone adds. All other threads share one line.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

enum { KILNI_COUNTER_LINES = 16 };

typedef enum kilni_counter { KILNI_COUNTER_HITS = 0, KILNI_COUNTER_MISSES = 1 } kilni_counter;

typedef struct kilni_counters {
    /* Accessed relaxed: each count is exact, and none is ordered with anything else. */
    struct {
        _Atomic uint64_t counts[8];
    } lines[KILNI_COUNTER_LINES + 1];
} kilni_counters;

/* @number is that of the thread's reader, UINT32_MAX if it has none. */
static inline void kilni_counter_add(kilni_counters *counters, kilni_counter counter,
                                     uint32_t number)
{
    if (number < KILNI_COUNTER_LINES) {
        _Atomic uint64_t *count = &counters->lines[number].counts[counter];
        uint64_t value = atomic_load_explicit(count, memory_order_relaxed);
        atomic_store_explicit(count, value + 1, memory_order_relaxed);
    } else {
        atomic_fetch_add_explicit(&counters->lines[KILNI_COUNTER_LINES].counts[counter], 1,
                                  memory_order_relaxed);
    }
}

static inline uint64_t kilni_counter_sum(const kilni_counters *counters, kilni_counter counter)
{
    uint64_t sum = 0;
    for (int i = 0; i <= KILNI_COUNTER_LINES; i++) {
        sum += atomic_load_explicit(&counters->lines[i].counts[counter], memory_order_relaxed);
    }
    return sum;
}
