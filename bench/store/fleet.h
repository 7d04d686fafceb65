/* SPDX-License-Identifier: Apache-2.0
 *
 * The peers of the bench of servers: they get values by a server's protocol alone, and check
 * nothing.
 */
#pragma once

#include <stddef.h>

#define FLEET_NAME_SIZE 64
#define FLEET_BATCH 16u

typedef struct fleet_peer {
    /* @where  for Redis HOST:PORT, else the beginning of the URL of each value */
    void (*connect)(const char *where);
    /* Gets a value, into memory that the next call overwrites. Returns its size; -1: there is no
     * value of that name. */
    long (*get)(const char *name, const unsigned char **ret_value);
    /* Gets values in one round trip, each into memory of its own, which the caller frees. Returns
     * their size together. NULL: the protocol has no such thing. */
    size_t (*get_many)(char names[FLEET_BATCH][FLEET_NAME_SIZE], void *ret_values[FLEET_BATCH]);
    void (*disconnect)(void);
} fleet_peer;

extern const fleet_peer fleet_redis, fleet_http, fleet_s3;

/* Ends the bench with a message if a condition does not hold. */
void fleet_expect(int holds, const char *what);
