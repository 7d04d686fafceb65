/* SPDX-License-Identifier: Apache-2.0 */
#include "entry/entry.h"

#include <stdlib.h>
#include <zstd.h>

#include "entry/handle.h"

#define MIN_LEVEL 1
#define MAX_LEVEL 12

/* Compresses the payload into a new zstd frame. Returns KILN_OK and NULL if a frame would not be
 * smaller than the payload, or if the payload is too large to be stored compressed. */
static kiln_status compress_payload(kiln_bytes payload, int level, void **ret_frame,
                                    size_t *ret_size)
{
    if (payload.size > KILNI_ENTRY_MAX_DECOMPRESSED) {
        *ret_frame = NULL;
        return KILN_OK;
    }
    size_t bound = ZSTD_compressBound(payload.size);
    if (ZSTD_isError(bound)) {
        return KILN_E_TOO_LARGE;
    }
    void *frame = malloc(bound);
    if (!frame) {
        return KILN_E_NO_MEMORY;
    }
    size_t size = ZSTD_compress(frame, bound, payload.data, payload.size, level);
    if (ZSTD_isError(size)) {
        free(frame);
        return KILN_E_NO_MEMORY;
    }
    if (size >= payload.size) {
        free(frame);
        frame = NULL;
    }
    *ret_frame = frame;
    *ret_size = size;
    return KILN_OK;
}

kiln_status kilni_entry_compress(const kiln_entry *entry, int level, kiln_entry **ret_entry)
{
    if (!entry || !ret_entry || level < MIN_LEVEL || level > MAX_LEVEL) {
        return KILN_E_INVALID;
    }
    kilni_entry_structure structure;
    kiln_status status = kilni_entry_structure_decode(entry->bytes, entry->size, &structure);
    if (status != KILN_OK) {
        return status;
    }
    void *frame;
    size_t frame_size = 0;
    status = compress_payload(entry->payload, level, &frame, &frame_size);
    if (status != KILN_OK) {
        return status;
    }
    kilni_entry_structure_unsign(&structure);
    structure.header.flags &= ~(uint32_t)KILNI_ENTRY_COMPRESSED;
    structure.header.flags |= frame ? KILNI_ENTRY_COMPRESSED : 0;
    kilni_entry_structure_set(&structure, KILNI_SECTION_PAYLOAD,
                              frame ? (kiln_bytes){frame, frame_size} : entry->payload);
    status = kilni_entry_from_structure(&structure, entry->key, ret_entry);
    free(frame);
    return status;
}
