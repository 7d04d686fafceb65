/* SPDX-License-Identifier: Apache-2.0 */
#include "key_part.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../text/json.h"
#include "../text/memory.h"

/* Tables show no texts or other values that are longer than these. */
#define INLINE_TEXT_MAX 100
#define INLINE_BYTES_MAX 32
#define PART_DIGEST_SIZE 32

bool key_part_is_text(const kiln_key_part *part)
{
    if (part->bytes == NULL && part->size > 0) {
        return false;
    }
    const unsigned char *bytes = part->bytes;
    for (uint64_t i = 0; i < part->size; i++) {
        if (!isprint(bytes[i]) && bytes[i] < 0x80 && !isspace(bytes[i])) {
            return false;
        }
    }
    return true;
}

bool key_part_is_short(const kiln_key_part *part)
{
    return key_part_is_text(part) && part->size <= INLINE_TEXT_MAX &&
           (part->size == 0 || memchr(part->bytes, '\n', part->size) == NULL);
}

/* Returns hexadecimal digits; the caller frees them. */
static char *hexadecimal(const unsigned char *bytes, size_t size)
{
    char *text = must(malloc(2 * size + 1));
    for (size_t i = 0; i < size; i++) {
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    }
    text[2 * size] = '\0';
    return text;
}

char *key_part_value(const kiln_key_part *part)
{
    if (part->bytes == NULL && part->digest != NULL) {
        owned char *digest = hexadecimal(part->digest, PART_DIGEST_SIZE);
        return text_of("blake2b %s", digest);
    }
    if (key_part_is_text(part)) {
        return key_part_is_short(part) ? text_of("%.*s", (int)part->size, (const char *)part->bytes)
                                       : text_of("(text)");
    }
    if (part->size <= INLINE_BYTES_MAX) {
        return hexadecimal(part->bytes, part->size);
    }
    return text_of("(bytes)");
}

json_t *key_part_to_json(const kiln_key_part *part)
{
    json_t *object = must(json_object());
    json_add(object, "name", json_text_or_null(part->name));
    json_add(object, "size", json_number(part->size));
    if (part->bytes == NULL && part->digest != NULL) {
        owned char *digest = hexadecimal(part->digest, PART_DIGEST_SIZE);
        json_add(object, "blake2b", json_text_or_null(digest));
    } else if (key_part_is_text(part)) {
        json_add(object, "text", json_text(part->bytes, part->size));
    } else if (part->size <= INLINE_BYTES_MAX) {
        owned char *bytes = hexadecimal(part->bytes, part->size);
        json_add(object, "hex", json_text_or_null(bytes));
    }
    return object;
}
