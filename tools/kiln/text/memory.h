/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocations that end the tool with a message if memory runs out.
 */
#pragma once

#include <stdarg.h>
#include <stddef.h>

/* Returns @allocated; ends the tool if it is NULL. */
void *must(void *allocated);

/* Does the same for a call that returns 0 on success and fails only if memory runs out. */
void must_succeed(int result);

/* If a variable is declared with this, the memory that it points to is freed when the variable goes
 * out of scope. Like free, this keeps errno. */
#define owned __attribute__((cleanup(free_owned)))
void free_owned(void *variable);

/* These functions return the formatted text; the caller frees it. */
char *text_of(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *text_of_list(const char *format, va_list arguments) __attribute__((format(printf, 1, 0)));

/* Returns an array with room for at least @count + 1 items. This is either @items, or a larger
 * copy, in which case @items has been freed. */
void *array_grown(void *items, size_t count, size_t *capacity, size_t item_size);
