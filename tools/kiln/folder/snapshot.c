/* SPDX-License-Identifier: Apache-2.0 */
#include "snapshot.h"

#include <stdlib.h>
#include <string.h>

#include <kiln/entry.h>
#include <kiln/key.h>

#include "../text/memory.h"
#include "../text/output.h"
#include "file_tree.h"

/* How expensive a file counts as when a store makes room. What it has cost is not known. */
#define ASSUMED_BUILD_NS (UINT64_C(200) * 1000000)

/* The maximum number of files that are looked up together, and the maximum number of bytes that
 * they have in all. A file that has more bytes is looked up alone. */
#define BLOCK_FILES 64u
#define BLOCK_BYTES (UINT64_C(8) << 20)

/* ---- contents ---- */

/* Writes the BLAKE2b-256 of a content, as the key of a part that long has it. The digest of an
 * empty content is all zeros. */
static void find_digest(const void *bytes, size_t size, unsigned char *digest)
{
    kiln_key_builder *builder = NULL;
    kiln_key *whole = NULL, *stripped = NULL;
    kiln_key_part part = {0};
    memset(digest, 0, FILE_DIGEST_SIZE);
    must_succeed(kiln_key_builder_new(&builder));
    kiln_key_builder_add(builder, "content", bytes, size);
    must_succeed(kiln_key_builder_finish(builder, &whole));
    kiln_key_builder_free(&builder);
    must_succeed(kiln_key_strip(whole, 0, &stripped));
    if (kiln_key_part_at(stripped, 0, &part) == KILN_OK && part.digest != NULL) {
        memcpy(digest, part.digest, FILE_DIGEST_SIZE);
    }
    kiln_key_release(&whole);
    kiln_key_release(&stripped);
}

static kiln_key *content_key(const listed_file *file)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    must_succeed(kiln_key_builder_new(&builder));
    kiln_key_builder_add(builder, "file of a folder", file->digest, FILE_DIGEST_SIZE);
    kiln_key_builder_add_number(builder, "size", file->size);
    must_succeed(kiln_key_builder_finish(builder, &key));
    kiln_key_builder_free(&builder);
    return key;
}

/* Returns whether an entry has the content of a file. The entry's key is no proof: the store
 * verifies that an entry has not changed since its writer made it, not that the writer was right.
 */
static bool has_content(const kiln_entry *entry, const listed_file *file)
{
    unsigned char digest[FILE_DIGEST_SIZE];
    const kiln_bytes content = kiln_entry_payload(entry);
    if (kiln_entry_kind_of(entry) != KILN_ENTRY_BLOB || content.size != file->size) {
        return false;
    }
    find_digest(content.data, content.size, digest);
    return memcmp(digest, file->digest, sizeof digest) == 0;
}

/* Returns the entry of a content, which the caller releases; NULL if no sound entry is there. */
static kiln_entry *get_content(kiln_store *store, const listed_file *file)
{
    kiln_key *key = content_key(file);
    kiln_entry *entry = NULL;
    if (kiln_store_get(store, key, &entry) != KILN_OK || !has_content(entry, file)) {
        kiln_entry_release(&entry);
    }
    kiln_key_release(&key);
    return entry;
}

static kiln_status put(kiln_store *store, const kiln_key *key, const folder_cache *cache,
                       const char *name, kiln_bytes payload, uint64_t build_ns)
{
    owned char *device = text_of("folder of %s", cache->name);
    const kiln_entry_params params = {
        .struct_size = sizeof params,
        .key = key,
        .kind = KILN_ENTRY_BLOB,
        .provenance = {.struct_size = sizeof params.provenance,
                       .device = device,
                       .name = name,
                       .build_ns = build_ns},
        .payload = payload,
    };
    kiln_entry *entry = NULL;
    kiln_status status = kiln_entry_new(&params, &entry);
    status = status == KILN_OK ? kiln_store_put(store, entry) : status;
    kiln_entry_release(&entry);
    return status;
}

