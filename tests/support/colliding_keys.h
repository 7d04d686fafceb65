/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes different keys with the same digest. XXH3-128 has no secret, so an application that
 * controls a part of its keys could compute such keys.
 */
#pragma once

/* Makes XXH3_generateSecret_fromSeed available. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/key.h>

/* XXH3 adds each word of eight bytes to one sum. It also combines the word with a known constant by
 * xor, and adds the product of the two halves of the result to a second sum. If the lower half of a
 * word equals that of the constant, the product is 0. The content has two such words. The sum of
 * their upper halves is the same for all keys, so the digests are equal. */
static inline kiln_key *make_colliding_key(uint32_t number)
{
    enum { BEFORE = 33 /* the number of bytes before the content of "source" in an encoding */ };
    enum { STRIPE = 64, FIRST = 1 * STRIPE, SECOND = 2 * STRIPE };
    unsigned char constants[XXH3_SECRET_DEFAULT_SIZE], content[500] = {0};
    XXH3_generateSecret_fromSeed(constants, 0);
    const uint32_t other = UINT32_MAX - number;
    /* Each stripe's constants begin eight bytes after those of the previous stripe. */
    memcpy(content + FIRST - BEFORE, constants + 1 * 8, 4);
    memcpy(content + FIRST - BEFORE + 4, &number, 4);
    memcpy(content + SECOND - BEFORE, constants + 2 * 8, 4);
    memcpy(content + SECOND - BEFORE + 4, &other, 4);
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    if (kiln_key_builder_new(&builder) != KILN_OK ||
        kiln_key_builder_add(builder, "source", content, sizeof content) != KILN_OK ||
        kiln_key_builder_finish(builder, &key) != KILN_OK) {
        abort();
    }
    kiln_key_builder_free(&builder);
    return key;
}
