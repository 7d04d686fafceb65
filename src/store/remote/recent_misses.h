/* SPDX-License-Identifier: Apache-2.0
 *
 * Remembers the keys for which a server has just reported a miss, so that this process does not
 * immediately ask for them again. A program might repeat a request whose build failed, or ask for
 * the same key in several ways.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <kiln/key.h>

/* How long a miss is remembered. In this time, this process does not see an entry that a different
 * machine puts. At worst, it then builds a key once more. So the time is much shorter than builds
 * that take a second, for which machines wait for each other. A process that takes a lease, or
 * waits for one, forgets the miss and asks again. */
#define KILNI_RECENT_MISSES_LAST_NS UINT64_C(250000000)

#define KILNI_RECENT_MISSES_SLOTS 256u

/* A zeroed struct has no keys. If two keys use the same slot, the later one replaces the earlier
 * one. Threads: any. */
typedef struct kilni_recent_misses {
    /* Increased before a key is forgotten. A thread that records a miss reads this number twice:
     * before it asks the server, and after it has stored the key in its slot. All accesses to both
     * members are sequentially consistent. So one of two things happens. Either that thread sees
     * the new number and clears the slot, or it stored the key before the thread that forgets the
     * key cleared the slot. */
    _Atomic uint64_t generation;
    /* The high half of a slot is a part of the digest. The low half is the time in milliseconds. 0:
     * the slot is empty. */
    _Atomic uint64_t slots[KILNI_RECENT_MISSES_SLOTS];
} kilni_recent_misses;

/* Returns true if the server has just reported that it does not have the key. Two keys are confused
 * if they have the same slot and the same 32 bits of their digests. At worst, this causes a miss.
 */
bool kilni_recent_misses_has(kilni_recent_misses *misses, const kiln_digest *digest,
                             uint64_t now_ns);

/* Returns the generation, which the caller must pass to kilni_recent_misses_note. Must be called
 * before the server is asked. */
uint64_t kilni_recent_misses_begin(kilni_recent_misses *misses);

/* Records that the server does not have a key, unless a key was forgotten in the meantime. */
void kilni_recent_misses_note(kilni_recent_misses *misses, const kiln_digest *digest,
                              uint64_t now_ns, uint64_t generation);

/* Forgets a key, because the server may have it now. */
void kilni_recent_misses_forget(kilni_recent_misses *misses, const kiln_digest *digest);
