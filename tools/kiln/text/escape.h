/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes text of unknown origin safe for terminals. Such text is, for example, a program's name, a
 * part of a key, or a path.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Reads the UTF-8 character at @text. Returns how many bytes the character takes; 0 if there is no
 * valid character. */
size_t character_read(const char *text, size_t available, uint32_t *ret_character);

/* Returns a copy in which each control character, and each byte that is not UTF-8, is escaped: for
 * example, a control character becomes \n, \u001b or \u202e, and a byte becomes \377. The result is
 * a single line; the caller frees it. Ends the tool if memory runs out. */
char *escaped(const char *text, size_t size);
