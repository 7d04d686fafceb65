/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys that a server has just denied to have, so that this process does not ask for them again
 * at once. A program may repeat a request whose build failed, or ask for the same key in several
 * ways.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <kiln/key.h>

/* How long an answer is remembered. In this time, an entry that a different machine puts is not
 * seen, so at worst a key is built once more. That is why the time is much shorter than builds that
 * take a second, for which machines wait for each other. A process that takes a lease, or waits for
 * one, forgets the key's answer and asks again. */
#define KILNI_RECENT_MISSES_LAST_NS UINT64_C(250000000)

#define KILNI_RECENT_MISSES_SLOTS 256u

/* Zeroed, it has no keys. Keys that fall into the same slot displace each other. Threads: any. */
typedef struct kilni_recent_misses {
    /* Increased before a key is forgotten. A thread that records an answer reads it before it asks,
     * and again after the key is in its slot. All accesses to both members are sequentially
     * consistent: either that thread sees the new number and clears the slot, or the key was in the
     * slot before the thread that forgets the key cleared it. */
    _Atomic uint64_t generation;
    /* The high half is a part of the digest, and the low half is the time in milliseconds; 0:
     * empty. */
    _Atomic uint64_t slots[KILNI_RECENT_MISSES_SLOTS];
} kilni_recent_misses;

/* Whether the server has just denied to have the key. Two keys with the same slot and the same 32
 * bits of their digests are confused, which at worst is a miss. */
bool kilni_recent_misses_has(kilni_recent_misses *misses, const kiln_digest *digest,
                             uint64_t now_ns);

/* Returns the generation, to be passed to kilni_recent_misses_note. Must be called before the
 * server is asked. */
uint64_t kilni_recent_misses_begin(kilni_recent_misses *misses);

/* Records that the server has denied to have a key, unless a key was forgotten meanwhile. */
void kilni_recent_misses_note(kilni_recent_misses *misses, const kiln_digest *digest,
                              uint64_t now_ns, uint64_t generation);

/* Forgets a key, because the server may have it now. */
void kilni_recent_misses_forget(kilni_recent_misses *misses, const kiln_digest *digest);
