/* SPDX-License-Identifier: Apache-2.0 */
#include "entry/entry.h"

#include <string.h>

#include "base/bytes.h"
#include "base/text.h"
#include "entry/structure.h"

/* Returns a reader for the available bytes of the provenance section. If there are none, the reader
 * has failed. */
static kilni_byte_reader provenance_of(const unsigned char *bytes, size_t available,
                                       uint32_t section_count)
{
    kilni_byte_reader table = {.at = bytes, .left = available};
    kilni_read_bytes(&table, KILNI_ENTRY_HEADER_SIZE);
    for (uint32_t i = 0; i < section_count && !table.failed; i++) {
        uint32_t type = kilni_read_u32(&table);
        kilni_read_u32(&table);
        uint64_t offset = kilni_read_u64(&table);
        uint64_t size = kilni_read_u64(&table);
        if (type == KILNI_SECTION_PROVENANCE && offset <= available && !table.failed) {
            size_t present = available - (size_t)offset;
            return (kilni_byte_reader){.at = bytes + offset,
                                       .left = size < present ? (size_t)size : present};
        }
    }
    return (kilni_byte_reader){.failed = true};
}

static bool seems_newer(const unsigned char *bytes, size_t available,
                        const kilni_entry_header *header)
{
    if (header->flags & ~(uint32_t)KILNI_ENTRY_KNOWN_FLAGS) {
        return true;
    }
    kilni_byte_reader table = {.at = bytes, .left = available};
    kilni_read_bytes(&table, KILNI_ENTRY_HEADER_SIZE);
    for (uint32_t i = 0; i < header->section_count; i++) {
        const uint32_t type = kilni_read_u32(&table);
        const uint32_t flags = kilni_read_u32(&table);
        kilni_read_bytes(&table, KILNI_ENTRY_TABLE_ROW_SIZE - 2 * sizeof(uint32_t));
        if (!table.failed && kilni_entry_section_is_newer(type, flags)) {
            return true;
        }
    }
    return false;
}

/* Copies as much of a text as is available and fits in the array. */
static void read_text(kilni_byte_reader *reader, char *text, size_t capacity)
{
    uint32_t length = kilni_read_u32(reader);
    const char *bytes = (const char *)reader->at;
    size_t present = length, limit = capacity - 1;
    if (length > reader->left) {
        /* The last character might continue after the available bytes, so the last byte is dropped.
         */
        present = reader->left;
        limit = present > 0 && present - 1 < limit ? present - 1 : limit;
    }
    size_t cut = kilni_text_cut(bytes, present, limit);
    if (cut > 0) {
        memcpy(text, bytes, cut);
    }
    text[cut] = '\0';
    kilni_read_bytes(reader, (uint64_t)length + 1);
}

kiln_status kilni_entry_preview_decode(const void *bytes, size_t available, uint64_t file_size,
                                       kilni_entry_preview *ret_head)
{
    if (available > file_size) {
        available = (size_t)file_size;
    }
    kilni_entry_header header;
    kiln_status status = kilni_entry_header_decode(bytes, available, file_size, &header);
    if (status != KILN_OK) {
        return status;
    }
    kilni_byte_reader provenance = provenance_of(bytes, available, header.section_count);
    kilni_entry_preview head = {.digest = header.digest,
                                .kind = header.kind,
                                .total_size = header.total_size,
                                .payload_size = header.payload_size,
                                .seems_newer = seems_newer(bytes, available, &header)};
    head.build_ns = kilni_read_u64(&provenance);
    head.created_s = (int64_t)kilni_read_u64(&provenance);
    read_text(&provenance, head.tool, sizeof head.tool);
    read_text(&provenance, head.device, sizeof head.device);
    read_text(&provenance, head.name, sizeof head.name);
    *ret_head = head;
    return KILN_OK;
}
