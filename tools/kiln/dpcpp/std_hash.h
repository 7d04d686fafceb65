/* SPDX-License-Identifier: Apache-2.0
 *
 * std::hash<std::string> of libstdc++ on 64-bit machines, which the SYCL runtime uses to name its
 * directories. It needs the length first, and takes the bytes in pieces.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct std_hash {
    uint64_t state;
} std_hash;

std_hash std_hash_begin(uint64_t length);

/* Each piece except the last must have a multiple of 8 bytes. */
void std_hash_add(std_hash *hash, const void *bytes, size_t size);

uint64_t std_hash_end(const std_hash *hash);

/* Hashes all bytes at once. */
uint64_t std_hash_of(const void *bytes, size_t size);
