/* SPDX-License-Identifier: Apache-2.0 */
#include "store/network/value_hash.h"

#include <stdlib.h>

#include "store/remote/connector.h"

/* Smaller values are not hashed. Fetching them from another processor's cache takes less than two
 * microseconds. */
#define SMALLEST 32768u

_Static_assert(SMALLEST > KILNI_REMOTE_UNHASHED, "a value that is hashed has bytes to hash");
_Static_assert(sizeof(kilni_hasher) % _Alignof(kilni_hasher) == 0, "as aligned_alloc requires");

void kilni_value_hash_begin(kilni_value_hash *hash, size_t size)
{
    kilni_value_hash_done(hash);
    if (size < SMALLEST) {
        return;
    }
    hash->hasher = aligned_alloc(_Alignof(kilni_hasher), sizeof *hash->hasher);
    if (hash->hasher) {
        kilni_hasher_begin(hash->hasher);
        hash->left = size - KILNI_REMOTE_UNHASHED;
    }
}

void kilni_value_hash_add(kilni_value_hash *hash, const void *bytes, size_t count)
{
    const size_t covered = count < hash->left ? count : hash->left;
    if (hash->hasher && covered > 0) {
        kilni_hasher_add(hash->hasher, bytes, covered);
        hash->left -= covered;
    }
}

bool kilni_value_hash_end(kilni_value_hash *hash, kiln_digest *ret_hash)
{
    const bool is_complete = hash->hasher && hash->left == 0;
    if (is_complete) {
        *ret_hash = kilni_hasher_end(hash->hasher);
    }
    kilni_value_hash_done(hash);
    return is_complete;
}

void kilni_value_hash_done(kilni_value_hash *hash)
{
    free(hash->hasher);
    *hash = (kilni_value_hash){.hasher = NULL};
}
