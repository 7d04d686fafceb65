/* SPDX-License-Identifier: Apache-2.0 */
#include "entry/entry.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "entry/handle.h"
#include "entry/provenance.h"
#include "entry/signature.h"

kiln_entry *kiln_entry_retain(const kiln_entry *entry)
{
    /* Casts const away through an integer: only the reference count changes, and no holder sees a
     * change of the entry. */
    kiln_entry *counted = (kiln_entry *)(uintptr_t)entry;
    if (counted) {
        atomic_fetch_add_explicit(&counted->references, 1, memory_order_relaxed);
    }
    return counted;
}

void kiln_entry_release(kiln_entry **entry)
{
    if (!entry || !*entry) {
        return;
    }
    if (atomic_fetch_sub_explicit(&(*entry)->references, 1, memory_order_acq_rel) == 1) {
        kiln_key_release(&(*entry)->key);
        free((*entry)->plain_payload);
        free((*entry)->bytes);
        free(*entry);
    }
    *entry = NULL;
}

static kiln_status decode_key(const kilni_entry_structure *structure, kiln_key **ret_key)
{
    const kilni_entry_section *section = kilni_entry_structure_find(structure, KILNI_SECTION_KEY);
    kiln_key *key = NULL;
    const kiln_status status = kiln_key_decode(section->bytes, (size_t)section->size, &key);
    if (status != KILN_OK) {
        return status;
    }
    const kiln_digest digest = kiln_key_digest(key);
    if (memcmp(&digest, &structure->header.digest, sizeof digest) != 0) {
        kiln_key_release(&key);
        return KILN_E_CORRUPT;
    }
    *ret_key = key;
    return KILN_OK;
}

static kiln_status open_provenance(kiln_entry *entry, const kilni_entry_structure *structure)
{
    const kilni_entry_section *section =
        kilni_entry_structure_find(structure, KILNI_SECTION_PROVENANCE);
    if (!section) {
        entry->provenance = (kiln_provenance){
            .struct_size = sizeof entry->provenance, .tool = "", .device = "", .name = ""};
        return KILN_OK;
    }
    return kilni_provenance_decode(section->bytes, section->size, &entry->provenance);
}

static kiln_status open_payload(kiln_entry *entry, const kilni_entry_structure *structure)
{
    const kilni_entry_section *section =
        kilni_entry_structure_find(structure, KILNI_SECTION_PAYLOAD);
    entry->payload = (kiln_bytes){section->bytes, (size_t)section->size};
    if (!(structure->header.flags & KILNI_ENTRY_COMPRESSED)) {
        return KILN_OK;
    }
    kiln_status status =
        kilni_payload_decompress(section, structure->header.payload_size, &entry->plain_payload);
    if (status == KILN_OK) {
        entry->payload = (kiln_bytes){entry->plain_payload, (size_t)structure->header.payload_size};
    }
    return status;
}

static kiln_bytes bytes_of(const kilni_entry_structure *structure, uint32_t type)
{
    const kilni_entry_section *section = kilni_entry_structure_find(structure, type);
    return section ? (kiln_bytes){section->bytes, (size_t)section->size} : (kiln_bytes){NULL, 0};
}

kiln_status kilni_entry_open(void *bytes, const kilni_entry_structure *structure,
                             const kiln_key *key, kiln_entry **ret_entry)
{
    kiln_entry *entry = calloc(1, sizeof *entry);
    if (!entry) {
        return KILN_E_NO_MEMORY;
    }
    atomic_init(&entry->references, 1);
    entry->kind = structure->header.kind;
    entry->answers = bytes_of(structure, KILNI_SECTION_ANSWERS);
    entry->log = bytes_of(structure, KILNI_SECTION_LOG);
    entry->signature = bytes_of(structure, KILNI_SECTION_SIGNATURE);
    entry->has_mac = (structure->header.flags & KILNI_ENTRY_HAS_MAC) != 0;
    entry->key = kiln_key_retain(key);
    kiln_status status = key ? KILN_OK : decode_key(structure, &entry->key);
    if (status == KILN_OK) {
        status = open_provenance(entry, structure);
    }
    if (status == KILN_OK) {
        status = open_payload(entry, structure);
    }
    if (status != KILN_OK) {
        kiln_entry_release(&entry); /* its bytes still belong to the caller */
        return status;
    }
    entry->bytes = bytes;
    entry->size = (size_t)structure->header.total_size;
    *ret_entry = entry;
    return KILN_OK;
}

