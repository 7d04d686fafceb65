/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#include <string.h>

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

/* A kilni_hash_stream is an XXH3_state_t, whose size is the library's own affair. */

kilni_hash_stream *kilni_hash_stream_new(void)
{
    XXH3_state_t *state = XXH3_createState();
    if (state) {
        XXH3_128bits_reset(state);
    }
    return (kilni_hash_stream *)state;
}

void kilni_hash_stream_add(kilni_hash_stream *stream, const void *bytes, size_t size)
{
    XXH3_128bits_update((XXH3_state_t *)stream, bytes, size);
}

kiln_digest kilni_hash_stream_digest(const kilni_hash_stream *stream)
{
    return digest_of(XXH3_128bits_digest((const XXH3_state_t *)stream));
}

void kilni_hash_stream_free(kilni_hash_stream *stream)
{
    XXH3_freeState((XXH3_state_t *)stream);
}
