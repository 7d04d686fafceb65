/* SPDX-License-Identifier: Apache-2.0 */
#include "store/pack/format.h"

#include <string.h>

#include "base/bytes.h"
#include "base/size.h"
#include "entry/format.h"
#include "key/hash.h"

uint64_t kilni_pack_bucket_of(const kiln_digest *digest, uint64_t bucket_count)
{
    const unsigned char *bytes = digest->bytes;
    uint64_t first =
        (uint64_t)bytes[0] << 24 | (uint64_t)bytes[1] << 16 | (uint64_t)bytes[2] << 8 | bytes[3];
    return first * bucket_count >> 32;
}

uint64_t kilni_pack_bucket_offset(uint64_t number)
{
    return (number + 1) * KILNI_PACK_PAGE_SIZE;
}

uint64_t kilni_pack_entries_offset(uint64_t bucket_count)
{
    return kilni_pack_bucket_offset(bucket_count);
}

static void seal(unsigned char *page)
{
    kiln_digest checksum = kilni_hash(page, KILNI_PACK_CHECKED_SIZE);
    memcpy(page + KILNI_PACK_CHECKED_SIZE, checksum.bytes, KILNI_PACK_CHECKSUM_SIZE);
}

static bool is_sealed(const unsigned char *page)
{
    kiln_digest checksum = kilni_hash(page, KILNI_PACK_CHECKED_SIZE);
    return memcmp(page + KILNI_PACK_CHECKED_SIZE, checksum.bytes, KILNI_PACK_CHECKSUM_SIZE) == 0;
}

void kilni_pack_header_encode(const kilni_pack_header *header, unsigned char *page)
{
    kilni_byte_writer writer = {.at = page, .left = KILNI_PACK_CHECKED_SIZE};
    kilni_write_bytes(&writer, KILNI_PACK_MAGIC, KILNI_PACK_MAGIC_SIZE);
    kilni_write_u32(&writer, KILNI_PACK_VERSION);
    kilni_write_u32(&writer, header->flags);
    kilni_write_u64(&writer, header->total_size);
    kilni_write_u64(&writer, header->entry_count);
    kilni_write_u64(&writer, header->bucket_count);
    kilni_write_zeros(&writer, writer.left);
    seal(page);
}

void kilni_pack_bucket_encode(uint64_t number, const kilni_pack_slot *slots, size_t count,
                              unsigned char *page)
{
    kilni_byte_writer writer = {.at = page, .left = KILNI_PACK_CHECKED_SIZE};
    kilni_write_u32(&writer, (uint32_t)count);
    kilni_write_u32(&writer, 0);
    kilni_write_u64(&writer, number);
    for (size_t i = 0; i < count; i++) {
        kilni_write_bytes(&writer, slots[i].digest.bytes, sizeof slots[i].digest.bytes);
        kilni_write_u64(&writer, slots[i].offset);
        kilni_write_u64(&writer, slots[i].size);
    }
    kilni_write_zeros(&writer, writer.left);
    seal(page);
}

/* Returns true if the numbers in a header agree with each other and with the file's size. */
static bool has_sound_sizes(const kilni_pack_header *header, uint64_t file_size)
{
    return header->bucket_count > 0 && header->bucket_count <= KILNI_PACK_MAX_BUCKETS &&
           header->total_size == file_size &&
           header->total_size >= kilni_pack_entries_offset(header->bucket_count) &&
           header->entry_count <= header->bucket_count * KILNI_PACK_BUCKET_SLOTS;
}