static kiln_status put_content(kiln_store *store, const folder_cache *cache,
                               const listed_file *file, const void *bytes)
{
    kiln_entry *present = get_content(store, file);
    if (present != NULL) {
        kiln_entry_release(&present);
        return KILN_OK;
    }
    kiln_key *key = content_key(file);
    const kiln_status status =
        put(store, key, cache, file->path, (kiln_bytes){bytes, file->size}, ASSUMED_BUILD_NS);
    kiln_key_release(&key);
    return status;
}

kiln_status snapshot_put_contents(kiln_store *store, const folder_cache *cache, int folder,
                                  file_list *list, snapshot_stop stop, uint64_t *ret_count)
{
    uint64_t count = 0;
    for (size_t i = 0; i < list->count; i++) {
        listed_file *file = &list->files[i];
        if (file->has_digest) {
            continue;
        }
        owned void *bytes = stop.is_due(stop.user) ? NULL : file_tree_read(folder, file);
        if (bytes == NULL) {
            return KILN_BUSY;
        }
        find_digest(bytes, file->size, file->digest);
        const kiln_status status = put_content(store, cache, file, bytes);
        if (status != KILN_OK) {
            return status;
        }
        file->has_digest = true;
        count++;
    }
    *ret_count = count;
    return KILN_OK;
}

/* ---- lists ---- */

kiln_status snapshot_put_list(kiln_store *store, const kiln_key *key, const folder_cache *cache,
                              const file_list *list)
{
    owned char *text = file_list_to_text(list, false);
    owned char *name =
        text_of("list of %zu %s", list->count, noun_of(list->count, "file", "files"));
    return put(store, key, cache, name, (kiln_bytes){text, strlen(text)},
               ASSUMED_BUILD_NS * (list->count + 1));
}

bool snapshot_read(kiln_store *store, const kiln_key *key, const folder_cache *cache,
                   file_list *ret_list)
{
    kiln_entry *entry = NULL;
    file_list list = {0};
    if (kiln_store_get(store, key, &entry) != KILN_OK) {
        return false;
    }
    const kiln_bytes text = kiln_entry_payload(entry);
    bool is_sound = kiln_entry_kind_of(entry) == KILN_ENTRY_BLOB &&
                    file_list_from_text(text.data, text.size, &list);
    kiln_entry_release(&entry);
    uint64_t left = cache->max_bytes;
    for (size_t i = 0; i < list.count && is_sound; i++) {
        is_sound = list.files[i].size <= left;
        left -= is_sound ? list.files[i].size : 0;
    }
    if (!is_sound) {
        file_list_free(&list);
        return false;
    }
    *ret_list = list;
    return true;
}

/* Returns how many files, beginning with the given one, are looked up together. */
static size_t count_in_block(const file_list *list, size_t first)
{
    uint64_t bytes = list->files[first].size;
    size_t count = 1;
    while (count < BLOCK_FILES && first + count < list->count &&
           bytes + list->files[first + count].size <= BLOCK_BYTES) {
        bytes += list->files[first + count++].size;
    }
    return count;
}

/* Writes files for which the store has sound entries. Returns false if a file was not written. */
static bool fill_block(kiln_store *store, const listed_file *files, size_t count, int folder,
                       snapshot_stop stop)
{
    kiln_key *keys[BLOCK_FILES] = {NULL};
    kiln_entry *entries[BLOCK_FILES] = {NULL};
    bool are_written = true;
    for (size_t i = 0; i < count; i++) {
        keys[i] = content_key(&files[i]);
    }
    kiln_store_get_many(store, (const kiln_key *const *)keys, count, entries, NULL);
    for (size_t i = 0; i < count; i++) {
        are_written = are_written && !stop.is_due(stop.user) && entries[i] != NULL &&
                      has_content(entries[i], &files[i]) &&
                      file_tree_write(folder, &files[i], kiln_entry_payload(entries[i]).data);
        kiln_entry_release(&entries[i]);
        kiln_key_release(&keys[i]);
    }
    return are_written;
}

bool snapshot_fill(kiln_store *store, const file_list *list, int folder, snapshot_stop stop)
{
    size_t first = 0;
    while (first < list->count && !stop.is_due(stop.user)) {
        const size_t count = count_in_block(list, first);
        if (!fill_block(store, &list->files[first], count, folder, stop)) {
            return false;
        }
        first += count;
    }
    return first == list->count;
}
