/* SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"

#include <stdlib.h>

#define FIRST_CAPACITY 16u

bool kilni_size_add(size_t a, size_t b, size_t *ret_sum)
{
    size_t sum;
    if (__builtin_add_overflow(a, b, &sum)) {
        return false;
    }
    *ret_sum = sum;
    return true;
}

bool kilni_size_multiply(size_t a, size_t b, size_t *ret_product)
{
    size_t product;
    if (__builtin_mul_overflow(a, b, &product)) {
        return false;
    }
    *ret_product = product;
    return true;
}

bool kilni_u64_add(uint64_t a, uint64_t b, uint64_t *ret_sum)
{
    uint64_t sum;
    if (__builtin_add_overflow(a, b, &sum)) {
        return false;
    }
    *ret_sum = sum;
    return true;
}

bool kilni_u64_multiply(uint64_t a, uint64_t b, uint64_t *ret_product)
{
    uint64_t product;
    if (__builtin_mul_overflow(a, b, &product)) {
        return false;
    }
    *ret_product = product;
    return true;
}

void *kilni_array_grown(void *items, size_t count, size_t *capacity, size_t item_size)
{
    if (count < *capacity) {
        return items;
    }
    size_t larger = FIRST_CAPACITY, size;
    if ((*capacity && !kilni_size_multiply(*capacity, 2, &larger)) ||
        !kilni_size_multiply(larger, item_size, &size)) {
        return NULL;
    }
    void *grown = realloc(items, size);
    *capacity = grown ? larger : *capacity;
    return grown;
}

/* Returns the factor of a suffix, or 0 if the character is not a suffix. */
static uint64_t unit_of(char suffix)
{
    switch (suffix) {
    case 'K':
    case 'k':
        return (uint64_t)1 << 10;
    case 'M':
    case 'm':
        return (uint64_t)1 << 20;
    case 'G':
    case 'g':
        return (uint64_t)1 << 30;
    case 'T':
    case 't':
        return (uint64_t)1 << 40;
    default:
        return 0;
    }
}

kiln_status kilni_size_parse(const char *text, uint64_t *ret_bytes)
{
    if (!text || *text < '0' || *text > '9') {
        return KILN_E_PARSE;
    }
    uint64_t number = 0;
    for (; *text >= '0' && *text <= '9'; text++) {
        if (!kilni_u64_multiply(number, 10, &number) ||
            !kilni_u64_add(number, (uint64_t)(*text - '0'), &number)) {
            return KILN_E_PARSE;
        }
    }
    if (*text != '\0') {
        uint64_t unit = unit_of(*text);
        if (unit == 0 || text[1] != '\0' || !kilni_u64_multiply(number, unit, &number)) {
            return KILN_E_PARSE;
        }
    }
    *ret_bytes = number;
    return KILN_OK;
}
