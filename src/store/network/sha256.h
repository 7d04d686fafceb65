/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes SHA-256 hashes, and message authentication codes based on them. The functions take no
 * lock and allocate no memory. So any thread is allowed to call them, even while another thread
 * forks.
 */
#pragma once

#include <stddef.h>

#define KILNI_SHA256_SIZE 32u

void kilni_sha256(const void *bytes, size_t size, unsigned char ret_digest[KILNI_SHA256_SIZE]);

/* HMAC-SHA-256. @ret_code may point to the key. */
void kilni_hmac_sha256(const void *key, size_t key_size, const void *bytes, size_t size,
                       unsigned char ret_code[KILNI_SHA256_SIZE]);
