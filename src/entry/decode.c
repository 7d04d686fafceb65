/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/bytes.h"
#include "base/size.h"
#include "entry/structure.h"
#include "key/hash.h"

kiln_status kilni_entry_header_decode(const unsigned char *bytes, size_t available,
                                      uint64_t file_size, kilni_entry_header *ret_header)
{
    kilni_byte_reader reader = {.at = bytes, .left = available};
    const unsigned char *magic = kilni_read_bytes(&reader, KILNI_ENTRY_MAGIC_SIZE);
    uint32_t version = kilni_read_u32(&reader);
    if (reader.failed || memcmp(magic, KILNI_ENTRY_MAGIC, KILNI_ENTRY_MAGIC_SIZE) != 0 ||
        version == 0) {
        return KILN_E_CORRUPT;
    }
    /* In a newer version, everything after the version number is unknown. */
    if (version > KILNI_ENTRY_VERSION) {
        return KILN_E_VERSION;
    }
    kilni_entry_header header;
    header.flags = kilni_read_u32(&reader);
    header.total_size = kilni_read_u64(&reader);
    const unsigned char *digest = kilni_read_bytes(&reader, sizeof header.digest.bytes);
    header.kind = kilni_read_u32(&reader);
    header.section_count = kilni_read_u32(&reader);
    header.payload_size = kilni_read_u64(&reader);
    uint64_t reserved = kilni_read_u64(&reader);
    if (reader.failed || header.total_size != file_size ||
        header.total_size < KILNI_ENTRY_MIN_SIZE || header.total_size > KILNI_MAX_BYTES ||
        header.payload_size > KILNI_MAX_BYTES || header.section_count > KILNI_ENTRY_MAX_SECTIONS ||
        reserved != 0) {
        return KILN_E_CORRUPT;
    }
    memcpy(header.digest.bytes, digest, sizeof header.digest.bytes);
    *ret_header = header;
    return KILN_OK;
}

size_t kilni_entry_covered_size(size_t size)
{
    return size > KILNI_ENTRY_CHECKSUM_SIZE ? size - KILNI_ENTRY_CHECKSUM_SIZE : 0;
}

static bool has_checksum(const unsigned char *bytes, size_t size, const kiln_digest *hash)
{
    const unsigned char *checksum = bytes + kilni_entry_covered_size(size);
    return memcmp(hash->bytes, checksum, KILNI_ENTRY_CHECKSUM_SIZE) == 0;
}

/* Reads the zeros that pad a section to a multiple of the alignment. */
static bool read_padding(kilni_byte_reader *reader, uint64_t size)
{
    static const unsigned char zeros[KILNI_ENTRY_ALIGNMENT];
    size_t padding = (size_t)(-size % KILNI_ENTRY_ALIGNMENT);
    const unsigned char *bytes = kilni_read_bytes(reader, padding);
    return bytes && memcmp(bytes, zeros, padding) == 0;
}

/* Reads the table and the sections together. The sections, in the table's order, must fill the
 * space between the table and the checksum without a gap. So no two sections overlap, and no byte
 * is outside the sections. */
static bool read_sections(const unsigned char *bytes, size_t size, kilni_entry_structure *structure)
{
    size_t table_size = (size_t)structure->header.section_count * KILNI_ENTRY_TABLE_ROW_SIZE;
    size_t room = size - KILNI_ENTRY_MIN_SIZE;
    if (table_size > room) {
        return false;
    }
    kilni_byte_reader table = {.at = bytes + KILNI_ENTRY_HEADER_SIZE, .left = table_size};
    kilni_byte_reader content = {.at = table.at + table_size, .left = room - table_size};
    for (uint32_t i = 0; i < structure->header.section_count; i++) {
        kilni_entry_section *section = &structure->sections[i];
        section->type = kilni_read_u32(&table);
        section->flags = kilni_read_u32(&table);
        uint64_t offset = kilni_read_u64(&table);
        section->size = kilni_read_u64(&table);
        if (offset != (uint64_t)(content.at - bytes)) {
            return false;
        }
        section->bytes = kilni_read_bytes(&content, section->size);
        if (!section->bytes || !read_padding(&content, section->size)) {
            return false;
        }
    }
    return content.left == 0;
}

