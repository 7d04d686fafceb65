/* SPDX-License-Identifier: Apache-2.0 */
#include "key/builder.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/size.h"
#include "base/text.h"
#include "key/encoding.h"
#include "key/omit.h"

struct kiln_key_builder {
    kilni_text parts; /* encoded, one after another */
    size_t part_count;
    kiln_status failure; /* the status of the first part that could not be added; a key without that
                            part would be wrong */
};

kiln_status kiln_key_builder_new(kiln_key_builder **ret_builder)
{
    if (!ret_builder) {
        return KILN_E_INVALID;
    }
    kiln_key_builder *builder = calloc(1, sizeof *builder);
    if (!builder) {
        return KILN_E_NO_MEMORY;
    }
    *ret_builder = builder;
    return KILN_OK;
}

void kiln_key_builder_free(kiln_key_builder **builder)
{
    if (!builder || !*builder) {
        return;
    }
    kilni_text_done(&(*builder)->parts);
    free(*builder);
    *builder = NULL;
}

static kiln_status append(kiln_key_builder *builder, const char *name, const void *bytes,
                          size_t size)
{
    if (!name || (!bytes && size > 0)) {
        return KILN_E_INVALID;
    }
    size_t name_length = strnlen(name, KILNI_KEY_MAX_NAME + 1);
    if (name_length == 0 || name_length > KILNI_KEY_MAX_NAME) {
        return KILN_E_INVALID;
    }
    if (size > KILNI_MAX_BYTES || builder->part_count >= KILNI_KEY_MAX_PARTS) {
        return KILN_E_TOO_LARGE;
    }

    unsigned char head[KILNI_KEY_PART_FIXED_SIZE + KILNI_KEY_MAX_NAME];
    kilni_byte_writer writer = {.at = head, .left = sizeof head};
    kilni_write_u8(&writer, (uint8_t)name_length);
    kilni_write_bytes(&writer, name, name_length + 1);
    kilni_write_u8(&writer, KILNI_KEY_FORM_WHOLE);
    kilni_write_u64(&writer, size);
    size_t head_size = sizeof head - writer.left;

    size_t part_size;
    if (!kilni_size_add(head_size, size, &part_size)) {
        return KILN_E_NO_MEMORY;
    }
    kiln_status status = kilni_text_reserve(&builder->parts, part_size);
    if (status != KILN_OK) {
        return status;
    }
    kilni_text_append_bytes(&builder->parts, head, head_size);
    kilni_text_append_bytes(&builder->parts, bytes, size);
    builder->part_count++;
    return KILN_OK;
}

kiln_status kiln_key_builder_add(kiln_key_builder *builder, const char *name, const void *bytes,
                                 size_t size)
{
    if (!builder) {
        return KILN_E_INVALID;
    }
    if (builder->failure == KILN_OK && !(name && kilni_key_omits(name))) {
        builder->failure = append(builder, name, bytes, size);
    }
    return builder->failure;
}

kiln_status kiln_key_builder_add_text(kiln_key_builder *builder, const char *name, const char *text)
{
    /* A missing text is passed as NULL with a size above 0, which is refused. */
    return kiln_key_builder_add(builder, name, text, text ? strlen(text) : 1);
}

kiln_status kiln_key_builder_add_number(kiln_key_builder *builder, const char *name,
                                        uint64_t number)
{
    unsigned char bytes[8];
    kilni_byte_writer writer = {.at = bytes, .left = sizeof bytes};
    kilni_write_u64(&writer, number);
    return kiln_key_builder_add(builder, name, bytes, sizeof bytes);
}

kiln_status kilni_key_parts_add(const kiln_key *of, kiln_key_builder *builder)
{
    kiln_status status = KILN_OK;
    for (size_t i = 0; status == KILN_OK && i < kiln_key_part_count(of); i++) {
        kiln_key_part part;
        kiln_key_part_at(of, i, &part);
        status = kiln_key_builder_add(builder, part.name, part.bytes, (size_t)part.size);
    }
    return status;
}

kiln_status kilni_key_builder_fail(kiln_key_builder *builder, kiln_status failure)
{
    builder->failure = builder->failure == KILN_OK ? failure : builder->failure;
    return builder->failure;
}

kiln_status kiln_key_builder_finish(const kiln_key_builder *builder, kiln_key **ret_key)
{
    if (!builder || !ret_key) {
        return KILN_E_INVALID;
    }
    if (builder->failure != KILN_OK) {
        return builder->failure;
    }
    size_t size;
    if (!kilni_size_add(KILNI_KEY_HEADER_SIZE, builder->parts.length, &size)) {
        return KILN_E_NO_MEMORY;
    }
    kiln_key *key;
    kiln_status status = kilni_key_allocate(builder->part_count, size, &key);
    if (status != KILN_OK) {
        return status;
    }
    kilni_byte_writer writer = {.at = key->encoding, .left = size};
    kilni_write_bytes(&writer, KILNI_KEY_MAGIC, KILNI_KEY_MAGIC_SIZE);
    kilni_write_u32(&writer, 0);
    kilni_write_u32(&writer, (uint32_t)builder->part_count);
    kilni_write_bytes(&writer, builder->parts.bytes, builder->parts.length);

    status = kilni_key_index(key);
    if (status != KILN_OK) {
        kiln_key_release(&key);
        return status;
    }
    *ret_key = key;
    return KILN_OK;
}
