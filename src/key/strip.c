/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/key.h>

#include <sodium.h>
#include <string.h>

#include "base/bytes.h"
#include "base/size.h"
#include "key/encoding.h"

void kilni_key_part_digest(const void *bytes, uint64_t size,
                           unsigned char digest[KILNI_KEY_PART_DIGEST_SIZE])
{
    crypto_generichash(digest, KILNI_KEY_PART_DIGEST_SIZE, bytes, size, NULL, 0);
}

static bool is_to_be_stripped(const kiln_key_part *part, uint64_t above)
{
    return part->bytes && part->size > above;
}

/* Computes the size of the stripped encoding. Returns false if the size does not fit in a size_t. A
 * part of less than 32 bytes grows when it is stripped. */
static bool stripped_size(const kiln_key *key, uint64_t above, size_t *ret_size)
{
    size_t size = KILNI_KEY_HEADER_SIZE + KILNI_KEY_DIGEST_SIZE;
    for (size_t i = 0; i < key->part_count; i++) {
        const kiln_key_part *part = &key->parts[i];
        bool is_stripped = part->digest || is_to_be_stripped(part, above);
        size_t content = is_stripped ? KILNI_KEY_PART_DIGEST_SIZE : (size_t)part->size;
        if (!kilni_size_add(size, KILNI_KEY_PART_FIXED_SIZE + strlen(part->name), &size) ||
            !kilni_size_add(size, content, &size)) {
            return false;
        }
    }
    *ret_size = size;
    return true;
}

static void write_part(kilni_byte_writer *writer, const kiln_key_part *part, uint64_t above)
{
    bool strip_now = is_to_be_stripped(part, above);
    size_t name_length = strlen(part->name);
    kilni_write_u8(writer, (uint8_t)name_length);
    kilni_write_bytes(writer, part->name, name_length + 1);
    kilni_write_u8(writer,
                   part->digest || strip_now ? KILNI_KEY_FORM_STRIPPED : KILNI_KEY_FORM_WHOLE);
    kilni_write_u64(writer, part->size);
    if (strip_now) {
        unsigned char digest[KILNI_KEY_PART_DIGEST_SIZE];
        kilni_key_part_digest(part->bytes, part->size, digest);
        kilni_write_bytes(writer, digest, sizeof digest);
    } else if (part->digest) {
        kilni_write_bytes(writer, part->digest, KILNI_KEY_PART_DIGEST_SIZE);
    } else {
        kilni_write_bytes(writer, part->bytes, (size_t)part->size);
    }
}

static bool has_any_to_strip(const kiln_key *key, uint64_t above)
{
    for (size_t i = 0; i < key->part_count; i++) {
        if (is_to_be_stripped(&key->parts[i], above)) {
            return true;
        }
    }
    return false;
}

kiln_status kiln_key_strip(const kiln_key *key, uint64_t above, kiln_key **ret_key)
{
    if (!key || !ret_key) {
        return KILN_E_INVALID;
    }
    if (!has_any_to_strip(key, above)) {
        *ret_key = kiln_key_retain(key);
        return KILN_OK;
    }
    size_t size;
    if (!stripped_size(key, above, &size)) {
        return KILN_E_NO_MEMORY;
    }
    kiln_key *stripped;
    kiln_status status = kilni_key_allocate(key->part_count, size, &stripped);
    if (status != KILN_OK) {
        return status;
    }
    kilni_byte_writer writer = {.at = stripped->encoding, .left = size};
    kilni_write_bytes(&writer, KILNI_KEY_MAGIC, KILNI_KEY_MAGIC_SIZE);
    kilni_write_u32(&writer, KILNI_KEY_FLAG_STRIPPED);
    kilni_write_u32(&writer, (uint32_t)key->part_count);
    kilni_write_bytes(&writer, key->digest.bytes, KILNI_KEY_DIGEST_SIZE);
    for (size_t i = 0; i < key->part_count; i++) {
        write_part(&writer, &key->parts[i], above);
    }
    status = kilni_key_index(stripped);
    if (status != KILN_OK) {
        kiln_key_release(&stripped);
        return status;
    }
    /* Equal keys must have the same hash. */
    stripped->hash = key->hash;
    *ret_key = stripped;
    return KILN_OK;
}