kiln_status kilni_pack_header_decode(const unsigned char *page, size_t available,
                                     uint64_t file_size, kilni_pack_header *ret_header)
{
    kilni_byte_reader reader = {.at = page, .left = available};
    const unsigned char *magic = kilni_read_bytes(&reader, KILNI_PACK_MAGIC_SIZE);
    uint32_t version = kilni_read_u32(&reader);
    if (reader.failed || memcmp(magic, KILNI_PACK_MAGIC, KILNI_PACK_MAGIC_SIZE) != 0 ||
        version == 0) {
        return KILN_E_CORRUPT;
    }
    if (version > KILNI_PACK_VERSION) {
        return KILN_E_VERSION;
    }
    if (available < KILNI_PACK_PAGE_SIZE || !is_sealed(page)) {
        return KILN_E_CORRUPT;
    }
    kilni_pack_header header = {.flags = kilni_read_u32(&reader)};
    header.total_size = kilni_read_u64(&reader);
    header.entry_count = kilni_read_u64(&reader);
    header.bucket_count = kilni_read_u64(&reader);
    if (header.flags & ~(uint32_t)KILNI_PACK_KNOWN_FLAGS) {
        return KILN_E_VERSION;
    }
    if (!has_sound_sizes(&header, file_size)) {
        return KILN_E_CORRUPT;
    }
    *ret_header = header;
    return KILN_OK;
}

size_t kilni_pack_slot_count(const unsigned char *page)
{
    kilni_byte_reader reader = {.at = page, .left = KILNI_PACK_PAGE_SIZE};
    return kilni_read_u32(&reader);
}

kilni_pack_slot kilni_pack_slot_at(const unsigned char *page, size_t index)
{
    kilni_byte_reader reader = {.at = page + KILNI_PACK_BUCKET_HEADER_SIZE +
                                      index * KILNI_PACK_SLOT_SIZE,
                                .left = KILNI_PACK_SLOT_SIZE};
    kilni_pack_slot slot;
    memcpy(slot.digest.bytes, kilni_read_bytes(&reader, sizeof slot.digest.bytes),
           sizeof slot.digest.bytes);
    slot.offset = kilni_read_u64(&reader);
    slot.size = kilni_read_u64(&reader);
    return slot;
}

static bool is_sound_slot(const kilni_pack_slot *slot, const kilni_pack_header *header)
{
    return slot->offset >= kilni_pack_entries_offset(header->bucket_count) &&
           slot->offset % KILNI_PACK_ALIGNMENT == 0 && slot->size >= KILNI_ENTRY_MIN_SIZE &&
           slot->size <= KILNI_MAX_BYTES && slot->offset <= header->total_size &&
           slot->size <= header->total_size - slot->offset;
}

kiln_status kilni_pack_bucket_check(const unsigned char *page, uint64_t number,
                                    const kilni_pack_header *header)
{
    kilni_byte_reader reader = {.at = page, .left = KILNI_PACK_PAGE_SIZE};
    uint32_t count = kilni_read_u32(&reader);
    uint32_t zero = kilni_read_u32(&reader);
    if (!is_sealed(page) || count > KILNI_PACK_BUCKET_SLOTS || zero != 0 ||
        kilni_read_u64(&reader) != number) {
        return KILN_E_CORRUPT;
    }
    kilni_pack_slot before = {.size = 0};
    for (size_t i = 0; i < count; i++) {
        kilni_pack_slot slot = kilni_pack_slot_at(page, i);
        /* The previous slot was checked, so the sum of its offset and size does not overflow. */
        bool ascends = i == 0 || (memcmp(&before.digest, &slot.digest, sizeof slot.digest) < 0 &&
                                  slot.offset >= before.offset + before.size);
        if (!ascends || !is_sound_slot(&slot, header) ||
            kilni_pack_bucket_of(&slot.digest, header->bucket_count) != number) {
            return KILN_E_CORRUPT;
        }
        before = slot;
    }
    return KILN_OK;
}

bool kilni_pack_slot_find(const unsigned char *page, const kiln_digest *digest,
                          kilni_pack_slot *ret_slot)
{
    const unsigned char *slots = page + KILNI_PACK_BUCKET_HEADER_SIZE;
    size_t count = kilni_pack_slot_count(page);
    for (size_t i = 0; i < count; i++) {
        if (memcmp(slots + i * KILNI_PACK_SLOT_SIZE, digest->bytes, sizeof digest->bytes) == 0) {
            *ret_slot = kilni_pack_slot_at(page, i);
            return true;
        }
    }
    return false;
}
