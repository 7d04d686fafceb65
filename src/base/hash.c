/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#include <string.h>

#if defined(__x86_64__)
/* Replaces XXH3_128bits with the variant that looks at the processor first; same results. */
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

kiln_digest kilni_hash(const void *bytes, size_t size)
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, size));
    kiln_digest digest;
    memcpy(digest.bytes, canonical.digest, sizeof digest.bytes);
    return digest;
}
