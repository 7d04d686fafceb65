/* SPDX-License-Identifier: Apache-2.0 */
#include "device/pasted_names.h"

#include <string.h>

bool kilni_pasted_names_note(kilni_pasted_names *pieces, const char *word, const char *name,
                             size_t length)
{
    const size_t size = strlen(word);
    for (size_t b = 0; b + length <= size; b++) {
        if (memcmp(word + b, name, length) == 0) {
            pieces->ends[b] |= UINT32_C(1) << (b + length);
        }
    }
    return length == size && memcmp(word, name, length) == 0;
}

bool kilni_pasted_names_make(const kilni_pasted_names *pieces, const char *word)
{
    const uint32_t whole = UINT32_C(1) << strlen(word);
    uint32_t reached = 1 | (pieces->ends[0] & ~whole);
    for (size_t b = 1; word[b]; b++) {
        reached |= reached & UINT32_C(1) << b ? pieces->ends[b] : 0;
    }
    return reached & whole;
}
