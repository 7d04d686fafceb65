/* SPDX-License-Identifier: Apache-2.0 */
#include "store/remote/recent_misses.h"

#include <string.h>

#define NS_PER_MS UINT64_C(1000000)
#define LOW_HALF UINT64_C(0xffffffff)

static _Atomic uint64_t *slot_of(kilni_recent_misses *misses, const kiln_digest *digest)
{
    return &misses->slots[digest->bytes[0] % KILNI_RECENT_MISSES_SLOTS];
}

/* Returns the high half of the slot for a key. It is never 0. */
static uint64_t tag_of(const kiln_digest *digest)
{
    uint32_t tag;
    memcpy(&tag, digest->bytes + 4, sizeof tag);
    return (uint64_t)(tag | 1u) << 32;
}

/* Only the low halves are subtracted, so the age is right even if the time has wrapped around.
 * After 50 days, a slot can seem recent again. */
bool kilni_recent_misses_has(kilni_recent_misses *misses, const kiln_digest *digest,
                             uint64_t now_ns)
{
    const uint64_t slot = atomic_load(slot_of(misses, digest));
    const uint64_t age_ms = (now_ns / NS_PER_MS - slot) & LOW_HALF;
    return (slot & ~LOW_HALF) == tag_of(digest) && age_ms < KILNI_RECENT_MISSES_LAST_NS / NS_PER_MS;
}

uint64_t kilni_recent_misses_begin(kilni_recent_misses *misses)
{
    return atomic_load(&misses->generation);
}

void kilni_recent_misses_note(kilni_recent_misses *misses, const kiln_digest *digest,
                              uint64_t now_ns, uint64_t generation)
{
    _Atomic uint64_t *slot = slot_of(misses, digest);
    const uint64_t noted = tag_of(digest) | (now_ns / NS_PER_MS & LOW_HALF);
    atomic_store(slot, noted);
    if (atomic_load(&misses->generation) != generation) {
        atomic_store(slot, 0);
    }
}

void kilni_recent_misses_forget(kilni_recent_misses *misses, const kiln_digest *digest)
{
    atomic_fetch_add(&misses->generation, 1);
    atomic_store(slot_of(misses, digest), 0);
}
