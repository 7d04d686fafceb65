/* SPDX-License-Identifier: Apache-2.0
 *
 * The dates in the heads of HTTP answers, and in lists of S3. Does no I/O.
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

/* Does the same for a date such as "1994-11-06T08:49:37.000Z". Fractions of seconds are ignored. */
bool kilni_http_date_read_iso(const char *text, size_t size, uint64_t *ret_time_s);
