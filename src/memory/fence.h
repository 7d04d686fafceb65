/* SPDX-License-Identifier: Apache-2.0
 *
 * Fences between two sides, each of which stores and then loads what the other stored: readers,
 * often, and threads that reclaim, seldom. Of
 *
 *     a reader:                        a thread that reclaims:
 *     kilni_fence_is_asymmetric
 *     store R                          store W
 *     kilni_fence_light                kilni_fence_heavy
 *     load W                           load R
 *
 * at least one sees what the other stored. If the system can make all running threads of the
 * process pass a barrier for the heavy fence, the light fence costs nothing: fences are asymmetric
 * then. Otherwise both are ordinary fences.
 *
 * Asking the system for this holds up a process for some 10 ms if it has threads. Such a process
 * begins with ordinary fences, and switches to asymmetric ones once ordinary ones have cost one of
 * its threads as much. For this to be safe, a reader that sees the switch must see everything that
 * threads reclaiming before the switch had stored, and no switch may happen between such a thread's
 * fence and its loads: see reader.c.
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

/* Asks the system for asymmetric fences. Returns true if it grants them. */
bool kilni_fence_ask(void);

/* Switches the kind of fences. Called while no other thread is in Kiln, or with the lock of
 * reader.c, which a thread that reclaims with ordinary fences holds from its fence to its last
 * load. After a switch to ordinary fences, a thread must not reclaim before each reader has
 * acknowledged the switch: until then, the reader may still pass fences of the kind that costs
 * nothing. */
void kilni_fence_switch(bool asymmetric);

/* The heavy side while fences are asymmetric: the system's fence, in all threads. Does not look at
 * the state, so that a switch in another thread cannot turn it into an ordinary fence, which
 * readers may not have acknowledged. Returns false if the system refuses it: nothing was ordered.
 */
bool kilni_fence_system(void);

/* The heavy side while fences are ordinary. */
void kilni_fence_heavy(void);

#ifdef KILNI_FENCE_IS_COUNTED
/* ThreadSanitizer does not understand fences. Of two additions to one word, one comes first, and
 * the later one acquires what the other released: to ThreadSanitizer, both sides then act as
 * fences. */
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

/* Passes an ordinary fence, and acknowledges the last switch. One in very many calls of a thread
 * asks the system for asymmetric fences. */
void kilni_fence_ordinary(void);

/* Readers call this before the store that precedes their fence, since on some processors this load
 * would otherwise wait for that store. If a reader sees a switch here, its later loads see
 * everything that threads reclaiming with ordinary fences stored before the switch. Threads that
 * reclaim after the switch pass the system's fence. */
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
