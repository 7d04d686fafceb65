/* SPDX-License-Identifier: Apache-2.0
 *
 * std::hash<std::string> of libstdc++ on 64-bit machines, which the SYCL runtime uses to name its
 * directories. The length must be given first. After that, the bytes can be added in pieces.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct std_hash {
    uint64_t state;
} std_hash;

std_hash std_hash_begin(uint64_t length);

/* Adds a piece. The size of each piece except the last must be a multiple of 8. */
void std_hash_add(std_hash *hash, const void *bytes, size_t size);

uint64_t std_hash_end(const std_hash *hash);

/* Returns the hash of all bytes in a single call. */
uint64_t std_hash_of(const void *bytes, size_t size);
