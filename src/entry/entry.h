/* SPDX-License-Identifier: Apache-2.0
 *
 * Encodes and decodes the bytes of entries; docs/format.md describes the format. This folder does
 * no I/O, so that all of it can be fuzzed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/entry.h>

#include "entry/signature.h"
#include "key/hash.h"

/* This many bytes from the beginning of an entry's file are nearly always enough to decode a
 * preview of the entry. The texts in the preview can be truncated. */
#define KILNI_ENTRY_PREVIEW_SIZE 4096u

/* A signing key: 32 bytes that authenticate entries (BLAKE2b-256, keyed). */
typedef struct kilni_signing_key {
    unsigned char bytes[32];
} kilni_signing_key;

/* Verifies @bytes and makes an entry that owns them, without copying them. On success, the entry
 * frees them with free() when its last reference is released; on failure, the caller still owns
 * them.
 *
 * @signing_key  the bytes must have a MAC that was made with this key. The MAC is checked before
 *               the entry's key is read and before the payload is decompressed. NULL: the MAC is
 *               not checked
 * Returns the statuses of kiln_entry_decode; KILN_E_UNAUTHENTICATED: the bytes have no MAC, or a
 * MAC made with a different key. */
kiln_status kilni_entry_adopt(void *bytes, size_t size, const kilni_signing_key *signing_key,
                              kiln_entry **ret_entry);

/* Decides which entries are believed. An entry is believed if it has a MAC made with the signing
 * key, or a valid signature by a trusted key. */
typedef struct kilni_entry_trust {
    const kilni_signing_key *signing_key; /* NULL: MACs are ignored */
    const kilni_trusted_keys *keys;
    int64_t now_s; /* Unix seconds; signatures that have expired by then are not valid */
} kilni_entry_trust;

/* Does the same as kilni_entry_adopt, for an entry that must be authenticated. A signature is
 * checked after the entry's key has been decoded, and before the payload is decompressed. */
kiln_status kilni_entry_adopt_trusted(void *bytes, size_t size, const kilni_entry_trust *trust,
                                      kiln_entry **ret_entry);

/* Do the same as kilni_entry_adopt and kilni_entry_adopt_trusted, for a caller that may already
 * know the hash of the bytes that precede the checksum.
 *
 * @hash  NULL: it is not known */
kiln_status kilni_entry_adopt_hashed(void *bytes, size_t size, const kiln_digest *hash,
                                     const kilni_signing_key *signing_key, kiln_entry **ret_entry);
kiln_status kilni_entry_adopt_trusted_hashed(void *bytes, size_t size, const kiln_digest *hash,
                                             const kilni_entry_trust *trust,
                                             kiln_entry **ret_entry);

/* The size of a probe. A caller probes the first bytes of a file before it allocates memory for the
 * whole file, because these bytes can show that the file is not a whole entry. */
#define KILNI_ENTRY_PROBE_SIZE 64u

/* Probes the first bytes of a file of @size bytes. Returns KILN_OK: the file is possibly an entry;
 * KILN_E_CORRUPT; KILN_E_VERSION. */
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

/* Returns true if two entries have the same content for a device: kind, payload, answers, log and
 * key. Provenance, compression and signatures are not compared. */
bool kilni_entry_equals(const kiln_entry *a, const kiln_entry *b);

/* What the first bytes of an entry's file contain. The contents are not verified. Texts are
 * truncated to the size of their arrays. */
typedef struct kilni_entry_preview {
    kiln_digest digest;
    uint32_t kind;
    uint64_t total_size;
    uint64_t payload_size; /* before compression */
    uint64_t build_ns;
    int64_t created_s;
    char tool[64], device[192], name[256];
    bool seems_newer; /* the entry has something that only a newer reader knows, unless it is
                         damaged */
} kilni_entry_preview;

/* @bytes  the first @available bytes of a file of @file_size bytes
 * Returns KILN_OK; KILN_E_CORRUPT; KILN_E_VERSION. */
kiln_status kilni_entry_preview_decode(const void *bytes, size_t available, uint64_t file_size,
                                       kilni_entry_preview *ret_head);

/* The maximum number of bytes by which kilni_entry_add_mac enlarges an entry: a row of the section
 * table, the MAC and padding. */
#define KILNI_ENTRY_MAC_MAX_GROWTH 64u

/* Makes a copy of an entry and adds a MAC to it. The MAC covers every byte except the MAC itself
 * and the checksum. */
kiln_status kilni_entry_add_mac(const kiln_entry *entry, const kilni_signing_key *key,
                                kiln_entry **ret_entry);

/* Makes a copy of an entry and adds a signature of its content. The new signature replaces an
 * existing one. The copy has no MAC.
 *
 * @expires_s  Unix seconds; 0: never */
kiln_status kilni_entry_sign(const kiln_entry *entry, const kilni_secret_key *key,
                             int64_t expires_s, kiln_entry **ret_entry);

/* Makes a copy of an entry whose payload is stored compressed (zstd, @level 1 to 12). If
 * compression does not make the payload smaller, or if the payload is too large to be stored
 * compressed, it is stored as it is. The accessors of a decoded entry return the uncompressed
 * bytes. The copy has no MAC. It keeps an existing signature. If this call compresses the payload,
 * the signature remains valid only if the signer made the same compressed bytes. */
kiln_status kilni_entry_compress(const kiln_entry *entry, int level, kiln_entry **ret_entry);

/* Makes an entry with the same content whose payload is stored uncompressed, and whose key is @key.
 * @key must equal the entry's own key, but one of the two may be stripped. If nothing has to
 * change, returns a reference to the entry itself; otherwise the new entry has no MAC. A signature
 * is kept and remains valid.
 *
 * @key  NULL: the entry's own
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_TOO_LARGE; KILN_E_NO_MEMORY. */
kiln_status kilni_entry_make_plain(const kiln_entry *entry, const kiln_key *key,
                                   kiln_entry **ret_entry);

/* How entries are signed, and which signatures are valid. */
typedef struct kilni_entry_signer {
    const kilni_secret_key *key;       /* NULL: no entries are signed */
    const kilni_trusted_keys *trusted; /* whose signatures are valid */
    int64_t now_s;                     /* Unix seconds */
    int64_t expires_s;                 /* of new signatures, in Unix seconds; 0: never */
} kilni_entry_signer;

/* The form in which an entry is stored. A zeroed form keeps an entry as it is. */
typedef struct kilni_entry_form {
    bool is_stripped; /* the long parts of its key are stored as digests */
    int level;        /* of compression, 1 to 12; 0: the payload stays as it is, or, if is_stripped
                         is set, is decompressed */
    const kilni_signing_key *signing_key; /* NULL: no MAC is added */
    const kilni_entry_signer *signer;     /* NULL: no signature is added or checked */
} kilni_entry_form;

/* Makes an entry with the same content in the form @form. If the entry already has a signature, the
 * new entry keeps it and gets no other signature. So only the original signer vouches for the
 * entry. Once that signer is revoked, the entry is no longer believed. The payload is not
 * compressed if compression would make the signature invalid.
 *
 * Returns KILN_OK; KILN_E_UNAUTHENTICATED: its signature is not valid; KILN_E_TOO_LARGE;
 * KILN_E_NO_MEMORY. */
kiln_status kilni_entry_prepare(const kiln_entry *entry, const kilni_entry_form *form,
                                kiln_entry **ret_entry);
