/* SPDX-License-Identifier: Apache-2.0
 *
 * The entry format, version 1, as docs/format.md describes it: header, section table, sections,
 * checksum. All integers are little-endian.
 */
#pragma once

#include <stdint.h>

/* The magic is made like that of PNG. A program that converts line endings or treats the file as
 * text changes the magic, so the damage is detected. */
#define KILNI_ENTRY_MAGIC "KILN\r\n\x1a\n"
#define KILNI_ENTRY_MAGIC_SIZE 8
#define KILNI_ENTRY_VERSION 1u
#define KILNI_ENTRY_VERSION_OFFSET 8

#define KILNI_ENTRY_HEADER_SIZE 64u
#define KILNI_ENTRY_TABLE_ROW_SIZE 24u /* type, flags, offset, size */
#define KILNI_ENTRY_ALIGNMENT 8u
#define KILNI_ENTRY_CHECKSUM_SIZE 16u
#define KILNI_ENTRY_MAC_SIZE 32u
#define KILNI_ENTRY_MIN_SIZE (KILNI_ENTRY_HEADER_SIZE + KILNI_ENTRY_CHECKSUM_SIZE)
#define KILNI_ENTRY_MAX_SECTIONS 32u

/* The maximum uncompressed size of a payload that is stored compressed. It bounds the memory that
 * decompression needs. */
#define KILNI_ENTRY_MAX_DECOMPRESSED ((uint64_t)1 << 30)

/* Flags of the header. */
enum {
    KILNI_ENTRY_COMPRESSED = 1u, /* the payload is one zstd frame */
    KILNI_ENTRY_HAS_MAC = 2u,    /* there is a MAC section */
    KILNI_ENTRY_KNOWN_FLAGS = KILNI_ENTRY_COMPRESSED | KILNI_ENTRY_HAS_MAC
};

/* Flags of a section. */
enum {
    KILNI_SECTION_REQUIRED = 1u, /* a reader that does not know the type cannot use the entry */
    KILNI_SECTION_KNOWN_FLAGS = KILNI_SECTION_REQUIRED
};

/* Types of sections. Sections that the decoder knows are stored in this order. */
enum {
    KILNI_SECTION_PROVENANCE = 1,
    KILNI_SECTION_KEY = 2,
    KILNI_SECTION_ANSWERS = 3,
    KILNI_SECTION_LOG = 4,
    KILNI_SECTION_PAYLOAD = 5,
    KILNI_SECTION_MAC = 6,
    KILNI_SECTION_LAST_KNOWN = KILNI_SECTION_MAC,
    /* The decoder treats a signature as a section of an unknown type. Readers that are older than
     * signatures do the same. The signature is the last section, or the last before the MAC. */
    KILNI_SECTION_SIGNATURE = 7
};

/* The maximum size, in bytes, of a text in the provenance section. */
#define KILNI_ENTRY_MAX_TEXT 65536u
