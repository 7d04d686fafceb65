/* SPDX-License-Identifier: Apache-2.0 */
#include "store/journal_record.h"

#include <string.h>

#include "base/bytes.h"
#include "base/text.h"
#include "key/hash.h"

/* The first byte of a record is not valid in UTF-8, so texts rarely contain it. */
static const unsigned char magic[] = {0xf1, 'K', 'J', '1'};

#define VERSION 1u
#define CHECKSUM_SIZE 8u
#define PREFIX_SIZE (sizeof magic + 4u) /* magic, size, version and kind */
#define SMALLEST (PREFIX_SIZE + CHECKSUM_SIZE)
#define TEXT_MAX 280u /* three texts, their NULs and the fixed part fit into a record */

static void write_text(kilni_byte_writer *writer, const char *text)
{
    const char *given = text ? text : "";
    const size_t length = strlen(given);
    kilni_write_bytes(writer, given, kilni_text_cut(given, length, TEXT_MAX));
    kilni_write_u8(writer, 0);
}

size_t kilni_journal_encode(const kiln_journal_event *event, unsigned char *bytes)
{
    kilni_byte_writer writer = {.at = bytes, .left = KILNI_JOURNAL_RECORD_MAX};
    kilni_write_bytes(&writer, magic, sizeof magic);
    unsigned char *size_at = kilni_write_space(&writer, 2);
    kilni_write_u8(&writer, VERSION);
    kilni_write_u8(&writer, (uint8_t)event->kind);
    kilni_write_bytes(&writer, event->digest.bytes, sizeof event->digest.bytes);
    kilni_write_u64(&writer, (uint64_t)event->time_ns);
    kilni_write_u32(&writer, event->pid);
    kilni_write_u64(&writer, event->count);
    kilni_write_u64(&writer, event->build_ns);
    kilni_write_u64(&writer, event->load_ns);
    kilni_write_u64(&writer, event->wait_ns);
    kilni_write_u64(&writer, event->saved_ns);
    kilni_write_u32(&writer, (uint32_t)event->store);
    kilni_write_u32(&writer, (uint32_t)event->kept);
    write_text(&writer, event->program);
    write_text(&writer, event->device);
    write_text(&writer, event->name);
    const size_t size = (size_t)(writer.at - bytes) + CHECKSUM_SIZE;
    size_at[0] = (unsigned char)size;
    size_at[1] = (unsigned char)(size >> 8);
    kilni_write_u64(&writer, kilni_checksum(bytes, size - CHECKSUM_SIZE));
    return size;
}

/* Returns a text, and fails the reader if the text has no end. */
static const char *read_text(kilni_byte_reader *reader)
{
    const unsigned char *end = reader->failed ? NULL : memchr(reader->at, 0, reader->left);
    if (!end) {
        reader->failed = true;
        return "";
    }
    return (const char *)kilni_read_bytes(reader, (uint64_t)(end - reader->at) + 1);
}

static bool decode_fields(kilni_byte_reader *reader, uint32_t kind, kiln_journal_event *ret_event)
{
    kiln_journal_event event = {.struct_size = sizeof event, .kind = kind};
    const unsigned char *digest = kilni_read_bytes(reader, sizeof event.digest.bytes);
    if (digest) {
        memcpy(event.digest.bytes, digest, sizeof event.digest.bytes);
    }
    event.time_ns = (int64_t)kilni_read_u64(reader);
    event.pid = kilni_read_u32(reader);
    event.count = kilni_read_u64(reader);
    event.build_ns = kilni_read_u64(reader);
    event.load_ns = kilni_read_u64(reader);
    event.wait_ns = kilni_read_u64(reader);
    event.saved_ns = kilni_read_u64(reader);
    event.store = (kiln_status)kilni_read_u32(reader);
    event.kept = (kiln_status)kilni_read_u32(reader);
    event.program = read_text(reader);
    event.device = read_text(reader);
    event.name = read_text(reader);
    *ret_event = event;
    return !reader->failed && reader->left == 0;
}

kilni_journal_found kilni_journal_decode(const unsigned char *bytes, size_t size, size_t *ret_size,
                                         kiln_journal_event *ret_event)
{
    const size_t compared = size < sizeof magic ? size : sizeof magic;
    if (memcmp(bytes, magic, compared) != 0) {
        return KILNI_JOURNAL_NO_RECORD;
    }
    if (size < PREFIX_SIZE) {
        return KILNI_JOURNAL_SHORT;
    }
    const size_t record = bytes[4] | (size_t)bytes[5] << 8;
    if (record < SMALLEST || record > KILNI_JOURNAL_RECORD_MAX) {
        return KILNI_JOURNAL_NO_RECORD;
    }
    if (size < record) {
        return KILNI_JOURNAL_SHORT;
    }
    kilni_byte_reader end = {.at = bytes + record - CHECKSUM_SIZE, .left = CHECKSUM_SIZE};
    if (kilni_read_u64(&end) != kilni_checksum(bytes, record - CHECKSUM_SIZE)) {
        return KILNI_JOURNAL_NO_RECORD;
    }
    *ret_size = record;
    const uint32_t version = bytes[6], kind = bytes[7];
    if (version != VERSION || kind < KILN_JOURNAL_HIT || kind > KILN_JOURNAL_MEMORY_HITS) {
        return KILNI_JOURNAL_NEWER;
    }
    kilni_byte_reader reader = {.at = bytes + PREFIX_SIZE, .left = record - SMALLEST};
    return decode_fields(&reader, kind, ret_event) ? KILNI_JOURNAL_EVENT : KILNI_JOURNAL_NO_RECORD;
}

/* Counts a run of bytes that are not a record, and returns how many of them to skip: at least one.
 */
static size_t skip_to_magic(kilni_journal_reader *reader, const unsigned char *bytes, size_t size)
{
    reader->report.damaged += reader->is_skipping ? 0 : 1;
    reader->is_skipping = true;
    const unsigned char *next = memchr(bytes + 1, magic[0], size - 1);
    return next ? (size_t)(next - bytes) : size;
}

size_t kilni_journal_read_bytes(kilni_journal_reader *reader, const unsigned char *bytes,
                                size_t size, bool is_last)
{
    size_t used = 0;
    while (used < size && !reader->has_ended) {
        size_t record = 0;
        kiln_journal_event event;
        const kilni_journal_found found =
            kilni_journal_decode(bytes + used, size - used, &record, &event);
        if (found == KILNI_JOURNAL_SHORT && !is_last) {
            return used;
        }
        if (found == KILNI_JOURNAL_SHORT || found == KILNI_JOURNAL_NO_RECORD) {
            used += skip_to_magic(reader, bytes + used, size - used);
            continue;
        }
        reader->is_skipping = false;
        used += record;
        if (found == KILNI_JOURNAL_NEWER) {
            reader->report.newer++;
        } else {
            reader->report.events++;
            reader->has_ended = reader->visit(reader->user, &event) != 0;
        }
    }
    return used;
}
