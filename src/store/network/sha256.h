/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256, and message authentication codes that are computed with it. The functions take no lock
 * and allocate no memory, so any thread may call them, even while another thread forks.
 */
#pragma once

#include <stddef.h>

#define KILNI_SHA256_SIZE 32u

void kilni_sha256(const void *bytes, size_t size, unsigned char ret_digest[KILNI_SHA256_SIZE]);

/* HMAC-SHA-256. @ret_code may point to the key. */
void kilni_hmac_sha256(const void *key, size_t key_size, const void *bytes, size_t size,
                       unsigned char ret_code[KILNI_SHA256_SIZE]);
