/* SPDX-License-Identifier: Apache-2.0 */
#include "entry/entry.h"

#include "entry/handle.h"

_Static_assert(KILNI_ENTRY_PROBE_SIZE == KILNI_ENTRY_HEADER_SIZE, "a probe reads the header");

kiln_status kilni_entry_probe(const unsigned char bytes[KILNI_ENTRY_PROBE_SIZE], uint64_t size)
{
    kilni_entry_header header;
    return kilni_entry_header_decode(bytes, KILNI_ENTRY_PROBE_SIZE, size, &header);
}

void kilni_entry_arrival_begin(kilni_entry_arrival *arrival, void *bytes, size_t size)
{
    arrival->bytes = bytes;
    arrival->size = size;
    arrival->arrived = 0;
    kilni_hasher_begin(&arrival->hasher);
}

void kilni_entry_arrival_add(kilni_entry_arrival *arrival, size_t count)
{
    const size_t covered = kilni_entry_covered_size(arrival->size);
    if (arrival->arrived < covered) {
        const size_t left = covered - arrival->arrived;
        kilni_hasher_add(&arrival->hasher, arrival->bytes + arrival->arrived,
                         count < left ? count : left);
    }
    arrival->arrived += count;
}

kiln_status kilni_entry_arrival_end(kilni_entry_arrival *arrival,
                                    const kilni_signing_key *signing_key, kiln_entry **ret_entry)
{
    if (arrival->arrived != arrival->size) {
        return KILN_E_CORRUPT;
    }
    const kiln_digest hash = kilni_hasher_end(&arrival->hasher);
    kilni_entry_structure structure;
    kiln_status status =
        kilni_entry_structure_decode_hashed(arrival->bytes, arrival->size, &hash, &structure);
    if (status != KILN_OK) {
        return status;
    }
    return kilni_entry_open_stored(arrival->bytes, &structure, signing_key, ret_entry);
}