bool kilni_entry_section_is_newer(uint32_t type, uint32_t flags)
{
    const bool is_known = type >= 1 && type <= KILNI_SECTION_LAST_KNOWN;
    return is_known ? (flags & ~(uint32_t)KILNI_SECTION_KNOWN_FLAGS) != 0
                    : (flags & KILNI_SECTION_REQUIRED) != 0;
}

/* Returns true if an entry with a correct checksum has something that only a newer writer can have
 * written. */
static bool needs_newer_reader(const kilni_entry_structure *structure)
{
    if (structure->header.flags & ~(uint32_t)KILNI_ENTRY_KNOWN_FLAGS) {
        return true;
    }
    for (uint32_t i = 0; i < structure->header.section_count; i++) {
        if (kilni_entry_section_is_newer(structure->sections[i].type,
                                         structure->sections[i].flags)) {
            return true;
        }
    }
    return false;
}

/* Returns true if the known sections come in the order of their types, each at most once. */
static bool has_known_order(const kilni_entry_structure *structure)
{
    uint32_t last = 0;
    for (uint32_t i = 0; i < structure->header.section_count; i++) {
        uint32_t type = structure->sections[i].type;
        if (type > KILNI_SECTION_LAST_KNOWN) {
            continue;
        }
        if (type <= last) {
            return false;
        }
        last = type;
    }
    return true;
}

static bool has_needed_sections(const kilni_entry_structure *structure)
{
    const kilni_entry_section *payload =
        kilni_entry_structure_find(structure, KILNI_SECTION_PAYLOAD);
    const kilni_entry_section *mac = kilni_entry_structure_find(structure, KILNI_SECTION_MAC);
    if (!kilni_entry_structure_find(structure, KILNI_SECTION_KEY) || !payload) {
        return false;
    }
    bool has_mac = structure->header.flags & KILNI_ENTRY_HAS_MAC;
    if (has_mac != (mac != NULL) || (mac && mac->size != KILNI_ENTRY_MAC_SIZE)) {
        return false;
    }
    /* A payload is stored compressed only if compression made it smaller. */
    return structure->header.flags & KILNI_ENTRY_COMPRESSED
               ? payload->size < structure->header.payload_size &&
                     structure->header.payload_size <= KILNI_ENTRY_MAX_DECOMPRESSED
               : payload->size == structure->header.payload_size;
}

kiln_status kilni_entry_structure_decode(const unsigned char *bytes, size_t size,
                                         kilni_entry_structure *ret_structure)
{
    const kiln_digest hash = kilni_hash(bytes, kilni_entry_covered_size(size));
    return kilni_entry_structure_decode_hashed(bytes, size, &hash, ret_structure);
}

kiln_status kilni_entry_structure_decode_hashed(const unsigned char *bytes, size_t size,
                                                const kiln_digest *hash,
                                                kilni_entry_structure *ret_structure)
{
    kiln_status status = kilni_entry_header_decode(bytes, size, size, &ret_structure->header);
    if (status != KILN_OK) {
        return status;
    }
    /* The checksum is checked before flags and sections, so that damage to these is not mistaken
     * for a newer format. */
    if (!has_checksum(bytes, size, hash) || !read_sections(bytes, size, ret_structure)) {
        return KILN_E_CORRUPT;
    }
    if (needs_newer_reader(ret_structure)) {
        return KILN_E_VERSION;
    }
    return has_known_order(ret_structure) && has_needed_sections(ret_structure) ? KILN_OK
                                                                                : KILN_E_CORRUPT;
}

const kilni_entry_section *kilni_entry_structure_find(const kilni_entry_structure *structure,
                                                      uint32_t type)
{
    for (uint32_t i = 0; i < structure->header.section_count; i++) {
        if (structure->sections[i].type == type) {
            return &structure->sections[i];
        }
    }
    return NULL;
}
