/* SPDX-License-Identifier: Apache-2.0 */
#include "store/network/token.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/random.h>

bool kilni_token_make(char token[KILNI_TOKEN_SIZE])
{
    uint64_t random[2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
        return false;
    }
    snprintf(token, KILNI_TOKEN_SIZE, "%016" PRIx64 "%016" PRIx64, random[0], random[1]);
    return true;
}
