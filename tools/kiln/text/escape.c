/* SPDX-License-Identifier: Apache-2.0 */
#include "escape.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

#define LONGEST_ESCAPE 6u /* \u202e */

/* Returns true if a terminal would act on a character, or show the text after it in a different
 * order. Such characters are C0 and C1 controls, line and paragraph separators, and controls of
 * bidirectional text. */
static bool is_control(uint32_t c)
{
    const bool is_c0_or_c1 = c < 0x20 || (c >= 0x7f && c <= 0x9f);
    const bool is_bidi = c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) ||
                         (c >= 0x2066 && c <= 0x2069);
    const bool is_line_end = c == 0x2028 || c == 0x2029;
    return is_c0_or_c1 || is_bidi || is_line_end;
}

size_t character_read(const char *text, size_t available, uint32_t *ret_character)
{
    const unsigned char *bytes = (const unsigned char *)text;
    const unsigned char first = bytes[0];
    const size_t size = first < 0x80   ? 1
                        : first < 0xC2 ? 0
                        : first < 0xE0 ? 2
                        : first < 0xF0 ? 3
                        : first < 0xF5 ? 4
                                       : 0;
    if (size == 0 || size > available) {
        return 0;
    }
    uint32_t character = size == 1 ? first : first & (0x7fu >> size);
    for (size_t i = 1; i < size; i++) {
        if ((bytes[i] & 0xC0) != 0x80) {
            return 0;
        }
        character = character << 6 | (bytes[i] & 0x3fu);
    }
    const bool is_overlong = (size == 3 && character < 0x800) || (size == 4 && character < 0x10000);
    const bool is_surrogate = character >= 0xd800 && character <= 0xdfff;
    if (is_overlong || is_surrogate || character > 0x10ffff) {
        return 0;
    }
    *ret_character = character;
    return size;
}

/* Each form has a fixed length, so the text after it can't be taken for a part of it. */
static int write_escape(char *to, uint32_t character, bool is_byte)
{
    switch (is_byte ? 0 : character) {
    case '\n':
        return sprintf(to, "\\n");
    case '\r':
        return sprintf(to, "\\r");
    case '\t':
        return sprintf(to, "\\t");
    default:
        return sprintf(to, is_byte ? "\\%03o" : "\\u%04x", (unsigned)character);
    }
}

char *escaped(const char *text, size_t size)
{
    if (size > (SIZE_MAX - LONGEST_ESCAPE - 1) / LONGEST_ESCAPE) {
        must(NULL);
    }
    char *result = must(malloc(size * LONGEST_ESCAPE + LONGEST_ESCAPE + 1));
    char *to = result;
    for (size_t i = 0; i < size;) {
        uint32_t character = (unsigned char)text[i];
        const size_t length = character_read(text + i, size - i, &character);
        if (length == 0 || is_control(character)) {
            to += write_escape(to, character, length == 0);
        } else {
            memcpy(to, text + i, length);
            to += length;
        }
        i += length > 0 ? length : 1;
    }
    *to = '\0';
    return result;
}
