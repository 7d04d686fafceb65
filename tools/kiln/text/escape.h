/* SPDX-License-Identifier: Apache-2.0
 *
 * Text of unknown origin, such as names of programs, parts of keys and paths, made safe for
 * terminals.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Reads the UTF-8 character at @text. Returns how many bytes it takes; 0 if there is no valid
 * one. */
size_t character_read(const char *text, size_t available, uint32_t *ret_character);

/* Returns a copy in which each control character, and each byte that is not UTF-8, is escaped, as
 * in \n, \u001b, \u202e or, for a byte, \377. The result is one line; the caller frees it. Ends the
 * tool if memory runs out. */
char *escaped(const char *text, size_t size);
