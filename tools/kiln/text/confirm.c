/* SPDX-License-Identifier: Apache-2.0 */
#include "confirm.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "escape.h"
#include "memory.h"

bool confirmed(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    owned char *question = text_of_list(format, arguments);
    va_end(arguments);
    owned char *shown = escaped(question, strlen(question));
    fprintf(stderr, "%s [y/N] ", shown);

    owned char *answer = NULL;
    size_t capacity = 0;
    ssize_t length = getline(&answer, &capacity, stdin);
    return length > 0 && (answer[0] == 'y' || answer[0] == 'Y');
}
