/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

/* Returns the size of the text field in the caller's structure. */
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
    /* Every field before the text has existed since the first release, so a smaller struct_size is
     * invalid. */
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
