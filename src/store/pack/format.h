/* SPDX-License-Identifier: Apache-2.0
 *
 * The pack format, version 1, which docs/format.md describes. A pack consists of a page with the
 * header, a page for each bucket of the index, and then the entries. This code does no I/O, so all
 * of it can be fuzzed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/key.h>
#include <kiln/status.h>

#define KILNI_PACK_MAGIC "KILNP\r\n\x1a"
#define KILNI_PACK_MAGIC_SIZE 8
#define KILNI_PACK_VERSION 1u

/* The size of the header's page, and of each bucket's page. A look-up reads one page of the index.
 */
#define KILNI_PACK_PAGE_SIZE 4096u
#define KILNI_PACK_CHECKSUM_SIZE 16u
#define KILNI_PACK_CHECKED_SIZE (KILNI_PACK_PAGE_SIZE - KILNI_PACK_CHECKSUM_SIZE)

#define KILNI_PACK_BUCKET_HEADER_SIZE 16u /* count, zero, number */
#define KILNI_PACK_SLOT_SIZE 32u          /* digest, offset, size */
#define KILNI_PACK_BUCKET_SLOTS 127u
#define KILNI_PACK_MAX_BUCKETS ((uint64_t)1 << 24)
#define KILNI_PACK_ALIGNMENT 8u /* the alignment of each entry, in bytes */

enum {
    KILNI_PACK_STRIPPED = 1u, /* keys were stripped. This flag only informs */
    KILNI_PACK_KNOWN_FLAGS = KILNI_PACK_STRIPPED
};

typedef struct kilni_pack_header {
    uint32_t flags;
    uint64_t total_size;
    uint64_t entry_count;
    uint64_t bucket_count; /* at least 1 */
} kilni_pack_header;

/* The place of an entry in the file. */
typedef struct kilni_pack_slot {
    kiln_digest digest;
    uint64_t offset, size;
} kilni_pack_slot;

/* Returns the number of a digest's bucket. */
uint64_t kilni_pack_bucket_of(const kiln_digest *digest, uint64_t bucket_count);

/* The first function returns the offset of a bucket. The second one returns the offset of the first
 * entry, which follows the last bucket. */
uint64_t kilni_pack_bucket_offset(uint64_t number);
uint64_t kilni_pack_entries_offset(uint64_t bucket_count);

/* Each of the two functions writes a whole page, including its checksum. @count is at most
 * KILNI_PACK_BUCKET_SLOTS. */
void kilni_pack_header_encode(const kilni_pack_header *header, unsigned char *page);
void kilni_pack_bucket_encode(uint64_t number, const kilni_pack_slot *slots, size_t count,
                              unsigned char *page);

/* Decodes a header, and checks every field and the checksum.
 *
 * @page       the first @available bytes of the file
 * @file_size  the size of the whole file, which the header must also state
 * Returns KILN_OK; KILN_E_CORRUPT; KILN_E_VERSION. */
kiln_status kilni_pack_header_decode(const unsigned char *page, size_t available,
                                     uint64_t file_size, kilni_pack_header *ret_header);

/* Checks the checksum and the number in a bucket's page, and then each slot. The slot's digest must
 * belong to the bucket, and its bytes must be within the entries. Both the digest and the bytes
 * must come after those of the previous slot. Returns KILN_OK; KILN_E_CORRUPT. */
kiln_status kilni_pack_bucket_check(const unsigned char *page, uint64_t number,
                                    const kilni_pack_header *header);

/* These functions read a bucket's page that kilni_pack_bucket_check has accepted. */
size_t kilni_pack_slot_count(const unsigned char *page);
kilni_pack_slot kilni_pack_slot_at(const unsigned char *page, size_t index);
bool kilni_pack_slot_find(const unsigned char *page, const kiln_digest *digest,
                          kilni_pack_slot *ret_slot);
