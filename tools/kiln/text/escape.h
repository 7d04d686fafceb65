/* SPDX-License-Identifier: Apache-2.0
 *
 * Text that others wrote, for people to read: names of programs, parts of keys, paths.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether a terminal would act on a character, or show what follows in another order: C0 and C1
 * controls, and those of bidirectional text. */
bool character_is_control(uint32_t character);

/* The UTF-8 character at @text, and how many bytes it takes; 0 where there is none. */
size_t character_read(const char *text, size_t available, uint32_t *ret_character);

/* A copy in which every control character and every byte that is not UTF-8 is written out, as in
 * \n, \u001b, \u202e or, of a byte, \377. One line, whatever it was. To be given back with free;
 * ends the process without memory. */
char *escaped(const char *text, size_t size);
