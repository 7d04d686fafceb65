/* SPDX-License-Identifier: Apache-2.0 */
#include "entry/entry.h"

#include <stdlib.h>

#include "entry/handle.h"

kiln_status kilni_entry_sign(const kiln_entry *entry, const kilni_entry_mac_key *key,
                             kiln_entry **ret_entry)
{
    if (!entry || !key || !ret_entry) {
        return KILN_E_INVALID;
    }
    kilni_entry_layout layout;
    kiln_status status = kilni_entry_layout_decode(entry->bytes, entry->size, &layout);
    if (status != KILN_OK) {
        return status;
    }
    kilni_entry_layout_unsign(&layout);
    layout.header.flags |= KILNI_ENTRY_SIGNED;
    status = kilni_entry_layout_add(&layout, KILNI_SECTION_MAC, 0, NULL, KILNI_ENTRY_MAC_SIZE);
    unsigned char *bytes;
    if (status == KILN_OK) {
        status = kilni_entry_layout_encode(&layout, &bytes);
    }
    if (status != KILN_OK) {
        return status;
    }
    size_t size = (size_t)layout.header.total_size;
    unsigned char *mac =
        bytes + (kilni_entry_layout_find(&layout, KILNI_SECTION_MAC)->bytes - bytes);
    kilni_entry_compute_mac(bytes, size, mac, key, mac);
    kilni_entry_seal(bytes, size);
    status = kilni_entry_open(bytes, &layout, entry->key, ret_entry);
    if (status != KILN_OK) {
        free(bytes);
    }
    return status;
}
