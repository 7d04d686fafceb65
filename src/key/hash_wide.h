/* SPDX-License-Identifier: Apache-2.0
 *
 * XXH3 with the vector instructions of newer x86 processors. hash_wide.c is compiled once for each
 * instruction set. A caller must select a set that the processor supports.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct XXH3_state_s XXH3_state_t;

/* Writes the digest in canonical form. */
typedef void kilni_hash_wide_fn(const void *bytes, size_t size, unsigned char ret_digest[16]);

/* XXH3-64 with a secret. */
typedef uint64_t kilni_hash_wide_keyed_fn(const void *bytes, size_t size, const void *secret,
                                          size_t secret_size);

/* The state is the same structure for every instruction set. */
typedef void kilni_hash_wide_add_fn(XXH3_state_t *state, const void *bytes, size_t size);

kilni_hash_wide_fn kilni_hash_avx2, kilni_hash_avx512f;
kilni_hash_wide_keyed_fn kilni_hash_keyed_avx2, kilni_hash_keyed_avx512f;
kilni_hash_wide_add_fn kilni_hash_add_avx2, kilni_hash_add_avx512f;
