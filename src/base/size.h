/* SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic on sizes that may come from anywhere: true and the result, or false where it does not
 * fit; then the result is not written.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/status.h>

/* What one part of a key, one payload and one entry may have at most, in bytes. */
#define KILNI_MAX_BYTES ((uint64_t)1 << 40)

bool kilni_size_add(size_t a, size_t b, size_t *ret_sum);
bool kilni_size_multiply(size_t a, size_t b, size_t *ret_product);
bool kilni_u64_add(uint64_t a, uint64_t b, uint64_t *ret_sum);
bool kilni_u64_multiply(uint64_t a, uint64_t b, uint64_t *ret_product);

/* What kiln_size_parse is. */
kiln_status kilni_size_parse(const char *text, uint64_t *ret_bytes);
