/* SPDX-License-Identifier: Apache-2.0
 *
 * An entry in memory: its bytes as stored, and what was found in them.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/entry.h>

#include "entry/entry.h"
#include "entry/layout.h"

struct kiln_entry {
    /* Grows by relaxed additions: who retains holds a reference already. The last release must see
     * all that other holders did, so that subtractions acquire and release. */
    atomic_size_t references;
    void *bytes; /* owned */
    size_t size;
    void *plain_payload; /* owned; NULL where the payload is stored plain */
    kiln_key *key;       /* one reference */
    uint32_t kind;
    kiln_provenance provenance;
    kiln_bytes answers, log, payload;
    int is_signed;
};

/* Makes an entry of sound bytes and their layout.
 *
 * @bytes   become the entry's on success
 * @layout  points into @bytes
 * @key     retained; NULL: the one in the key section is decoded
 * Returns KILN_OK; KILN_E_CORRUPT: what a section holds is not sound; KILN_E_NO_MEMORY. */
kiln_status kilni_entry_open(void *bytes, const kilni_entry_layout *layout, const kiln_key *key,
                             kiln_entry **ret_entry);

/* The same of bytes from elsewhere, whose checksum is right: before anything else in them is
 * believed they have to be authentic.
 *
 * @mac_key  NULL: whoever made them
 * Returns also KILN_E_UNAUTHENTICATED. */
kiln_status kilni_entry_open_stored(void *bytes, const kilni_entry_layout *layout,
                                    const kilni_entry_mac_key *mac_key, kiln_entry **ret_entry);

/* Computes the MAC of the entry at @bytes: over every byte but those of the MAC section, which
 * begins at @mac, and of the checksum. */
void kilni_entry_compute_mac(const unsigned char *bytes, uint64_t size, const unsigned char *mac,
                             const kilni_entry_mac_key *key,
                             unsigned char ret_mac[KILNI_ENTRY_MAC_SIZE]);

/* Checks the MAC of the entry at @bytes, in constant time. KILN_OK; KILN_E_UNAUTHENTICATED: none,
 * or a wrong one. */
kiln_status kilni_entry_layout_authenticate(const unsigned char *bytes,
                                            const kilni_entry_layout *layout,
                                            const kilni_entry_mac_key *key);

/* Puts @layout together, seals it, and makes an entry of it. Statuses as of
 * kilni_entry_layout_encode and kilni_entry_open. */
kiln_status kilni_entry_from_layout(kilni_entry_layout *layout, const kiln_key *key,
                                    kiln_entry **ret_entry);

/* The plain bytes of a compressed payload, in a new block.
 *
 * @plain_size   what it must come to
 * @ret_payload  [out] to be given back with free
 * Returns KILN_OK; KILN_E_CORRUPT; KILN_E_NO_MEMORY. */
kiln_status kilni_payload_decompress(const kilni_entry_section *section, uint64_t plain_size,
                                     void **ret_payload);
