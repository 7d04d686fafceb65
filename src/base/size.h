/* SPDX-License-Identifier: Apache-2.0
 *
 * Checked arithmetic on sizes from untrusted sources. Each function returns true and the result,
 * or, if the result does not fit, returns false and writes nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/status.h>

/* The largest size in bytes of one part of a key, of one payload and of one entry. */
#define KILNI_MAX_BYTES ((uint64_t)1 << 40)

bool kilni_size_add(size_t a, size_t b, size_t *ret_sum);
bool kilni_size_multiply(size_t a, size_t b, size_t *ret_product);
bool kilni_u64_add(uint64_t a, uint64_t b, uint64_t *ret_sum);
bool kilni_u64_multiply(uint64_t a, uint64_t b, uint64_t *ret_product);

/* Implements kiln_size_parse. */
kiln_status kilni_size_parse(const char *text, uint64_t *ret_bytes);
