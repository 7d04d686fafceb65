/* SPDX-License-Identifier: Apache-2.0
 *
 * An entry in memory: its bytes as stored, and what was found in them.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/entry.h>

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
    const unsigned char *mac; /* in bytes; NULL where the entry is not signed */
};

/* Makes an entry of sound bytes and their layout.
 *
 * @bytes   become the entry's on success
 * @layout  points into @bytes
 * @key     retained; NULL: the one in the key section is decoded
 * Returns KILN_OK; KILN_E_CORRUPT: what a section holds is not sound; KILN_E_NO_MEMORY. */
kiln_status kilni_entry_open(void *bytes, const kilni_entry_layout *layout, const kiln_key *key,
                             kiln_entry **ret_entry);

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
