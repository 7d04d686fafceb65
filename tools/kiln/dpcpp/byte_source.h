/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the parsers have their bytes from: a file, or memory. Files may change while they are
 * read, so they are never mapped.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct byte_source {
    uint64_t size;
    /* Gives all of the wanted bytes, or false. */
    bool (*read)(void *user, uint64_t offset, void *buffer, size_t size);
    void *user;
} byte_source;

/* The u64 at an offset, as the machine has it; false where it isn't all there. */
bool byte_source_number(const byte_source *source, uint64_t offset, uint64_t *ret_number);
