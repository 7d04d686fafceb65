/* SPDX-License-Identifier: Apache-2.0 */
#include "entry/entry.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "entry/handle.h"
#include "entry/provenance.h"

const char *kiln_entry_kind_name(uint32_t kind)
{
    switch (kind) {
    case KILN_ENTRY_PROGRAM:
        return "program";
    case KILN_ENTRY_KERNEL:
        return "kernel";
    case KILN_ENTRY_CONSTANT:
        return "constant";
    case KILN_ENTRY_REQUEST:
        return "request";
    case KILN_ENTRY_BLOB:
        return "blob";
    default:
        return "unknown";
    }
}

static bool is_readable(const kiln_bytes *bytes)
{
    return bytes->data || bytes->size == 0;
}

/* A longer structure comes from a newer caller. Fields that this version does not know must be
 * zero. */
static bool has_known_size(const kiln_entry_params *params)
{
    const unsigned char *bytes = (const unsigned char *)params;
    if (params->struct_size < sizeof *params) {
        return false;
    }
    for (size_t i = sizeof *params; i < params->struct_size; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

static bool is_valid(const kiln_entry_params *params)
{
    return has_known_size(params) && params->key && params->kind >= KILN_ENTRY_PROGRAM &&
           params->kind <= KILN_ENTRY_BLOB && is_readable(&params->answers) &&
           is_readable(&params->log) && is_readable(&params->payload);
}

static void fill_structure(const kiln_entry_params *params, const unsigned char *provenance,
                           size_t provenance_size, kilni_entry_structure *ret_structure)
{
    ret_structure->header = (kilni_entry_header){.kind = params->kind,
                                                 .digest = kiln_key_digest(params->key),
                                                 .payload_size = params->payload.size};
    size_t key_size;
    const void *key = kiln_key_encoding(params->key, &key_size);
    kilni_entry_structure_add(ret_structure, KILNI_SECTION_PROVENANCE, 0, provenance,
                              provenance_size);
    kilni_entry_structure_add(ret_structure, KILNI_SECTION_KEY, KILNI_SECTION_REQUIRED, key,
                              key_size);
    if (params->answers.size > 0) {
        kilni_entry_structure_add(ret_structure, KILNI_SECTION_ANSWERS, KILNI_SECTION_REQUIRED,
                                  params->answers.data, params->answers.size);
    }
    if (params->log.size > 0) {
        kilni_entry_structure_add(ret_structure, KILNI_SECTION_LOG, 0, params->log.data,
                                  params->log.size);
    }
    kilni_entry_structure_add(ret_structure, KILNI_SECTION_PAYLOAD, KILNI_SECTION_REQUIRED,
                              params->payload.data, params->payload.size);
}

kiln_status kilni_entry_from_structure(kilni_entry_structure *structure, const kiln_key *key,
                                       kiln_entry **ret_entry)
{
    unsigned char *bytes;
    kiln_status status = kilni_entry_structure_encode(structure, &bytes);
    if (status != KILN_OK) {
        return status;
    }
    kilni_entry_seal(bytes, (size_t)structure->header.total_size);
    status = kilni_entry_open(bytes, structure, key, ret_entry);
    if (status != KILN_OK) {
        free(bytes);
    }
    return status;
}

kiln_status kiln_entry_new(const kiln_entry_params *params, kiln_entry **ret_entry)
{
    if (!params || !ret_entry || !is_valid(params)) {
        return KILN_E_INVALID;
    }
    unsigned char *provenance;
    size_t provenance_size;
    kiln_status status =
        kilni_provenance_encode(&params->provenance, &provenance, &provenance_size);
    if (status != KILN_OK) {
        return status;
    }
    kilni_entry_structure structure;
    fill_structure(params, provenance, provenance_size, &structure);
    status = kilni_entry_from_structure(&structure, params->key, ret_entry);
    free(provenance);
    return status;
}

/* Returns an empty entry for NULL. */
static const kiln_entry *or_empty(const kiln_entry *entry)
{
    static const kiln_entry empty = {
        .provenance = {
            .struct_size = sizeof empty.provenance, .tool = "", .device = "", .name = ""}};
    return entry ? entry : &empty;
}

const kiln_key *kiln_entry_key(const kiln_entry *entry)
{
    return or_empty(entry)->key;
}

uint32_t kiln_entry_kind_of(const kiln_entry *entry)
{
    return or_empty(entry)->kind;
}

kiln_provenance kiln_entry_provenance(const kiln_entry *entry)
{
    return or_empty(entry)->provenance;
}

kiln_bytes kiln_entry_answers(const kiln_entry *entry)
{
    return or_empty(entry)->answers;
}

kiln_bytes kiln_entry_log(const kiln_entry *entry)
{
    return or_empty(entry)->log;
}

kiln_bytes kiln_entry_payload(const kiln_entry *entry)
{
    return or_empty(entry)->payload;
}

int kiln_entry_is_signed(const kiln_entry *entry)
{
    return or_empty(entry)->has_mac;
}

kiln_bytes kiln_entry_encoding(const kiln_entry *entry)
{
    return (kiln_bytes){or_empty(entry)->bytes, or_empty(entry)->size};
}

static bool has_same_bytes(kiln_bytes a, kiln_bytes b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

bool kilni_entry_equals(const kiln_entry *a, const kiln_entry *b)
{
    return a->kind == b->kind && has_same_bytes(a->payload, b->payload) &&
           has_same_bytes(a->answers, b->answers) && has_same_bytes(a->log, b->log) &&
           kiln_key_equals(a->key, b->key);
}
