/* SPDX-License-Identifier: Apache-2.0
 *
 * A run of bytes that grows. Zeroed, it is empty. An append that fails leaves it as it was.
 */
#pragma once

#include <stddef.h>

#include <kiln/status.h>

typedef struct kilni_text {
    char *bytes;   /* length bytes and a closing zero; NULL before the first append */
    size_t length; /* without the closing zero */
    size_t capacity;
} kilni_text;

/* Makes room for @extra more bytes, so that appends of that many can't fail. */
kiln_status kilni_text_reserve(kilni_text *text, size_t extra);

/* Each returns KILN_OK or KILN_E_NO_MEMORY. @bytes may be NULL where size is 0. */
kiln_status kilni_text_append_bytes(kilni_text *text, const void *bytes, size_t size);
kiln_status kilni_text_append(kilni_text *text, const char *string);
kiln_status kilni_text_printf(kilni_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Frees the bytes; the text is empty again. */
void kilni_text_done(kilni_text *text);

/* The greatest length up to @limit at which cutting @length bytes splits no UTF-8 character. */
size_t kilni_text_cut(const char *bytes, size_t length, size_t limit);
