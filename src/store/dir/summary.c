/* SPDX-License-Identifier: Apache-2.0 */
#include "store/dir/summary.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/size.h"
#include "key/hash.h"
#include "os/file.h"

#define MAGIC "KILNSUM\x01"
#define MAGIC_SIZE 8u
#define HEADER_SIZE (MAGIC_SIZE + 8u)
#define RECORD_SIZE 48u
#define CHECKSUM_SIZE 8u

static size_t segment_size(size_t count)
{
    return HEADER_SIZE + count * RECORD_SIZE + CHECKSUM_SIZE;
}

bool kilni_dir_records_add(kilni_dir_records *records, const kilni_dir_record *record)
{
    kilni_dir_record *items =
        kilni_array_grown(records->items, records->count, &records->capacity, sizeof *items);
    if (!items) {
        return false;
    }
    records->items = items;
    records->items[records->count++] = *record;
    return true;
}

void kilni_dir_records_done(kilni_dir_records *records)
{
    free(records->items);
    *records = (kilni_dir_records){.count = 0};
}

static unsigned char *make_space(kilni_dir_summary *summary, size_t size)
{
    const size_t needed = summary->count + size;
    if (needed > summary->capacity) {
        const size_t capacity = needed > SIZE_MAX / 2 ? needed : needed * 2;
        unsigned char *grown = realloc(summary->bytes, capacity);
        if (!grown) {
            return NULL;
        }
        summary->bytes = grown;
        summary->capacity = capacity;
    }
    unsigned char *space = summary->bytes + summary->count;
    summary->count = needed;
    return space;
}

static void encode(const kilni_dir_records *records, unsigned char *bytes)
{
    const size_t size = segment_size(records->count);
    kilni_byte_writer writer = {.at = bytes, .left = size};
    kilni_write_bytes(&writer, MAGIC, MAGIC_SIZE);
    kilni_write_u64(&writer, records->count);
    for (size_t i = 0; i < records->count; i++) {
        const kilni_dir_record *record = &records->items[i];
        kilni_write_u64(&writer, record->shard);
        kilni_write_u64(&writer, record->inode);
        kilni_write_u64(&writer, (uint64_t)record->facts.used_ns);
        kilni_write_u64(&writer, record->facts.bytes);
        kilni_write_u64(&writer, (uint64_t)record->facts.created_s);
        kilni_write_u64(&writer, record->facts.build_ns);
    }
    kilni_write_u64(&writer, kilni_checksum(bytes, size - CHECKSUM_SIZE));
}

kiln_status kilni_dir_summary_append(kilni_dir_summary *summary, kilni_dir_records *records)
{
    if (records->count == 0) {
        return KILN_OK;
    }
    unsigned char *space = make_space(summary, segment_size(records->count));
    if (!space) {
        return KILN_E_NO_MEMORY;
    }
    encode(records, space);
    records->count = 0;
    return KILN_OK;
}

kiln_status kilni_dir_summary_flush(kilni_dir_summary *summary)
{
    if (summary->file < 0 || summary->count == 0) {
        return KILN_OK;
    }
    const kiln_status status =
        kilni_file_write_at(summary->file, summary->bytes, summary->count, (off_t)summary->size);
    if (status == KILN_OK) {
        summary->size += summary->count;
        summary->count = 0;
    }
    return status;
}

/* Copies @size bytes at an offset of a summary to @bytes. Returns false if the summary has fewer
 * bytes. */
static bool fetch(const kilni_dir_summary *summary, uint64_t offset, void *bytes, size_t size)
{
    if (summary->file >= 0) {
        size_t count = 0;
        return offset <= INT64_MAX &&
               kilni_file_read_at(summary->file, bytes, size, (off_t)offset, &count) == KILN_OK &&
               count == size;
    }
    if (offset > summary->count || size > summary->count - offset) {
        return false;
    }
    memcpy(bytes, summary->bytes + offset, size);
    return true;
}

/* Returns the number of records in the segment at an offset; 0: there is no segment. */
static size_t count_of(const kilni_dir_summary *summary, uint64_t offset)
{
    unsigned char header[HEADER_SIZE];
    if (!fetch(summary, offset, header, sizeof header) || memcmp(header, MAGIC, MAGIC_SIZE) != 0) {
        return 0;
    }
    kilni_byte_reader reader = {.at = header + MAGIC_SIZE, .left = HEADER_SIZE - MAGIC_SIZE};
    const uint64_t count = kilni_read_u64(&reader);
    return count > KILNI_DIR_SEGMENT_RECORDS ? 0 : (size_t)count;
}

static bool decode(const unsigned char *bytes, size_t count, kilni_dir_records *records)
{
    kilni_byte_reader reader = {.at = bytes + HEADER_SIZE,
                                .left = count * RECORD_SIZE + CHECKSUM_SIZE};
    records->count = 0;
    for (size_t i = 0; i < count; i++) {
        kilni_dir_record record;
        record.shard = kilni_read_u64(&reader);
        record.inode = kilni_read_u64(&reader);
        record.facts.used_ns = (int64_t)kilni_read_u64(&reader);
        record.facts.bytes = kilni_read_u64(&reader);
        record.facts.created_s = (int64_t)kilni_read_u64(&reader);
        record.facts.build_ns = kilni_read_u64(&reader);
        if (!kilni_dir_records_add(records, &record)) {
            return false;
        }
    }
    return true;
}

static bool is_sound(const unsigned char *bytes, size_t size)
{
    kilni_byte_reader reader = {.at = bytes + size - CHECKSUM_SIZE, .left = CHECKSUM_SIZE};
    return kilni_read_u64(&reader) == kilni_checksum(bytes, size - CHECKSUM_SIZE);
}

kiln_status kilni_dir_summary_read(const kilni_dir_summary *summary, uint64_t offset,
                                   kilni_dir_records *records, uint64_t *ret_next)
{
    const size_t count = count_of(summary, offset);
    if (count == 0) {
        return KILN_MISS;
    }
    const size_t size = segment_size(count);
    unsigned char *bytes = malloc(size);
    if (!bytes) {
        return KILN_E_NO_MEMORY;
    }
    kiln_status status = KILN_MISS;
    if (fetch(summary, offset, bytes, size) && is_sound(bytes, size)) {
        status = decode(bytes, count, records) ? KILN_OK : KILN_E_NO_MEMORY;
    }
    free(bytes);
    if (status == KILN_OK) {
        *ret_next = offset + size;
    }
    return status;
}

void kilni_dir_summary_done(kilni_dir_summary *summary)
{
    free(summary->bytes);
    *summary = (kilni_dir_summary){.file = summary->file};
}
