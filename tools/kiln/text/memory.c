/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "exit_code.h"
#include "progress.h"

void *must(void *allocated)
{
    if (allocated == NULL) {
        progress_hide();
        fflush(stdout);
        fputs("kiln: out of memory\n", stderr);
        exit(EXIT_IO);
    }
    return allocated;
}

void must_succeed(int result)
{
    if (result != 0) {
        must(NULL);
    }
}

char *text_of(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = NULL;
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    return must(length < 0 ? NULL : text);
}
