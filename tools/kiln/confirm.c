/* SPDX-License-Identifier: Apache-2.0 */
#include "confirm.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

bool confirmed(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputs(" [y/N] ", stderr);

    char *answer = NULL;
    size_t capacity = 0;
    ssize_t length = getline(&answer, &capacity, stdin);
    bool yes = length > 0 && (answer[0] == 'y' || answer[0] == 'Y');
    free(answer);
    return yes;
}
