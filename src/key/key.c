/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/key.h>

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/size.h"
#include "key/encoding.h"
#include "key/hash.h"

kiln_status kilni_key_allocate(size_t part_count, size_t encoding_size, kiln_key **ret_key)
{
    size_t size;
    if (!kilni_size_multiply(part_count, sizeof(kiln_key_part), &size) ||
        !kilni_size_add(size, sizeof(kiln_key), &size) ||
        !kilni_size_add(size, encoding_size, &size)) {
        return KILN_E_NO_MEMORY;
    }
    kiln_key *key = malloc(size);
    if (!key) {
        return KILN_E_NO_MEMORY;
    }
    atomic_init(&key->references, 1);
    key->part_count = part_count;
    key->encoding = (unsigned char *)(key->parts + part_count);
    key->encoding_size = encoding_size;
    *ret_key = key;
    return KILN_OK;
}

static bool read_header(kilni_byte_reader *reader, uint32_t *ret_flags, uint32_t *ret_part_count)
{
    const unsigned char *magic = kilni_read_bytes(reader, KILNI_KEY_MAGIC_SIZE);
    *ret_flags = kilni_read_u32(reader);
    *ret_part_count = kilni_read_u32(reader);
    return !reader->failed && memcmp(magic, KILNI_KEY_MAGIC, KILNI_KEY_MAGIC_SIZE) == 0 &&
           *ret_flags <= KILNI_KEY_FLAG_STRIPPED && *ret_part_count <= KILNI_KEY_MAX_PARTS;
}

static bool read_part(kilni_byte_reader *reader, kiln_key_part *ret_part)
{
    uint8_t name_length = kilni_read_u8(reader);
    const unsigned char *name = kilni_read_bytes(reader, (uint64_t)name_length + 1);
    uint8_t form = kilni_read_u8(reader);
    uint64_t size = kilni_read_u64(reader);
    if (reader->failed || name_length == 0 || memchr(name, 0, name_length) ||
        name[name_length] != 0 || form > KILNI_KEY_FORM_STRIPPED || size > KILNI_MAX_BYTES) {
        return false;
    }
    bool stripped = form == KILNI_KEY_FORM_STRIPPED;
    /* An empty part is never stripped, because it must have only one encoding. */
    if (stripped && size == 0) {
        return false;
    }
    const unsigned char *content =
        kilni_read_bytes(reader, stripped ? KILNI_KEY_PART_DIGEST_SIZE : size);
    *ret_part = (kiln_key_part){.name = (const char *)name,
                                .bytes = stripped ? NULL : content,
                                .size = size,
                                .digest = stripped ? content : NULL};
    return !reader->failed;
}

kiln_status kilni_key_index(kiln_key *key)
{
    kilni_byte_reader reader = {.at = key->encoding, .left = key->encoding_size};
    uint32_t flags, part_count;
    if (!read_header(&reader, &flags, &part_count) || part_count != key->part_count) {
        return KILN_E_CORRUPT;
    }
    key->stripped = flags & KILNI_KEY_FLAG_STRIPPED;
    const unsigned char *digest = NULL;
    if (key->stripped) {
        digest = kilni_read_bytes(&reader, KILNI_KEY_DIGEST_SIZE);
    }
    bool any_stripped = false;
    for (size_t i = 0; i < part_count; i++) {
        if (!read_part(&reader, &key->parts[i])) {
            return KILN_E_CORRUPT;
        }
        any_stripped = any_stripped || key->parts[i].digest;
    }
    if (reader.failed || reader.left > 0 || any_stripped != key->stripped) {
        return KILN_E_CORRUPT;
    }
    key->hash = kilni_hash_keyed(key->encoding, key->encoding_size);
    if (digest) {
        memcpy(key->digest.bytes, digest, KILNI_KEY_DIGEST_SIZE);
    } else {
        key->digest = kilni_hash(key->encoding, key->encoding_size);
    }
    return KILN_OK;
}

kiln_status kiln_key_decode(const void *bytes, size_t size, kiln_key **ret_key)
{
    if (!bytes || !ret_key) {
        return KILN_E_INVALID;
    }
    kilni_byte_reader reader = {.at = bytes, .left = size};
    uint32_t flags, part_count;
    /* The count decides how much memory is allocated, so it must not exceed the number of parts
     * that the bytes can hold. */
    if (!read_header(&reader, &flags, &part_count) ||
        part_count > reader.left / KILNI_KEY_PART_MIN_SIZE) {
        return KILN_E_CORRUPT;
    }
    kiln_key *key;
    kiln_status status = kilni_key_allocate(part_count, size, &key);
    if (status != KILN_OK) {
        return status;
    }
    memcpy(key->encoding, bytes, size);
    status = kilni_key_index(key);
    if (status != KILN_OK) {
        kiln_key_release(&key);
        return status;
    }
    *ret_key = key;
    return KILN_OK;
}

kiln_key *kiln_key_retain(const kiln_key *key)
{
    /* Casts const away through an integer: only the reference count changes, and no holder sees a
     * change of the key. */
    kiln_key *counted = (kiln_key *)(uintptr_t)key;
    if (counted) {
        atomic_fetch_add_explicit(&counted->references, 1, memory_order_relaxed);
    }
    return counted;
}

void kiln_key_release(kiln_key **key)
{
    if (!key || !*key) {
        return;
    }
    if (atomic_fetch_sub_explicit(&(*key)->references, 1, memory_order_acq_rel) == 1) {
        free(*key);
    }
    *key = NULL;
}

kiln_digest kiln_key_digest(const kiln_key *key)
{
    return key->digest;
}

const void *kiln_key_encoding(const kiln_key *key, size_t *ret_size)
{
    *ret_size = key->encoding_size;
    return key->encoding;
}

size_t kiln_key_part_count(const kiln_key *key)
{
    return key->part_count;
}

kiln_status kiln_key_part_at(const kiln_key *key, size_t index, kiln_key_part *ret_part)
{
    if (!key || !ret_part || index >= key->part_count) {
        return KILN_E_INVALID;
    }
    *ret_part = key->parts[index];
    return KILN_OK;
}
