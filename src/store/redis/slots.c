/* SPDX-License-Identifier: Apache-2.0 */
#include "store/redis/slots.h"

#include <string.h>

/* ---- slots ---- */

/* Computes CRC-16/XMODEM, four bits at a time. Each request needs the checksum of its name. */
static uint16_t checksum(const char *bytes, size_t size)
{
    /* The checksums of 0 to 15. */
    static const uint16_t of_four_bits[] = {0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5,
                                            0x60c6, 0x70e7, 0x8108, 0x9129, 0xa14a, 0xb16b,
                                            0xc18c, 0xd1ad, 0xe1ce, 0xf1ef};
    unsigned sum = 0;
    for (size_t i = 0; i < size; i++) {
        const unsigned byte = (unsigned char)bytes[i];
        sum = (sum << 4 ^ of_four_bits[(sum >> 12 ^ byte >> 4) & 15]) & 0xffff;
        sum = (sum << 4 ^ of_four_bits[(sum >> 12 ^ byte) & 15]) & 0xffff;
    }
    return (uint16_t)sum;
}

uint16_t kilni_redis_slot_of(const char *name, size_t size)
{
    const char *open = memchr(name, '{', size);
    if (open) {
        const size_t left = size - (size_t)(open + 1 - name);
        const char *close = memchr(open + 1, '}', left);
        if (close && close > open + 1) {
            return checksum(open + 1, (size_t)(close - open - 1)) % KILNI_REDIS_SLOTS;
        }
    }
    return checksum(name, size) % KILNI_REDIS_SLOTS;
}

/* ---- places ---- */

/* Copies the host of a node. Returns false if the host is too long, or if it contains characters
 * that neither names nor addresses contain. */
static bool copy_host(const char *host, size_t length, kilni_redis_place *place)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789.-_:";
    if (length >= sizeof place->host) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        if (host[i] == '\0' || !strchr(allowed, host[i])) {
            return false;
        }
    }
    memcpy(place->host, host, length);
    place->host[length] = '\0';
    return true;
}

/* Reads a decimal number that is at most @most and ends at @end. */
static bool read_number(const char *at, const char *end, unsigned most, unsigned *ret_number)
{
    unsigned number = 0;
    if (at == end) {
        return false;
    }
    for (; at < end; at++) {
        if (*at < '0' || *at > '9') {
            return false;
        }
        number = 10 * number + (unsigned)(*at - '0');
        if (number > most) {
            return false;
        }
    }
    *ret_number = number;
    return true;
}

/* ---- redirections ---- */

/* Reads "SLOT HOST:PORT". An IPv6 address is not in brackets. */
static bool read_target(const char *text, uint16_t *ret_slot, kilni_redis_place *ret_place)
{
    unsigned slot = 0;
    unsigned port = 0;
    const char *space = strchr(text, ' ');
    const char *colon = strrchr(text, ':');
    kilni_redis_place place;
    if (!space || !colon || colon < space ||
        !read_number(text, space, KILNI_REDIS_SLOTS - 1, &slot) ||
        !read_number(colon + 1, colon + strlen(colon), UINT16_MAX, &port) || port == 0 ||
        !copy_host(space + 1, (size_t)(colon - space - 1), &place)) {
        return false;
    }
    place.port = (uint16_t)port;
    *ret_slot = (uint16_t)slot;
    *ret_place = place;
    return true;
}

kilni_redis_redirection kilni_redis_redirection_read(const kilni_redis_value *value,
                                                     uint16_t *ret_slot,
                                                     kilni_redis_place *ret_place)
{
    static const struct word {
        const char *text;
        kilni_redis_redirection meaning;
    } words[] = {{"MOVED", KILNI_REDIS_MOVED}, {"ASK", KILNI_REDIS_ASK}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const size_t length = strlen(words[i].text);
        if (kilni_redis_value_is_error(value, words[i].text) && value->data[length] == ' ' &&
            read_target((const char *)value->data + length + 1, ret_slot, ret_place)) {
            return words[i].meaning;
        }
    }
    return KILNI_REDIS_STAYS;
}

/* ---- the list of slots ---- */

/* Moves @at behind a value and everything in it. Returns false if there are not enough values. */
static bool skip_value(const kilni_redis_value *values, size_t count, size_t *at)
{
    size_t left = 1;
    while (left > 0) {
        if (*at == count) {
            return false;
        }
        const kilni_redis_value *value = &values[(*at)++];
        left--;
        if (value->kind == KILNI_RESP_LIST) {
            if (value->size > count - *at) {
                return false;
            }
            left += value->size;
        }
    }
    return true;
}

static bool is_slot(const kilni_redis_value *value)
{
    return value->kind == KILNI_RESP_INTEGER && value->integer >= 0 &&
           value->integer < KILNI_REDIS_SLOTS;
}

/* Reads a node: its host, its port, and other values. Returns false if the node has no usable
 * address. */
static bool read_node(const kilni_redis_value *values, size_t count, kilni_redis_place *place)
{
    if (count < 3 || values[0].kind != KILNI_RESP_LIST || values[0].size < 2 ||
        values[2].kind != KILNI_RESP_INTEGER || values[2].integer < 1 ||
        values[2].integer > UINT16_MAX) {
        return false;
    }
    place->port = (uint16_t)values[2].integer;
    place->host[0] = '\0';
    return values[1].kind == KILNI_RESP_NIL ||
           (values[1].kind == KILNI_RESP_BLOB &&
            copy_host((const char *)values[1].data, values[1].size, place));
}

/* Reads a list that consists of the first slot, the last slot, the node that has these slots, and
 * its replicas. */
static kiln_status read_range(const kilni_redis_value *values, size_t count,
                              kilni_redis_range *range)
{
    if (count < 4 || values[0].kind != KILNI_RESP_LIST || values[0].size < 3 ||
        !is_slot(&values[1]) || !is_slot(&values[2]) || values[1].integer > values[2].integer) {
        return KILN_E_CORRUPT;
    }
    range->first = (uint16_t)values[1].integer;
    range->last = (uint16_t)values[2].integer;
    return read_node(values + 3, count - 3, &range->place) ? KILN_OK : KILN_MISS;
}

kiln_status kilni_redis_range_next(const kilni_redis_value *values, size_t count, size_t *at,
                                   kilni_redis_range *ret_range)
{
    if (*at == 0) {
        if (count == 0 || values[0].kind != KILNI_RESP_LIST) {
            return KILN_E_CORRUPT;
        }
        *at = 1;
    }
    while (*at < count) {
        const size_t begin = *at;
        kilni_redis_range range;
        if (!skip_value(values, count, at)) {
            return KILN_E_CORRUPT;
        }
        const kiln_status status = read_range(values + begin, *at - begin, &range);
        if (status == KILN_OK) {
            *ret_range = range;
        }
        if (status != KILN_MISS) {
            return status;
        }
    }
    return KILN_MISS;
}
