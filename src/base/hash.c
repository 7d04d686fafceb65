/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#include <string.h>

/* Tells what a state is, so that it needs no memory of its own. */
#define XXH_STATIC_LINKING_ONLY
#if defined(__x86_64__)
/* Replaces XXH3_128bits with the variant that looks at the processor first; same results. */
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

static kiln_digest digest_of(XXH128_hash_t hash)
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, hash);
    kiln_digest digest;
    memcpy(digest.bytes, canonical.digest, sizeof digest.bytes);
    return digest;
}

kiln_digest kilni_hash(const void *bytes, size_t size)
{
    return digest_of(XXH3_128bits(bytes, size));
}

_Static_assert(sizeof(XXH3_state_t) <= sizeof(kilni_hasher), "a hasher has room for a state");
_Static_assert(_Alignof(XXH3_state_t) <= _Alignof(kilni_hasher), "and is aligned for it");

void kilni_hasher_begin(kilni_hasher *hasher)
{
    XXH3_state_t *state = (XXH3_state_t *)(void *)hasher->state;
    XXH3_INITSTATE(state);
    XXH3_128bits_reset(state);
}

void kilni_hasher_add(kilni_hasher *hasher, const void *bytes, size_t size)
{
    XXH3_128bits_update((XXH3_state_t *)(void *)hasher->state, bytes, size);
}

kiln_digest kilni_hasher_end(const kilni_hasher *hasher)
{
    return digest_of(XXH3_128bits_digest((const XXH3_state_t *)(const void *)hasher->state));
}
