/* SPDX-License-Identifier: Apache-2.0
 *
 * A string of bytes that grows. A zeroed structure is an empty text. An append that fails leaves
 * the text unchanged, and all later appends fail too. So a caller needs to check only the last
 * append.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <kiln/status.h>

typedef struct kilni_text {
    char *bytes;   /* length bytes and a terminating NUL; NULL before the first append */
    size_t length; /* without the terminating NUL */
    size_t capacity;
    bool has_failed; /* memory ran out */
} kilni_text;

/* Makes room for @extra more bytes. Appending this number of bytes then cannot fail. */
kiln_status kilni_text_reserve(kilni_text *text, size_t extra);

/* Each returns KILN_OK or KILN_E_NO_MEMORY. @bytes may be NULL if size is 0. */
kiln_status kilni_text_append_bytes(kilni_text *text, const void *bytes, size_t size);
kiln_status kilni_text_append(kilni_text *text, const char *string);
kiln_status kilni_text_printf(kilni_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Frees the bytes and makes the text empty. */
void kilni_text_done(kilni_text *text);

/* Returns the greatest length up to @limit to which @bytes can be truncated without splitting a
 * UTF-8 character. */
size_t kilni_text_cut(const char *bytes, size_t length, size_t limit);
