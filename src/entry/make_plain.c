/* SPDX-License-Identifier: Apache-2.0 */
#include "entry/entry.h"

#include <stdbool.h>
#include <string.h>

#include "entry/handle.h"

static kiln_bytes encoding_of(const kiln_key *key)
{
    kiln_bytes bytes;
    bytes.data = kiln_key_encoding(key, &bytes.size);
    return bytes;
}

static bool is_same(kiln_bytes a, kiln_bytes b)
{
    return a.size == b.size && memcmp(a.data, b.data, a.size) == 0;
}

kiln_status kilni_entry_make_plain(const kiln_entry *entry, const kiln_key *key,
                                   kiln_entry **ret_entry)
{
    if (!entry || !ret_entry || (key && !kiln_key_equals(key, entry->key))) {
        return KILN_E_INVALID;
    }
    const kiln_key *wanted = key ? key : entry->key;
    kiln_bytes encoding = encoding_of(wanted);
    if (!entry->plain_payload && is_same(encoding, encoding_of(entry->key))) {
        *ret_entry = kiln_entry_retain(entry);
        return KILN_OK;
    }
    kilni_entry_structure structure;
    kiln_status status = kilni_entry_structure_decode(entry->bytes, entry->size, &structure);
    if (status != KILN_OK) {
        return status;
    }
    kilni_entry_structure_unsign(&structure);
    structure.header.flags &= ~(uint32_t)KILNI_ENTRY_COMPRESSED;
    kilni_entry_structure_set(&structure, KILNI_SECTION_KEY, encoding);
    kilni_entry_structure_set(&structure, KILNI_SECTION_PAYLOAD, entry->payload);
    return kilni_entry_from_structure(&structure, wanted, ret_entry);
}
