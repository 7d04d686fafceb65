/* SPDX-License-Identifier: Apache-2.0
 *
 * The hash of a value that arrives in pieces (see kilni_remote_bytes). The I/O thread adds each
 * piece while the piece is in its processor's cache. The thread that waits for the value usually
 * runs on a different processor, and would have to fetch every byte from that cache to hash it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "key/hash.h"

/* A zeroed hash is that of a value that is not hashed. */
typedef struct kilni_value_hash {
    kilni_hasher *hasher; /* NULL: the value is not hashed */
    size_t left;          /* how many of the bytes that the hash covers have not arrived */
} kilni_value_hash;

/* Begins the hash of a value of @size bytes. A small value, for which this is not worthwhile, is
 * not hashed, and neither is any value if memory has run out. */
void kilni_value_hash_begin(kilni_value_hash *hash, size_t size);

/* Adds the next bytes of the value. */
void kilni_value_hash_add(kilni_value_hash *hash, const void *bytes, size_t count);

/* Returns true and sets @ret_hash if the value was hashed to its end. In either case, releases what
 * the hash holds. */
bool kilni_value_hash_end(kilni_value_hash *hash, kiln_digest *ret_hash);

/* Releases what the hash holds. */
void kilni_value_hash_done(kilni_value_hash *hash);
