/* SPDX-License-Identifier: Apache-2.0
 *
 * The parsers read from one of these, which is a file or memory. Files are never mapped, since they
 * might change while they are read.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct byte_source {
    uint64_t size;
    /* Reads all of the requested bytes, or returns false. */
    bool (*read)(void *user, uint64_t offset, void *buffer, size_t size);
    void *user;
} byte_source;

/* Reads the u64 at an offset, in the machine's byte order. Returns false if the source does not
 * contain all bytes of the number. */
bool byte_source_number(const byte_source *source, uint64_t offset, uint64_t *ret_number);
