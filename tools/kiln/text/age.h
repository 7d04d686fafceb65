/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Reads an age above 0: a number of days, or one with a suffix d, h, m or s. */
bool age_parse(const char *text, uint64_t *ret_seconds);
