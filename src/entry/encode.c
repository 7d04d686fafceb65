/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/size.h"
#include "entry/structure.h"
#include "key/hash.h"

kiln_status kilni_entry_structure_add(kilni_entry_structure *structure, uint32_t type,
                                      uint32_t flags, const void *bytes, uint64_t size)
{
    if (structure->header.section_count == KILNI_ENTRY_MAX_SECTIONS) {
        return KILN_E_TOO_LARGE;
    }
    structure->sections[structure->header.section_count++] =
        (kilni_entry_section){.type = type, .flags = flags, .bytes = bytes, .size = size};
    return KILN_OK;
}

void kilni_entry_structure_set(kilni_entry_structure *structure, uint32_t type, kiln_bytes bytes)
{
    for (uint32_t i = 0; i < structure->header.section_count; i++) {
        if (structure->sections[i].type == type) {
            structure->sections[i].bytes = bytes.data;
            structure->sections[i].size = bytes.size;
        }
    }
}

void kilni_entry_structure_remove(kilni_entry_structure *structure, uint32_t type)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < structure->header.section_count; i++) {
        if (structure->sections[i].type != type) {
            structure->sections[kept++] = structure->sections[i];
        }
    }
    structure->header.section_count = kept;
}

void kilni_entry_structure_unsign(kilni_entry_structure *structure)
{
    kilni_entry_structure_remove(structure, KILNI_SECTION_MAC);
    structure->header.flags &= ~(uint32_t)KILNI_ENTRY_HAS_MAC;
}

static size_t padding_after(uint64_t size)
{
    return (size_t)(-size % KILNI_ENTRY_ALIGNMENT);
}

static bool total_size(const kilni_entry_structure *structure, uint64_t *ret_size)
{
    uint64_t size = KILNI_ENTRY_HEADER_SIZE + KILNI_ENTRY_CHECKSUM_SIZE +
                    (uint64_t)structure->header.section_count * KILNI_ENTRY_TABLE_ROW_SIZE;
    for (uint32_t i = 0; i < structure->header.section_count; i++) {
        if (structure->sections[i].size > KILNI_MAX_BYTES) {
            return false;
        }
        size += structure->sections[i].size + padding_after(structure->sections[i].size);
    }
    *ret_size = size;
    return size <= KILNI_MAX_BYTES;
}

static void write_header(kilni_byte_writer *writer, const kilni_entry_header *header)
{
    kilni_write_bytes(writer, KILNI_ENTRY_MAGIC, KILNI_ENTRY_MAGIC_SIZE);
    kilni_write_u32(writer, KILNI_ENTRY_VERSION);
    kilni_write_u32(writer, header->flags);
    kilni_write_u64(writer, header->total_size);
    kilni_write_bytes(writer, header->digest.bytes, sizeof header->digest.bytes);
    kilni_write_u32(writer, header->kind);
    kilni_write_u32(writer, header->section_count);
    kilni_write_u64(writer, header->payload_size);
    kilni_write_u64(writer, 0);
}

static void write_table(kilni_byte_writer *writer, const kilni_entry_structure *structure)
{
    uint64_t offset = KILNI_ENTRY_HEADER_SIZE +
                      (uint64_t)structure->header.section_count * KILNI_ENTRY_TABLE_ROW_SIZE;
    for (uint32_t i = 0; i < structure->header.section_count; i++) {
        const kilni_entry_section *section = &structure->sections[i];
        kilni_write_u32(writer, section->type);
        kilni_write_u32(writer, section->flags);
        kilni_write_u64(writer, offset);
        kilni_write_u64(writer, section->size);
        offset += section->size + padding_after(section->size);
    }
}

/* Writes the sections and makes the structure point to them. */
static void write_sections(kilni_byte_writer *writer, kilni_entry_structure *structure)
{
    for (uint32_t i = 0; i < structure->header.section_count; i++) {
        kilni_entry_section *section = &structure->sections[i];
        const unsigned char *place = writer->at;
        if (section->bytes) {
            kilni_write_bytes(writer, section->bytes, (size_t)section->size);
        } else {
            kilni_write_zeros(writer, (size_t)section->size);
        }
        section->bytes = place;
        kilni_write_zeros(writer, padding_after(section->size));
    }
}

kiln_status kilni_entry_structure_encode(kilni_entry_structure *structure,
                                         unsigned char **ret_bytes)
{
    uint64_t size;
    if (!total_size(structure, &size)) {
        return KILN_E_TOO_LARGE;
    }
    unsigned char *bytes = size <= SIZE_MAX ? malloc((size_t)size) : NULL;
    if (!bytes) {
        return KILN_E_NO_MEMORY;
    }
    structure->header.total_size = size;
    kilni_byte_writer writer = {.at = bytes, .left = (size_t)size};
    write_header(&writer, &structure->header);
    write_table(&writer, structure);
    write_sections(&writer, structure);
    *ret_bytes = bytes;
    return KILN_OK;
}

void kilni_entry_seal(unsigned char *bytes, size_t size)
{
    size_t covered = size - KILNI_ENTRY_CHECKSUM_SIZE;
    kiln_digest checksum = kilni_hash(bytes, covered);
    memcpy(bytes + covered, checksum.bytes, KILNI_ENTRY_CHECKSUM_SIZE);
}
