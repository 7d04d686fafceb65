/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

/* Bytes of the text field that the caller's structure has. */
static size_t text_capacity(const kiln_error *error)
{
    size_t before = offsetof(kiln_error, text);
    if (error->struct_size <= before) {
        return 0;
    }
    size_t capacity = error->struct_size - before;
    return capacity < sizeof error->text ? capacity : sizeof error->text;
}

kiln_status kilni_error_set(kiln_error *error, kiln_status status, int system_error,
                            const char *format, ...)
{
    /* The first release has all fields: less than the fixed ones is no kiln_error. */
    if (!error || error->struct_size < offsetof(kiln_error, text)) {
        return status;
    }
    error->status = status;
    error->system_error = system_error;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, text_capacity(error), format, arguments);
    va_end(arguments);
    return status;
}
