/* SPDX-License-Identifier: Apache-2.0
 *
 * An entry's bytes, for the folders below: docs/format.md is this folder's mirror. No I/O here, so
 * that all of it can be fuzzed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/entry.h>

#include "key/hash.h"

/* Enough of a file's beginning to decode its head in nearly every case. */
#define KILNI_ENTRY_HEAD_SIZE 4096u

/* 32 bytes that authenticate entries (BLAKE2b-256, keyed). */
typedef struct kilni_entry_mac_key {
    unsigned char bytes[32];
} kilni_entry_mac_key;

/* Verifies @bytes and makes an entry that owns them: no copy. On success the entry frees them with
 * free(); on failure they stay the caller's.
 *
 * @mac_key  what has to have signed them: that is checked before a key is read or a payload
 *           decompressed. NULL: whoever made them
 * Returns as kiln_entry_decode; KILN_E_UNAUTHENTICATED: not signed, or not with that key. */
kiln_status kilni_entry_adopt(void *bytes, size_t size, const kilni_entry_mac_key *mac_key,
                              kiln_entry **ret_entry);

/* What a whole entry of @size bytes cannot begin with is found by its first bytes, before memory
 * for all of it is taken. */
#define KILNI_ENTRY_PROBE_SIZE 64u

/* KILN_OK: it may be one; KILN_E_CORRUPT; KILN_E_VERSION. */
kiln_status kilni_entry_probe(const unsigned char bytes[KILNI_ENTRY_PROBE_SIZE], uint64_t size);

/* An entry whose bytes arrive piece by piece: each goes into the checksum while the processor still
 * has it at hand. */
typedef struct kilni_entry_arrival {
    unsigned char *bytes;
    size_t size, arrived;
    kilni_hasher hasher;
} kilni_entry_arrival;

/* @bytes  where @size bytes are going to be; the caller's */
void kilni_entry_arrival_begin(kilni_entry_arrival *arrival, void *bytes, size_t size);

/* The next @count bytes are where they belong, and no more than there are to be. */
void kilni_entry_arrival_add(kilni_entry_arrival *arrival, size_t count);

/* KILN_E_CORRUPT where bytes are missing; else as kilni_entry_adopt. */
kiln_status kilni_entry_arrival_end(kilni_entry_arrival *arrival,
                                    const kilni_entry_mac_key *mac_key, kiln_entry **ret_entry);

/* Whether two entries of one key hold the same, as far as a device sees it: kind, payload, answers
 * and log. When and by whom they were made, how they are stored and whether they are signed does
 * not matter. */
bool kilni_entry_equals(const kiln_entry *a, const kiln_entry *b);

/* What the beginning of an entry's file tells, unverified. Texts are cut to their arrays. */
typedef struct kilni_entry_head {
    kiln_digest digest;
    uint32_t kind;
    uint64_t total_size;
    uint64_t payload_size; /* plain, before compression */
    uint64_t build_ns;
    int64_t created_s;
    char tool[64], device[192], name[256];
    bool seems_newer; /* has what only a newer reader knows, unless that is damage */
} kilni_entry_head;

/* @bytes       the first @available bytes of a file of @file_size bytes
 * Returns KILN_OK; KILN_E_CORRUPT; KILN_E_VERSION. */
kiln_status kilni_entry_head_decode(const void *bytes, size_t available, uint64_t file_size,
                                    kilni_entry_head *ret_head);

/* A signature makes an entry at most so much larger: a row of the table, the MAC, padding. */
#define KILNI_ENTRY_SIGNATURE_MAX_SIZE 64u

/* A signed copy of an entry: the same sections and a MAC over every byte but itself and the
 * checksum. */
kiln_status kilni_entry_sign(const kiln_entry *entry, const kilni_entry_mac_key *key,
                             kiln_entry **ret_entry);

/* A copy whose payload is stored compressed (zstd, @level 1 to 12), or as it is where that is not
 * smaller, or the payload larger than one that is compressed may be. The accessors of a decoded
 * entry give the plain bytes. Signatures are dropped. */
kiln_status kilni_entry_compress(const kiln_entry *entry, int level, kiln_entry **ret_entry);

/* An entry of the same content whose payload is stored plain, under @key, which has to equal the
 * entry's own: the same key whole, or stripped. What is like that already comes back as it is;
 * of what is changed the signature is dropped.
 *
 * @key  NULL: the entry's own
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_TOO_LARGE; KILN_E_NO_MEMORY. */
kiln_status kilni_entry_with_key(const kiln_entry *entry, const kiln_key *key,
                                 kiln_entry **ret_entry);
