/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/key.h>

void kiln_digest_format(const kiln_digest *digest, char *text)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < sizeof digest->bytes; i++) {
        text[2 * i] = digits[digest->bytes[i] >> 4];
        text[2 * i + 1] = digits[digest->bytes[i] & 15];
    }
    text[KILN_DIGEST_TEXT_SIZE - 1] = '\0';
}

/* Returns the value of a hexadecimal digit, or -1 if the character is not one. */
static int value_of(char digit)
{
    if (digit >= '0' && digit <= '9') {
        return digit - '0';
    }
    if (digit >= 'a' && digit <= 'f') {
        return digit - 'a' + 10;
    }
    if (digit >= 'A' && digit <= 'F') {
        return digit - 'A' + 10;
    }
    return -1;
}

kiln_status kiln_digest_parse(const char *text, kiln_digest *ret_digest)
{
    if (!text || !ret_digest) {
        return KILN_E_PARSE;
    }
    kiln_digest digest;
    for (size_t i = 0; i < sizeof digest.bytes; i++) {
        int high = value_of(text[2 * i]);
        int low = high < 0 ? -1 : value_of(text[2 * i + 1]);
        if (low < 0) {
            return KILN_E_PARSE;
        }
        digest.bytes[i] = (unsigned char)(high << 4 | low);
    }
    if (text[KILN_DIGEST_TEXT_SIZE - 1] != '\0') {
        return KILN_E_PARSE;
    }
    *ret_digest = digest;
    return KILN_OK;
}
