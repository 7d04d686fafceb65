/* SPDX-License-Identifier: Apache-2.0 */
#include "src_file.h"
#include "std_hash.h"

#define PIECE_BYTES 16384
_Static_assert(PIECE_BYTES % 8 == 0, "the hash takes whole words except at the end");

const char *src_file_parse(const byte_source *source, src_file *ret_src)
{
    src_file src = {0};
    uint64_t offset = 0;
    for (int i = 0; i < SRC_RECORDS; i++) {
        src_record *record = &src.records[i];
        if (!byte_source_number(source, offset, &record->size)) {
            return "is truncated";
        }
        record->offset = offset + sizeof record->size;
        if (record->size > source->size - record->offset) {
            return "is shorter than its lengths say";
        }
        offset = record->offset + record->size;
    }
    if (offset != source->size) {
        return "is longer than its lengths say";
    }
    *ret_src = src;
    return NULL;
}

static bool hash_record(const byte_source *source, src_record *record)
{
    unsigned char piece[PIECE_BYTES];
    std_hash hash = std_hash_begin(record->size);
    for (uint64_t done = 0; done < record->size;) {
        uint64_t left = record->size - done;
        size_t size = left < sizeof piece ? (size_t)left : sizeof piece;
        if (!source->read(source->user, record->offset + done, piece, size)) {
            return false;
        }
        std_hash_add(&hash, piece, size);
        done += size;
    }
    record->hash = std_hash_end(&hash);
    return true;
}

bool src_file_hash(const byte_source *source, src_file *src)
{
    for (int i = 0; i < SRC_RECORDS; i++) {
        if (!hash_record(source, &src->records[i])) {
            return false;
        }
    }
    return true;
}
