/* SPDX-License-Identifier: Apache-2.0 */
#include "entry/entry.h"

#include <stdlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "entry/handle.h"

#define MIN_LEVEL 1
#define MAX_LEVEL 12

/* A zstd block yields at most 128 KiB and takes at least four bytes. A frame that claims more is
 * not believed, so that a small entry can't ask for much memory. */
#define MAX_EXPANSION 32768u

static kiln_status status_of(size_t zstd_result)
{
    return ZSTD_getErrorCode(zstd_result) == ZSTD_error_memory_allocation ? KILN_E_NO_MEMORY
                                                                          : KILN_E_CORRUPT;
}

kiln_status kilni_payload_decompress(const kilni_entry_section *section, uint64_t plain_size,
                                     void **ret_payload)
{
    size_t size = (size_t)section->size;
    if (ZSTD_findFrameCompressedSize(section->bytes, size) != size ||
        ZSTD_getFrameContentSize(section->bytes, size) != plain_size ||
        plain_size / MAX_EXPANSION > size) {
        return KILN_E_CORRUPT;
    }
    void *plain = plain_size <= SIZE_MAX ? malloc((size_t)plain_size) : NULL;
    if (!plain) {
        return KILN_E_NO_MEMORY;
    }
    size_t result = ZSTD_decompress(plain, (size_t)plain_size, section->bytes, size);
    if (ZSTD_isError(result) || result != plain_size) {
        free(plain);
        return ZSTD_isError(result) ? status_of(result) : KILN_E_CORRUPT;
    }
    *ret_payload = plain;
    return KILN_OK;
}

/* A zstd frame of the payload in a new block; NULL with KILN_OK where that is not smaller, or the
 * payload too large. */
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

static void set_payload(kilni_entry_layout *layout, const void *bytes, uint64_t size)
{
    for (uint32_t i = 0; i < layout->header.section_count; i++) {
        if (layout->sections[i].type == KILNI_SECTION_PAYLOAD) {
            layout->sections[i].bytes = bytes;
            layout->sections[i].size = size;
        }
    }
}

kiln_status kilni_entry_compress(const kiln_entry *entry, int level, kiln_entry **ret_entry)
{
    if (!entry || !ret_entry || level < MIN_LEVEL || level > MAX_LEVEL) {
        return KILN_E_INVALID;
    }
    kilni_entry_layout layout;
    kiln_status status = kilni_entry_layout_decode(entry->bytes, entry->size, &layout);
    if (status != KILN_OK) {
        return status;
    }
    void *frame;
    size_t frame_size = 0;
    status = compress_payload(entry->payload, level, &frame, &frame_size);
    if (status != KILN_OK) {
        return status;
    }
    kilni_entry_layout_unsign(&layout);
    if (frame) {
        layout.header.flags |= KILNI_ENTRY_COMPRESSED;
        set_payload(&layout, frame, frame_size);
    } else {
        layout.header.flags &= ~(uint32_t)KILNI_ENTRY_COMPRESSED;
        set_payload(&layout, entry->payload.data, entry->payload.size);
    }
    status = kilni_entry_from_layout(&layout, entry->key, ret_entry);
    free(frame);
    return status;
}
