/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads any bytes as a name, and as the reply of a node of a Redis cluster: as the list of its
 * slots, and as redirections. What is reported must be within the limits.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../tests/store/redis/resp_values.h"
#include "store/redis/slots.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
    if (!holds) {
        abort();
    }
}

static void check_place(const kilni_redis_place *place)
{
    const size_t length = strnlen(place->host, sizeof place->host);
    require(length < sizeof place->host && place->port > 0);
    require(strcspn(place->host, "/ @?%\r\n\t") == length);
}

static void check_map(const resp_values *reply)
{
    size_t at = 0;
    size_t ranges = 0;
    kilni_redis_range range;
    while (kilni_redis_range_next(reply->values, reply->count, &at, &range) == KILN_OK) {
        require(range.first <= range.last && range.last < KILNI_REDIS_SLOTS);
        require(at <= reply->count && ++ranges <= reply->count);
        check_place(&range.place);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    resp_values reply;
    require(kilni_redis_slot_of((const char *)data, size) < KILNI_REDIS_SLOTS);
    resp_values_read(&reply, data, size);
    check_map(&reply);
    for (size_t i = 0; i < reply.count; i++) {
        uint16_t slot;
        kilni_redis_place place;
        if (kilni_redis_redirection_read(&reply.values[i], &slot, &place) != KILNI_REDIS_STAYS) {
            require(slot < KILNI_REDIS_SLOTS);
            check_place(&place);
        }
    }
    resp_values_done(&reply);
    return 0;
}
