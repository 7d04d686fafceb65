/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

kiln_status kilni_text_reserve(kilni_text *text, size_t extra)
{
    size_t needed;
    if (text->has_failed || !kilni_size_add(text->length, extra, &needed) ||
        !kilni_size_add(needed, 1, &needed)) {
        text->has_failed = true;
        return KILN_E_NO_MEMORY;
    }
    if (needed <= text->capacity) {
        return KILN_OK;
    }
    size_t capacity = text->capacity < SIZE_MAX / 2 ? text->capacity * 2 : needed;
    if (capacity < needed) {
        capacity = needed;
    }
    char *bytes = realloc(text->bytes, capacity);
    if (!bytes) {
        text->has_failed = true;
        return KILN_E_NO_MEMORY;
    }
    text->bytes = bytes;
    text->capacity = capacity;
    text->bytes[text->length] = '\0';
    return KILN_OK;
}

kiln_status kilni_text_append_bytes(kilni_text *text, const void *bytes, size_t size)
{
    kiln_status status = kilni_text_reserve(text, size);
    if (status != KILN_OK) {
        return status;
    }
    if (size > 0) {
        memcpy(text->bytes + text->length, bytes, size);
    }
    text->length += size;
    text->bytes[text->length] = '\0';
    return KILN_OK;
}

kiln_status kilni_text_append(kilni_text *text, const char *string)
{
    return kilni_text_append_bytes(text, string, strlen(string));
}

kiln_status kilni_text_printf(kilni_text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);

    kiln_status status = length < 0 ? KILN_E_NO_MEMORY : kilni_text_reserve(text, (size_t)length);
    if (status == KILN_OK) {
        vsnprintf(text->bytes + text->length, (size_t)length + 1, format, again);
        text->length += (size_t)length;
    }
    va_end(again);
    return status;
}

void kilni_text_done(kilni_text *text)
{
    free(text->bytes);
    *text = (kilni_text){0};
}

size_t kilni_text_cut(const char *bytes, size_t length, size_t limit)
{
    if (length <= limit) {
        return length;
    }
    size_t cut = limit;
    /* A continuation byte (10xxxxxx) must stay with the byte before it. A character has at most
     * four bytes. If no character begins in the last four bytes, the bytes are not UTF-8, and can
     * be truncated anywhere. */
    while (cut > 0 && limit - cut < 4 && ((unsigned char)bytes[cut] & 0xc0) == 0x80) {
        cut--;
    }
    return limit - cut < 4 ? cut : limit;
}
