/* SPDX-License-Identifier: Apache-2.0
 *
 * The contents of included files, each under its digest. They are in a store of their own, so that
 * they have a limit of their own, are not listed among the entries, and never reach a server by
 * themselves.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/store_tools.h>

#include <sodium.h>

#include "entry/entry.h"
#include "store/store.h"

#define FOLDER "/v1/included"
#define DIGEST_BYTES 32u
#define LEVEL 3 /* of compression */

kiln_status kiln_included_open(const kiln_store *beside, uint64_t max_bytes,
                               kiln_store **ret_included)
{
    if (!beside || !ret_included) {
        return KILN_E_INVALID;
    }
    const char *directory = beside->ops->folder ? beside->ops->folder(beside) : NULL;
    /* A relative path might lead to a different directory by now. */
    if (!directory || directory[0] != '/') {
        return KILN_E_UNSUPPORTED;
    }
    char *path = malloc(strlen(directory) + sizeof FOLDER);
    if (!path) {
        return KILN_E_NO_MEMORY;
    }
    strcpy(path, directory);
    strcat(path, FOLDER);
    const kiln_store_params params = {
        .struct_size = sizeof params,
        .max_bytes = max_bytes,
        .flags = (beside->options.flags & (KILN_STORE_READONLY | KILN_STORE_NO_CREATE)) |
                 KILN_STORE_NO_LEASE};
    const kiln_status status = kiln_store_open(path, &params, ret_included, NULL);
    free(path);
    return status;
}

static kiln_status make_key(const unsigned char *digest, kiln_key **ret_key)
{
    kiln_key_builder *builder = NULL;
    kiln_status status = kiln_key_builder_new(&builder);
    if (status == KILN_OK) {
        kiln_key_builder_add(builder, "included file", digest, DIGEST_BYTES);
        status = kiln_key_builder_finish(builder, ret_key);
    }
    kiln_key_builder_free(&builder);
    return status;
}

static bool has_digest(kiln_bytes content, const unsigned char *digest)
{
    unsigned char own[DIGEST_BYTES];
    crypto_generichash(own, sizeof own, content.data, content.size, NULL, 0);
    return memcmp(own, digest, sizeof own) == 0;
}

static kiln_status put_compressed(kiln_store *included, const kiln_key *key, kiln_bytes content)
{
    const kiln_entry_params params = {
        .struct_size = sizeof params, .key = key, .kind = KILN_ENTRY_BLOB, .payload = content};
    kiln_entry *plain = NULL, *compressed = NULL;
    kiln_status status = kiln_entry_new(&params, &plain);
    if (status == KILN_OK) {
        status = kilni_entry_compress(plain, LEVEL, &compressed);
    }
    if (status == KILN_OK) {
        status = kiln_store_put(included, compressed);
    }
    kiln_entry_release(&compressed);
    kiln_entry_release(&plain);
    return status;
}

kiln_status kiln_included_put(kiln_store *included, const unsigned char *digest, kiln_bytes content)
{
    kiln_key *key = NULL;
    if (!included || !digest || !has_digest(content, digest)) {
        return KILN_E_INVALID;
    }
    kiln_status status = make_key(digest, &key);
    if (status == KILN_OK) {
        status = put_compressed(included, key, content);
    }
    kiln_key_release(&key);
    return status;
}

kiln_status kiln_included_get(kiln_store *included, const unsigned char *digest,
                              kiln_entry **ret_content)
{
    kiln_key *key = NULL;
    kiln_entry *found = NULL;
    if (!included || !digest || !ret_content) {
        return KILN_E_INVALID;
    }
    kiln_status status = make_key(digest, &key);
    if (status == KILN_OK) {
        status = kiln_store_get(included, key, &found);
    }
    kiln_key_release(&key);
    if (status == KILN_OK && !has_digest(kiln_entry_payload(found), digest)) {
        kiln_entry_release(&found);
        status = KILN_E_CORRUPT;
    }
    if (status == KILN_OK) {
        *ret_content = found;
    }
    return status;
}

kiln_status kiln_included_contains(kiln_store *included, const unsigned char *digest)
{
    kiln_key *key = NULL;
    if (!included || !digest) {
        return KILN_E_INVALID;
    }
    kiln_status status = make_key(digest, &key);
    if (status == KILN_OK) {
        status = kiln_store_contains(included, key);
    }
    kiln_key_release(&key);
    return status;
}

/* Contents that are damaged, or have another digest than their key says, are left out. */
static int copy_item(void *user, kiln_item *item)
{
    kiln_store *into = user;
    kiln_entry *entry = NULL;
    kiln_key_part digest;
    if (kiln_item_read(item, &entry) == KILN_OK &&
        kiln_key_part_at(kiln_entry_key(entry), 0, &digest) == KILN_OK &&
        digest.size == DIGEST_BYTES && digest.bytes &&
        kiln_included_contains(into, digest.bytes) == KILN_MISS) {
        kiln_included_put(into, digest.bytes, kiln_entry_payload(entry));
    }
    kiln_entry_release(&entry);
    return 0;
}

kiln_status kiln_included_copy(kiln_store *from, kiln_store *into)
{
    return from && into ? kiln_store_each(from, copy_item, into) : KILN_E_INVALID;
}
