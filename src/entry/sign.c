/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "entry/entry.h"
#include "entry/handle.h"

kiln_status kilni_entry_sign(const kiln_entry *entry, const kilni_secret_key *key,
                             int64_t expires_s, kiln_entry **ret_entry)
{
    kilni_entry_structure structure;
    kiln_status status = kilni_entry_structure_decode(entry->bytes, entry->size, &structure);
    if (status != KILN_OK) {
        return status;
    }
    kilni_entry_structure_unsign(&structure);
    kilni_entry_structure_remove(&structure, KILNI_SECTION_SIGNATURE);
    unsigned char section[KILNI_SIGNATURE_MAX_SIZE];
    status =
        kilni_entry_structure_sign(&structure, entry->key, entry->payload, key, expires_s, section);
    if (status == KILN_OK) {
        status = kilni_entry_structure_add(&structure, KILNI_SECTION_SIGNATURE, 0, section,
                                           kilni_signature_section_size(&key->public_key));
    }
    return status == KILN_OK ? kilni_entry_from_structure(&structure, entry->key, ret_entry)
                             : status;
}
