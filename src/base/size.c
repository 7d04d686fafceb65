/* SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"

#include <stdlib.h>
#include <strings.h>

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

/* Returns the factor of a suffix, or 0 if the text is not a suffix. */
static uint64_t unit_of(const char *suffix)
{
    static const char letters[] = "kmgt";
    const char *rest = suffix + 1;
    const bool is_binary = *rest == '\0' || strcasecmp(rest, "iB") == 0;
    if (!is_binary && strcasecmp(rest, "B") != 0) {
        return 0;
    }
    uint64_t factor = 1;
    for (const char *letter = letters; *letter; letter++) {
        factor *= is_binary ? 1024 : 1000;
        if (*letter == (*suffix | ('a' ^ 'A'))) {
            return factor;
        }
    }
    return 0;
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
        const uint64_t unit = unit_of(text);
        if (unit == 0 || !kilni_u64_multiply(number, unit, &number)) {
            return KILN_E_PARSE;
        }
    }
    *ret_bytes = number;
    return KILN_OK;
}
