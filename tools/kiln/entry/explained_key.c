/* SPDX-License-Identifier: Apache-2.0 */
#include "explained_key.h"

explained_key explained_key_of(const kiln_entry *entry)
{
    explained_key found = {.key = kiln_key_retain(kiln_entry_key(entry))};
    if (kiln_entry_kind_of(entry) == KILN_ENTRY_BLOB) {
        /* A program may give its entries any metadata, which is then no key. */
        const kiln_bytes metadata = kiln_entry_answers(entry);
        kiln_key_decode(metadata.data, metadata.size, &found.explanation);
    }
    return found;
}

void explained_key_free(explained_key *key)
{
    kiln_key_release(&key->key);
    kiln_key_release(&key->explanation);
}
