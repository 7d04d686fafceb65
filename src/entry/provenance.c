/* SPDX-License-Identifier: Apache-2.0 */
#include "entry/provenance.h"

#include <stdlib.h>
#include <string.h>

#include <kiln/version.h>

#include "base/bytes.h"
#include "base/text.h"
#include "entry/format.h"
#include "os/clock.h"

#define TEXT_COUNT 3
#define FIXED_SIZE                                                                                 \
    (8 + 8 + TEXT_COUNT * (4 + 1)) /* numbers; length and terminating NUL of each                  \
                                    * text */

kiln_status kilni_provenance_encode(const kiln_provenance *provenance, unsigned char **ret_bytes,
                                    size_t *ret_size)
{
    const char *texts[TEXT_COUNT] = {provenance->tool ? provenance->tool : "kiln " KILN_VERSION,
                                     provenance->device ? provenance->device : "",
                                     provenance->name ? provenance->name : ""};
    size_t lengths[TEXT_COUNT];
    size_t size = FIXED_SIZE;
    for (size_t i = 0; i < TEXT_COUNT; i++) {
        size_t length = strnlen(texts[i], KILNI_ENTRY_MAX_TEXT + 1);
        lengths[i] = kilni_text_cut(texts[i], length, KILNI_ENTRY_MAX_TEXT);
        size += lengths[i];
    }
    unsigned char *bytes = malloc(size);
    if (!bytes) {
        return KILN_E_NO_MEMORY;
    }
    int64_t created_s = provenance->created_s ? provenance->created_s : kilni_clock_unix_s();
    kilni_byte_writer writer = {.at = bytes, .left = size};
    kilni_write_u64(&writer, provenance->build_ns);
    kilni_write_u64(&writer, (uint64_t)created_s);
    for (size_t i = 0; i < TEXT_COUNT; i++) {
        kilni_write_u32(&writer, (uint32_t)lengths[i]);
        kilni_write_bytes(&writer, texts[i], lengths[i]);
        kilni_write_u8(&writer, 0);
    }
    *ret_bytes = bytes;
    *ret_size = size;
    return KILN_OK;
}

/* Returns a pointer to the text in the reader's buffer. If the text is not valid, returns NULL and
 * makes the reader fail. */
static const char *read_text(kilni_byte_reader *reader)
{
    uint32_t length = kilni_read_u32(reader);
    const unsigned char *text = kilni_read_bytes(reader, (uint64_t)length + 1);
    if (!text || length > KILNI_ENTRY_MAX_TEXT ||
        memchr(text, 0, (size_t)length + 1) != text + length) {
        reader->failed = true;
        return NULL;
    }
    return (const char *)text;
}

kiln_status kilni_provenance_decode(const unsigned char *bytes, uint64_t size,
                                    kiln_provenance *ret_provenance)
{
    kilni_byte_reader reader = {.at = bytes, .left = (size_t)size};
    kiln_provenance provenance = {.struct_size = sizeof provenance};
    provenance.build_ns = kilni_read_u64(&reader);
    provenance.created_s = (int64_t)kilni_read_u64(&reader);
    provenance.tool = read_text(&reader);
    provenance.device = read_text(&reader);
    provenance.name = read_text(&reader);
    if (reader.failed || reader.left > 0) {
        return KILN_E_CORRUPT;
    }
    *ret_provenance = provenance;
    return KILN_OK;
}
