/* SPDX-License-Identifier: Apache-2.0 */
#include "entry/signature.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#define BASE64_SIZE sodium_base64_ENCODED_LEN(32, sodium_base64_VARIANT_ORIGINAL)

_Static_assert(KILN_SIGNER_NAME_SIZE + BASE64_SIZE == KILN_PUBLIC_KEY_TEXT_SIZE,
               "name, colon, Base64, NUL");

static bool is_letter_or_digit(char character)
{
    return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
           (character >= '0' && character <= '9');
}

bool kilni_public_key_is_name(const char *bytes, size_t length)
{
    if (length == 0 || length >= KILN_SIGNER_NAME_SIZE || !is_letter_or_digit(bytes[0])) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        if (!is_letter_or_digit(bytes[i]) && bytes[i] != '.' && bytes[i] != '_' &&
            bytes[i] != '-') {
            return false;
        }
    }
    return true;
}

kiln_status kiln_public_key_parse(const char *text, kiln_public_key *ret_key)
{
    if (!text || !ret_key) {
        return KILN_E_INVALID;
    }
    kiln_public_key key = {0};
    const size_t length = strcspn(text, ":");
    if (!kilni_public_key_is_name(text, length) || text[length] != ':') {
        return KILN_E_PARSE;
    }
    memcpy(key.name, text, length);
    const char *encoded = text + length + 1;
    size_t size;
    if (strlen(encoded) != BASE64_SIZE - 1 ||
        sodium_base642bin(key.bytes, sizeof key.bytes, encoded, BASE64_SIZE - 1, NULL, &size, NULL,
                          sodium_base64_VARIANT_ORIGINAL) != 0 ||
        size != sizeof key.bytes) {
        return KILN_E_PARSE;
    }
    *ret_key = key;
    return KILN_OK;
}

void kiln_public_key_format(const kiln_public_key *key, char ret_text[KILN_PUBLIC_KEY_TEXT_SIZE])
{
    char encoded[BASE64_SIZE];
    sodium_bin2base64(encoded, sizeof encoded, key->bytes, sizeof key->bytes,
                      sodium_base64_VARIANT_ORIGINAL);
    snprintf(ret_text, KILN_PUBLIC_KEY_TEXT_SIZE, "%.*s:%s", KILN_SIGNER_NAME_SIZE - 1, key->name,
             encoded);
}
