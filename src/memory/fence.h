/* SPDX-License-Identifier: Apache-2.0
 *
 * Fences for two sides that store and then look at what the other stored: readers, often, and
 * those who reclaim, seldom. Of
 *
 *     a reader:                        who reclaims:
 *     store R                          store W
 *     kilni_fence_light                kilni_fence_heavy
 *     load W                           load R
 *
 * at least one sees what the other stored. The light fence costs nothing where the system can make
 * all running threads of the process pass a barrier for the heavy one, and the process had no other
 * threads yet when it was asked to; elsewhere both are ordinary ones.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#if defined(__SANITIZE_THREAD__)
#define KILNI_FENCE_IS_COUNTED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define KILNI_FENCE_IS_COUNTED 1
#endif
#endif

/* Finds out what the system grants. While no other thread is in Kiln. */
void kilni_fence_choose(void);

/* False where the system refuses what it granted before: nothing was ordered. */
bool kilni_fence_heavy(void);

#ifdef KILNI_FENCE_IS_COUNTED
/* ThreadSanitizer knows no fences. Of two additions to one word one comes first, and the later
 * acquires what the other released: both sides are fences in its eyes. */
extern _Atomic unsigned kilni_fence_word;

static inline void kilni_fence_light(void)
{
    atomic_fetch_add_explicit(&kilni_fence_word, 1, memory_order_acq_rel);
}
#else
/* Written by kilni_fence_choose alone. */
extern bool kilni_fence_is_asymmetric;

static inline void kilni_fence_light(void)
{
    if (__builtin_expect(kilni_fence_is_asymmetric, 1)) {
        atomic_signal_fence(memory_order_seq_cst);
    } else {
        atomic_thread_fence(memory_order_seq_cst);
    }
}
#endif
