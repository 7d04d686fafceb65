/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <kiln/key.h>

/* Computes XXH3-128 in canonical (big-endian) form, with the widest instructions that this
 * processor has. */
kiln_digest kilni_hash(const void *bytes, size_t size);

/* Returns the first eight bytes of kilni_hash as a number, as a checksum for small files. */
uint64_t kilni_checksum(const void *bytes, size_t size);

/* Computes XXH3-64 with a random secret of this process. A forked child keeps the secret. The hash
 * is for tables in memory, and is never stored. XXH3-128 has no secret, so anyone can compute
 * inputs with equal digests. The keyed hashes of such inputs differ, so nobody can fill a table
 * with keys that all collide. */
uint64_t kilni_hash_keyed(const void *bytes, size_t size);

/* Computes kilni_hash of bytes that arrive in pieces. */
typedef struct kilni_hasher {
    _Alignas(64) unsigned char state[576];
} kilni_hasher;

void kilni_hasher_begin(kilni_hasher *hasher);
void kilni_hasher_add(kilni_hasher *hasher, const void *bytes, size_t size);
kiln_digest kilni_hasher_end(const kilni_hasher *hasher);
