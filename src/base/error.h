/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <kiln/status.h>

/* Describes a failure in words and returns @status, so that a caller can write
 * `return kilni_error_set(error, KILN_E_IO, errno, "%s: can't be read", path);`.
 *
 * @error         may be NULL; only the fields within its struct_size are written
 * @system_error  errno, or 0 */
kiln_status kilni_error_set(kiln_error *error, kiln_status status, int system_error,
                            const char *format, ...) __attribute__((format(printf, 4, 5)));
