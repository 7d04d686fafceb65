/* SPDX-License-Identifier: Apache-2.0
 *
 * A .src file, which is the key of an item. It consists of four records; each is a u64 length and
 * the record's bytes. The hashes of the records are the names of the four directories above the
 * item.
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

/* Reads the lengths, and sets the hashes to 0. Returns NULL if the lengths add up to the file's
 * size. Otherwise returns what is wrong with the file. */
const char *src_file_parse(const byte_source *source, src_file *ret_src);

/* Reads the whole file and sets the hashes. Returns false if it can no longer be read. */
bool src_file_hash(const byte_source *source, src_file *src);
