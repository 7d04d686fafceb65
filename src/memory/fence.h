/* SPDX-License-Identifier: Apache-2.0
 *
 * Fences for two sides that store and then look at what the other stored: readers, often, and
 * those who reclaim, seldom. Of
 *
 *     a reader:                        who reclaims:
 *     kilni_fence_is_asymmetric
 *     store R                          store W
 *     kilni_fence_light                kilni_fence_heavy
 *     load W                           load R
 *
 * at least one sees what the other stored. The light fence costs nothing where the system can make
 * all running threads of the process pass a barrier for the heavy one: fences are asymmetric then.
 * Elsewhere both are ordinary ones.
 *
 * Asking the system for that holds a process that has threads up for some 10 ms. Such a process
 * begins with ordinary fences, and is switched to the others once they cost one of its threads as
 * much. For that, a reader that sees the switch must see all that was stored by those who reclaimed
 * before it, and these must not switch between their fence and their loads: see reader.c.
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

/* Asks the system for asymmetric fences. True where it grants them. */
bool kilni_fence_ask(void);

/* Switches. Called while no other thread is in Kiln, or with the lock of reader.c, which a thread
 * that reclaims with ordinary fences holds from its fence to its last load. After a switch to
 * ordinary fences, a thread must not reclaim before each reader has acknowledged the switch: until
 * then, the reader may still pass fences of the kind that costs nothing. */
void kilni_fence_switch(bool asymmetric);

/* False where the system refuses what it granted before: nothing was ordered. */
bool kilni_fence_heavy(void);

#ifdef KILNI_FENCE_IS_COUNTED
/* ThreadSanitizer knows no fences. Of two additions to one word one comes first, and the later
 * acquires what the other released: both sides are fences in its eyes. */
extern _Atomic unsigned kilni_fence_word;

static inline bool kilni_fence_is_asymmetric(void)
{
    return false;
}

static inline unsigned kilni_fence_state(void)
{
    return 0;
}

static inline void kilni_fence_light(bool asymmetric)
{
    (void)asymmetric;
    atomic_fetch_add_explicit(&kilni_fence_word, 1, memory_order_acq_rel);
}
#else
/* The number of switches, above a bit that says whether fences are asymmetric. Stored with release
 * by kilni_fence_switch. */
extern _Atomic unsigned kilni_fence_state_word;

static inline unsigned kilni_fence_state(void)
{
    return atomic_load_explicit(&kilni_fence_state_word, memory_order_acquire);
}

/* An ordinary fence, which acknowledges the last switch; one in very many of a thread's asks for
 * something better. */
void kilni_fence_ordinary(void);

/* Asked by readers before the store that the fence is behind: some processors would have this load
 * wait for that store. Their loads from then on see what was stored by those who reclaimed with
 * ordinary fences before a switch that is seen here; those who come later have the system's. */
static inline bool kilni_fence_is_asymmetric(void)
{
    return kilni_fence_state() & 1;
}

static inline void kilni_fence_light(bool asymmetric)
{
    if (__builtin_expect(asymmetric, 1)) {
        atomic_signal_fence(memory_order_seq_cst);
    } else {
        kilni_fence_ordinary();
    }
}
#endif
