/* SPDX-License-Identifier: Apache-2.0 */
#include "std_hash.h"

#define SEED 0xC70F6907u
#define FACTOR 0xC6A4A7935BD1E995u

static uint64_t load_le(const unsigned char *bytes, size_t size)
{
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++) {
        value |= (uint64_t)bytes[i] << (8 * i);
    }
    return value;
}

static uint64_t shift_mix(uint64_t value)
{
    return value ^ (value >> 47);
}

std_hash std_hash_begin(uint64_t length)
{
    return (std_hash){SEED ^ (length * FACTOR)};
}

void std_hash_add(std_hash *hash, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    for (; size >= 8; at += 8, size -= 8) {
        hash->state ^= shift_mix(load_le(at, 8) * FACTOR) * FACTOR;
        hash->state *= FACTOR;
    }
    if (size > 0) {
        hash->state ^= load_le(at, size);
        hash->state *= FACTOR;
    }
}

uint64_t std_hash_end(const std_hash *hash)
{
    return shift_mix(shift_mix(hash->state) * FACTOR);
}

uint64_t std_hash_of(const void *bytes, size_t size)
{
    std_hash hash = std_hash_begin(size);
    std_hash_add(&hash, bytes, size);
    return std_hash_end(&hash);
}
