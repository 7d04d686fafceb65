/* SPDX-License-Identifier: Apache-2.0 */
#include "entry/entry.h"

#include <stdlib.h>

#include "entry/handle.h"

kiln_status kilni_entry_add_mac(const kiln_entry *entry, const kilni_signing_key *key,
                                kiln_entry **ret_entry)
{
    if (!entry || !key || !ret_entry) {
        return KILN_E_INVALID;
    }
    kilni_entry_structure structure;
    kiln_status status = kilni_entry_structure_decode(entry->bytes, entry->size, &structure);
    if (status != KILN_OK) {
        return status;
    }
    kilni_entry_structure_unsign(&structure);
    structure.header.flags |= KILNI_ENTRY_HAS_MAC;
    status =
        kilni_entry_structure_add(&structure, KILNI_SECTION_MAC, 0, NULL, KILNI_ENTRY_MAC_SIZE);
    unsigned char *bytes;
    if (status == KILN_OK) {
        status = kilni_entry_structure_encode(&structure, &bytes);
    }
    if (status != KILN_OK) {
        return status;
    }
    size_t size = (size_t)structure.header.total_size;
    unsigned char *mac =
        bytes + (kilni_entry_structure_find(&structure, KILNI_SECTION_MAC)->bytes - bytes);
    kilni_entry_compute_mac(bytes, size, mac, key, mac);
    kilni_entry_seal(bytes, size);
    status = kilni_entry_open(bytes, &structure, entry->key, ret_entry);
    if (status != KILN_OK) {
        free(bytes);
    }
    return status;
}
