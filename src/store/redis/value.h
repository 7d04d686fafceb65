/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of a reply that has arrived.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/key.h>

#include "store/redis/resp.h"

/* A part of a reply. The values of a list follow the list itself. */
typedef struct kilni_redis_value {
    kilni_resp_kind kind; /* TEXT, ERROR, INTEGER, NIL, LIST or BLOB */
    bool is_hashed;       /* for BLOB: there is a hash, as in kilni_remote_bytes */
    int64_t integer;
    size_t size;         /* the size of data in bytes; for LIST, the number of its values */
    unsigned char *data; /* for TEXT, ERROR and BLOB; followed by a NUL */
    kiln_digest hash;    /* if is_hashed is true */
} kilni_redis_value;

/* Returns true if a value is an error that begins with the given word. */
bool kilni_redis_value_is_error(const kilni_redis_value *value, const char *word);
