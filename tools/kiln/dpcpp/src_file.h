/* SPDX-License-Identifier: Apache-2.0
 *
 * A .src file, the key of an item: four records, each a u64 length and its bytes. The names of the
 * four directories above it are their hashes.
 */
#pragma once

#include "byte_source.h"

enum { SRC_DEVICE, SRC_OPTIONS, SRC_CONSTANTS, SRC_IMAGES, SRC_RECORDS };

typedef struct src_record {
    uint64_t offset, size;
    uint64_t hash;
} src_record;

typedef struct src_file {
    src_record records[SRC_RECORDS];
} src_file;

/* Returns NULL where the lengths add up to the file; else what is wrong with it. The hashes are 0
 * yet. */
const char *src_file_parse(const byte_source *source, src_file *ret_src);

/* Fills the hashes in: reads all of it. Returns false where it can't be read any more. */
bool src_file_hash(const byte_source *source, src_file *src);
