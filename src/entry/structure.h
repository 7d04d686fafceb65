/* SPDX-License-Identifier: Apache-2.0
 *
 * The structure of an entry: header fields and a list of sections. encode.c makes the bytes of an
 * entry from the structure, and decode.c makes the structure from the bytes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/entry.h>

#include "entry/format.h"

typedef struct kilni_entry_header {
    uint32_t flags; /* KILNI_ENTRY_COMPRESSED, KILNI_ENTRY_HAS_MAC */
    uint32_t kind;
    kiln_digest digest;
    uint64_t total_size;
    uint64_t payload_size; /* before compression */
    uint32_t section_count;
} kilni_entry_header;

typedef struct kilni_entry_section {
    uint32_t type, flags;
    const unsigned char *bytes; /* NULL: zeros are encoded, and the caller replaces them */
    uint64_t size;
} kilni_entry_section;

typedef struct kilni_entry_structure {
    kilni_entry_header header;
    kilni_entry_section sections[KILNI_ENTRY_MAX_SECTIONS];
} kilni_entry_structure;

/* Appends a section. Returns KILN_OK; KILN_E_TOO_LARGE: there are already KILNI_ENTRY_MAX_SECTIONS.
 */
kiln_status kilni_entry_structure_add(kilni_entry_structure *structure, uint32_t type,
                                      uint32_t flags, const void *bytes, uint64_t size);

/* Replaces the bytes of the section with the given type, if there is one. */
void kilni_entry_structure_set(kilni_entry_structure *structure, uint32_t type, kiln_bytes bytes);

/* Returns the section with the given type, or NULL if there is none. */
const kilni_entry_section *kilni_entry_structure_find(const kilni_entry_structure *structure,
                                                      uint32_t type);

/* Returns true if only a newer writer can have written a section with this type and these flags. */
bool kilni_entry_section_is_newer(uint32_t type, uint32_t flags);

/* Removes all sections with the given type. */
void kilni_entry_structure_remove(kilni_entry_structure *structure, uint32_t type);

/* Removes the MAC section, if there is one, and its flag. */
void kilni_entry_structure_unsign(kilni_entry_structure *structure);

/* Assembles an entry in one new block, without its checksum. On success the sections point into the
 * block, and the header has the total size.
 *
 * @ret_bytes  [out] structure->header.total_size bytes, freed by the caller, with free
 * Returns KILN_OK; KILN_E_TOO_LARGE; KILN_E_NO_MEMORY. */
kiln_status kilni_entry_structure_encode(kilni_entry_structure *structure,
                                         unsigned char **ret_bytes);

/* Writes the checksum at the end of an entry. It covers all bytes before it. */
void kilni_entry_seal(unsigned char *bytes, size_t size);

/* Reads the header from the first @available bytes of an entry of @file_size bytes: magic, version,
 * sizes. Returns KILN_OK; KILN_E_CORRUPT; KILN_E_VERSION. */
kiln_status kilni_entry_header_decode(const unsigned char *bytes, size_t available,
                                      uint64_t file_size, kilni_entry_header *ret_header);

/* Returns the number of bytes that an entry's checksum covers; 0 if the entry is too small to have
 * a checksum. */
size_t kilni_entry_covered_size(size_t size);

/* Parses a whole entry: header, checksum, table, padding. Returns KILN_OK; KILN_E_CORRUPT;
 * KILN_E_VERSION. */
kiln_status kilni_entry_structure_decode(const unsigned char *bytes, size_t size,
                                         kilni_entry_structure *ret_structure);

/* Does the same as kilni_entry_structure_decode, for a caller that has already computed the hash of
 * the covered bytes. */
kiln_status kilni_entry_structure_decode_hashed(const unsigned char *bytes, size_t size,
                                                const kiln_digest *hash,
                                                kilni_entry_structure *ret_structure);
