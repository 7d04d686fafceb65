/* SPDX-License-Identifier: Apache-2.0
 *
 * A .src file, which is the key of an item: four records, each a u64 length and its bytes. The
 * names of the four directories above the item are the records' hashes.
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

/* Reads the lengths, and leaves the hashes 0. Returns NULL if the lengths add up to the file's
 * size; otherwise what is wrong with the file. */
const char *src_file_parse(const byte_source *source, src_file *ret_src);

/* Reads the whole file and sets the hashes. Returns false if it can no longer be read. */
bool src_file_hash(const byte_source *source, src_file *src);
