/* SPDX-License-Identifier: Apache-2.0 */
#include "digest_prefix.h"

#include <ctype.h>
#include <string.h>

#include "../text/exit_code.h"
#include "../text/output.h"

digest_prefix digest_prefix_parse(const char *text)
{
    size_t length = strlen(text);
    if (length < DIGEST_PREFIX_MIN || length >= KILN_DIGEST_TEXT_SIZE ||
        strspn(text, "0123456789abcdefABCDEF") != length) {
        complain("'%s' is not a prefix of a digest: %d to %d hexadecimal digits are expected", text,
                 DIGEST_PREFIX_MIN, KILN_DIGEST_TEXT_SIZE - 1);
        end_tool(EXIT_USAGE);
    }
    digest_prefix prefix = {.length = length};
    for (size_t i = 0; i < length; i++) {
        prefix.text[i] = (char)tolower((unsigned char)text[i]);
    }
    return prefix;
}

bool digest_prefix_is_whole(const digest_prefix *prefix)
{
    return prefix->length == KILN_DIGEST_TEXT_SIZE - 1;
}

bool digest_prefix_matches(const digest_prefix *prefix, const char *digest)
{
    return strncmp(prefix->text, digest, prefix->length) == 0;
}
