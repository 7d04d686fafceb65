/* SPDX-License-Identifier: Apache-2.0 */
#include "device/watch/encoding.h"

#include <string.h>

kiln_status kilni_append_number(kilni_text *to, uint64_t value, size_t width)
{
    unsigned char bytes[8];
    kilni_byte_writer writer = {.at = bytes, .left = sizeof bytes};
    kilni_write_integer(&writer, value, width);
    return kilni_text_append_bytes(to, bytes, width);
}

kiln_status kilni_append_text(kilni_text *to, const char *text)
{
    const size_t length = strlen(text);
    kilni_append_number(to, length, 4);
    return kilni_text_append_bytes(to, text, length + 1);
}

const char *kilni_read_text(kilni_byte_reader *reader)
{
    const uint64_t length = kilni_read_u32(reader);
    const char *text = (const char *)kilni_read_bytes(reader, length + 1);
    return text && text[length] == '\0' && strlen(text) == length ? text : NULL;
}
