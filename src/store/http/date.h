/* SPDX-License-Identifier: Apache-2.0
 *
 * The dates in the heads of HTTP answers. Does no I/O.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads a date such as "Sun, 06 Nov 1994 08:49:37 GMT". Servers must use this form. The day of the
 * week is ignored.
 *
 * @ret_time_s  [out] seconds since the beginning of 1970
 * Returns false if the text is not such a date, or if the date is before 1970. */
bool kilni_http_date_read(const char *text, size_t size, uint64_t *ret_time_s);
