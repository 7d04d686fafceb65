/* SPDX-License-Identifier: Apache-2.0 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <string.h>

#include "key/hash_wide.h"

/* KILNI_INSTRUCTIONS is the compiler's name of the instruction set. */
#define JOIN(left, right) left##right
#define NAME_FOR(function, instructions) JOIN(function, instructions)

void NAME_FOR(kilni_hash_, KILNI_INSTRUCTIONS)(const void *bytes, size_t size,
                                               unsigned char ret_digest[16])
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, size));
    memcpy(ret_digest, canonical.digest, sizeof canonical.digest);
}

uint64_t NAME_FOR(kilni_hash_keyed_, KILNI_INSTRUCTIONS)(const void *bytes, size_t size,
                                                         const void *secret, size_t secret_size)
{
    return XXH3_64bits_withSecret(bytes, size, secret, secret_size);
}

void NAME_FOR(kilni_hash_add_, KILNI_INSTRUCTIONS)(XXH3_state_t *state, const void *bytes,
                                                   size_t size)
{
    XXH3_128bits_update(state, bytes, size);
}
