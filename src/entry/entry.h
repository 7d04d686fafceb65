/* SPDX-License-Identifier: Apache-2.0
 *
 * Encodes and decodes an entry's bytes, for the folders below; docs/format.md describes the format.
 * This folder does no I/O, so that all of it can be fuzzed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/entry.h>

#include "key/hash.h"

/* Enough of a file's beginning to decode the head of nearly every entry. */
#define KILNI_ENTRY_HEAD_SIZE 4096u

/* A signing key: 32 bytes that authenticate entries (BLAKE2b-256, keyed). */
typedef struct kilni_signing_key {
    unsigned char bytes[32];
} kilni_signing_key;

/* Verifies @bytes and makes an entry that owns them, without a copy. On success the entry frees
 * them with free(); on failure they stay the caller's.
 *
 * @signing_key  the key that must have signed them, which is checked before the entry's key is read
 *               or the payload is decompressed. NULL: the signature is not checked
 * Returns the statuses of kiln_entry_decode; KILN_E_UNAUTHENTICATED: not signed, or not with that
 * key. */
kiln_status kilni_entry_adopt(void *bytes, size_t size, const kilni_signing_key *signing_key,
                              kiln_entry **ret_entry);

/* A probe of the first bytes detects that a file cannot be a whole entry, before memory for all of
 * it is allocated. */
#define KILNI_ENTRY_PROBE_SIZE 64u

/* Returns KILN_OK: it may be an entry; KILN_E_CORRUPT; KILN_E_VERSION. */
kiln_status kilni_entry_probe(const unsigned char bytes[KILNI_ENTRY_PROBE_SIZE], uint64_t size);

/* An entry whose bytes arrive in pieces. Each piece is added to the checksum while it is still in
 * the processor's cache. */
typedef struct kilni_entry_arrival {
    unsigned char *bytes;
    size_t size, arrived;
    kilni_hasher hasher;
} kilni_entry_arrival;

/* @bytes  room for @size bytes, owned by the caller */
void kilni_entry_arrival_begin(kilni_entry_arrival *arrival, void *bytes, size_t size);

/* Adds the next @count bytes, which the caller has already put in place. The total must not exceed
 * the entry's size. */
void kilni_entry_arrival_add(kilni_entry_arrival *arrival, size_t count);

/* Returns KILN_E_CORRUPT if bytes are missing, else the statuses of kilni_entry_adopt. */
kiln_status kilni_entry_arrival_end(kilni_entry_arrival *arrival,
                                    const kilni_signing_key *signing_key, kiln_entry **ret_entry);

/* Whether two entries of one key have the same content as far as a device is concerned: kind,
 * payload, answers and log. Provenance, compression and signatures are not compared. */
bool kilni_entry_equals(const kiln_entry *a, const kiln_entry *b);

/* What the beginning of an entry's file says, unverified. Texts are cut to fit their arrays. */
typedef struct kilni_entry_head {
    kiln_digest digest;
    uint32_t kind;
    uint64_t total_size;
    uint64_t payload_size; /* before compression */
    uint64_t build_ns;
    int64_t created_s;
    char tool[64], device[192], name[256];
    bool seems_newer; /* it has something that only a newer reader knows, unless the entry is
                       * damaged */
} kilni_entry_head;

/* @bytes  the first @available bytes of a file of @file_size bytes
 * Returns KILN_OK; KILN_E_CORRUPT; KILN_E_VERSION. */
kiln_status kilni_entry_head_decode(const void *bytes, size_t available, uint64_t file_size,
                                    kilni_entry_head *ret_head);

/* The most by which a signature enlarges an entry: a row of the table, the MAC and padding. */
#define KILNI_ENTRY_SIGNATURE_MAX_SIZE 64u

/* Makes a signed copy of an entry: the same sections, and a MAC over every byte except the MAC
 * itself and the checksum. */
kiln_status kilni_entry_sign(const kiln_entry *entry, const kilni_signing_key *key,
                             kiln_entry **ret_entry);

/* Makes a copy whose payload is stored compressed (zstd, @level 1 to 12). The payload is stored as
 * it is if compression does not make it smaller, or if it is too large to be stored compressed. The
 * accessors of a decoded entry return the uncompressed bytes. A signature is dropped. */
kiln_status kilni_entry_compress(const kiln_entry *entry, int level, kiln_entry **ret_entry);

/* Makes an entry of the same content whose payload is stored uncompressed under @key, which must
 * equal the entry's own key: the same key, whole or stripped. If the entry already is like that, it
 * is returned itself; otherwise a signature is dropped.
 *
 * @key  NULL: the entry's own
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_TOO_LARGE; KILN_E_NO_MEMORY. */
kiln_status kilni_entry_with_key(const kiln_entry *entry, const kiln_key *key,
                                 kiln_entry **ret_entry);