kiln_status kilni_entry_open_stored(void *bytes, const kilni_entry_structure *structure,
                                    const kilni_signing_key *signing_key, kiln_entry **ret_entry)
{
    kiln_status status =
        signing_key ? kilni_entry_structure_authenticate(bytes, structure, signing_key) : KILN_OK;
    return status == KILN_OK ? kilni_entry_open(bytes, structure, NULL, ret_entry) : status;
}

/* @hash  of the bytes that precede the checksum; NULL: it is not known */
static kiln_status decode(const void *bytes, size_t size, const kiln_digest *hash,
                          kilni_entry_structure *ret_structure)
{
    return hash ? kilni_entry_structure_decode_hashed(bytes, size, hash, ret_structure)
                : kilni_entry_structure_decode(bytes, size, ret_structure);
}

kiln_status kilni_entry_adopt(void *bytes, size_t size, const kilni_signing_key *signing_key,
                              kiln_entry **ret_entry)
{
    return kilni_entry_adopt_hashed(bytes, size, NULL, signing_key, ret_entry);
}

kiln_status kilni_entry_adopt_hashed(void *bytes, size_t size, const kiln_digest *hash,
                                     const kilni_signing_key *signing_key, kiln_entry **ret_entry)
{
    if (!bytes || !ret_entry) {
        return KILN_E_INVALID;
    }
    kilni_entry_structure structure;
    const kiln_status status = decode(bytes, size, hash, &structure);
    if (status != KILN_OK) {
        return status;
    }
    return kilni_entry_open_stored(bytes, &structure, signing_key, ret_entry);
}

/* Opens an entry if its signature is valid. The key is decoded before the check, the payload after
 * it. */
static kiln_status open_verified(void *bytes, const kilni_entry_structure *structure,
                                 const kilni_entry_trust *trust, kiln_entry **ret_entry)
{
    kiln_key *key = NULL;
    kiln_status status = decode_key(structure, &key);
    if (status == KILN_OK) {
        status = kilni_entry_structure_verify(structure, key, trust->keys, trust->now_s);
    }
    if (status == KILN_OK) {
        status = kilni_entry_open(bytes, structure, key, ret_entry);
    }
    kiln_key_release(&key);
    return status;
}

kiln_status kilni_entry_adopt_trusted(void *bytes, size_t size, const kilni_entry_trust *trust,
                                      kiln_entry **ret_entry)
{
    return kilni_entry_adopt_trusted_hashed(bytes, size, NULL, trust, ret_entry);
}

kiln_status kilni_entry_adopt_trusted_hashed(void *bytes, size_t size, const kiln_digest *hash,
                                             const kilni_entry_trust *trust, kiln_entry **ret_entry)
{
    kilni_entry_structure structure;
    kiln_status status = decode(bytes, size, hash, &structure);
    if (status != KILN_OK) {
        return status;
    }
    if (trust->signing_key) {
        status = kilni_entry_open_stored(bytes, &structure, trust->signing_key, ret_entry);
        if (status != KILN_E_UNAUTHENTICATED) {
            return status;
        }
    }
    return open_verified(bytes, &structure, trust, ret_entry);
}

kiln_status kiln_entry_decode(const void *bytes, size_t size, kiln_entry **ret_entry)
{
    if (!bytes || !ret_entry) {
        return KILN_E_INVALID;
    }
    void *copy = malloc(size > 0 ? size : 1);
    if (!copy) {
        return KILN_E_NO_MEMORY;
    }
    memcpy(copy, bytes, size);
    kiln_status status = kilni_entry_adopt(copy, size, NULL, ret_entry);
    if (status != KILN_OK) {
        free(copy);
    }
    return status;
}
