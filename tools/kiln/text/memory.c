/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

void free_owned(void *variable)
{
    void *allocated;
    memcpy(&allocated, variable, sizeof allocated);
    free(allocated);
}

char *text_of_list(const char *format, va_list arguments)
{
    char *text = NULL;
    int length = vasprintf(&text, format, arguments);
    return must(length < 0 ? NULL : text);
}

char *text_of(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = text_of_list(format, arguments);
    va_end(arguments);
    return text;
}

void *array_grown(void *items, size_t count, size_t *capacity, size_t item_size)
{
    if (count < *capacity) {
        return items;
    }
    *capacity = *capacity == 0 ? 16 : *capacity * 2;
    return must(reallocarray(items, *capacity, item_size));
}
