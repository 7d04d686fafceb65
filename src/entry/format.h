/* SPDX-License-Identifier: Apache-2.0
 *
 * The entry format, version 1, as docs/format.md tells it: header, section table, sections,
 * checksum. All integers are little-endian.
 */
#pragma once

#include <stdint.h>

/* As in PNG: what mangles line ends or takes the file for text shows at once. */
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

/* A payload that is stored compressed has at most so many bytes: what decompressing may take. */
#define KILNI_ENTRY_MAX_DECOMPRESSED ((uint64_t)1 << 30)

/* Flags of the header. */
enum {
    KILNI_ENTRY_COMPRESSED = 1u, /* the payload is one zstd frame */
    KILNI_ENTRY_SIGNED = 2u,     /* there is a MAC section */
    KILNI_ENTRY_KNOWN_FLAGS = KILNI_ENTRY_COMPRESSED | KILNI_ENTRY_SIGNED
};

/* Flags of a section. */
enum {
    KILNI_SECTION_REQUIRED = 1u, /* who does not know the type can't use the entry */
    KILNI_SECTION_KNOWN_FLAGS = KILNI_SECTION_REQUIRED
};

/* Types of sections; those that are there come in this order. */
enum {
    KILNI_SECTION_PROVENANCE = 1,
    KILNI_SECTION_KEY = 2,
    KILNI_SECTION_ANSWERS = 3,
    KILNI_SECTION_LOG = 4,
    KILNI_SECTION_PAYLOAD = 5,
    KILNI_SECTION_MAC = 6,
    KILNI_SECTION_LAST_KNOWN = KILNI_SECTION_MAC
};

/* A text of the provenance section has at most so many bytes. */
#define KILNI_ENTRY_MAX_TEXT 65536u
