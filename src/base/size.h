/* SPDX-License-Identifier: Apache-2.0
 *
 * Checked arithmetic on sizes from untrusted sources, and arrays that grow.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/status.h>

/* The maximum size, in bytes, of a part of a key, of a payload and of an entry. */
#define KILNI_MAX_BYTES ((uint64_t)1 << 40)

/* If the result fits, each of these returns true and the result. Otherwise it returns false and
 * writes nothing. */
bool kilni_size_add(size_t a, size_t b, size_t *ret_sum);
bool kilni_size_multiply(size_t a, size_t b, size_t *ret_product);
bool kilni_u64_add(uint64_t a, uint64_t b, uint64_t *ret_sum);
bool kilni_u64_multiply(uint64_t a, uint64_t b, uint64_t *ret_product);

/* Returns an array with room for at least @count + 1 items: @items itself, or a larger copy that
 * replaces @items. If memory runs out, returns NULL and does not change @items. */
void *kilni_array_grown(void *items, size_t count, size_t *capacity, size_t item_size);

/* Implements kiln_size_parse. */
kiln_status kilni_size_parse(const char *text, uint64_t *ret_bytes);
