/* SPDX-License-Identifier: Apache-2.0
 *
 * XXH3-128 by the vector instructions of newer x86 processors: hash_wide.c, compiled once for each
 * set of them. The caller must know that the processor has them.
 */
#pragma once

#include <stddef.h>

typedef struct XXH3_state_s XXH3_state_t;

/* Writes the digest in canonical form. */
typedef void kilni_hash_wide_fn(const void *bytes, size_t size, unsigned char ret_digest[16]);

/* The state has the same layout for every set of instructions. */
typedef void kilni_hash_wide_add_fn(XXH3_state_t *state, const void *bytes, size_t size);

kilni_hash_wide_fn kilni_hash_avx2, kilni_hash_avx512f;
kilni_hash_wide_add_fn kilni_hash_add_avx2, kilni_hash_add_avx512f;
