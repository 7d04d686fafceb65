/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocations that end the tool if memory is out.
 */
#pragma once

/* Returns @allocated. If it is NULL, ends the tool with a message. */
void *must(void *allocated);

/* The same for a call that fails only if memory is out: it returns 0 on success. */
void must_succeed(int result);

/* The formatted text, to be freed. */
char *text_of(const char *format, ...) __attribute__((format(printf, 1, 2)));
