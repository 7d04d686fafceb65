/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers with units.
 */
#pragma once

#include <stdint.h>

/* Size of the buffers for the texts below. */
#define UNIT_TEXT_SIZE 32

/* Each function below writes a text to a buffer, and returns the buffer. */

/* "812 B", "1.4 MiB". */
char *format_size(uint64_t bytes, char *text);

/* "256 ms", "2.31 s", "3 min 12 s". */
char *format_duration(uint64_t nanoseconds, char *text);

/* "2031-07-24 09:15:00", local time. */
char *format_time(int64_t unix_s, char *text);
