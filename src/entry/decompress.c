/* SPDX-License-Identifier: Apache-2.0 */
#include "entry/handle.h"

#include <stdlib.h>
#include <zstd.h>
#include <zstd_errors.h>

/* A zstd block yields at most 128 KiB and takes at least four bytes. A frame that claims a greater
 * expansion is refused. Otherwise a small entry could make the process allocate much memory. */
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
