/* SPDX-License-Identifier: Apache-2.0
 *
 * An entry in memory: its bytes as they are stored, and what was decoded from them.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/entry.h>

#include "entry/entry.h"
#include "entry/structure.h"

struct kiln_entry {
    /* Incremented with relaxed order, because a caller that retains the entry already holds a
     * reference. Decremented with acquire and release, because the thread that releases the last
     * reference must see everything that other holders did. */
    atomic_size_t references;
    void *bytes; /* owned */
    size_t size;
    void *plain_payload; /* owned; NULL if the payload is stored uncompressed */
    kiln_key *key;       /* one reference */
    uint32_t kind;
    kiln_provenance provenance;
    kiln_bytes answers, log, payload;
    kiln_bytes signature; /* the section's content, not checked; no data if there is none */
    int has_mac;
};

/* Makes an entry from verified bytes and their structure.
 *
 * @bytes      owned by the entry on success
 * @structure  points into @bytes
 * @key        retained; NULL: the key is decoded from its section
 * Returns KILN_OK; KILN_E_CORRUPT: a section's content is not valid; KILN_E_NO_MEMORY. */
kiln_status kilni_entry_open(void *bytes, const kilni_entry_structure *structure,
                             const kiln_key *key, kiln_entry **ret_entry);

/* Does the same as kilni_entry_open, for stored bytes whose checksum the caller has checked. The
 * MAC is checked before anything else in the bytes is used.
 *
 * @signing_key  NULL: the MAC is not checked
 * Also returns KILN_E_UNAUTHENTICATED. */
kiln_status kilni_entry_open_stored(void *bytes, const kilni_entry_structure *structure,
                                    const kilni_signing_key *signing_key, kiln_entry **ret_entry);

/* Computes the MAC of the entry at @bytes. It covers every byte except the checksum and the content
 * of the MAC section, which begins at @mac. */
void kilni_entry_compute_mac(const unsigned char *bytes, uint64_t size, const unsigned char *mac,
                             const kilni_signing_key *key,
                             unsigned char ret_mac[KILNI_ENTRY_MAC_SIZE]);

/* Checks the MAC of the entry at @bytes, in constant time. Returns KILN_OK; KILN_E_UNAUTHENTICATED:
 * the MAC is missing or wrong. */
kiln_status kilni_entry_structure_authenticate(const unsigned char *bytes,
                                               const kilni_entry_structure *structure,
                                               const kilni_signing_key *key);

/* Encodes @structure, seals the bytes, and makes an entry from them. Returns the statuses of
 * kilni_entry_structure_encode and kilni_entry_open. */
kiln_status kilni_entry_from_structure(kilni_entry_structure *structure, const kiln_key *key,
                                       kiln_entry **ret_entry);

/* Decompresses a payload into a new block.
 *
 * @plain_size   the size that the decompressed payload must have
 * @ret_payload  [out] freed by the caller, with free
 * Returns KILN_OK; KILN_E_CORRUPT; KILN_E_NO_MEMORY. */
kiln_status kilni_payload_decompress(const kilni_entry_section *section, uint64_t plain_size,
                                     void **ret_payload);
