/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Reads an age above 0: a number of days, or a number with a suffix d, h, m or s. Returns false for
 * anything else. */
bool age_parse(const char *text, uint64_t *ret_seconds);
