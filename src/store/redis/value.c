/* SPDX-License-Identifier: Apache-2.0 */
#include "store/redis/value.h"

#include <string.h>

bool kilni_redis_value_is_error(const kilni_redis_value *value, const char *word)
{
    const size_t length = strlen(word);
    return value->kind == KILNI_RESP_ERROR &&
           strncmp((const char *)value->data, word, length) == 0 &&
           (value->data[length] == ' ' || value->data[length] == '\0');
}
