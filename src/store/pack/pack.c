/* SPDX-License-Identifier: Apache-2.0 */
#include "store/pack/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "entry/entry.h"
#include "os/file.h"
#include "os/os.h"
#include "os/owned_descriptor.h"
#include "store/pack/format.h"

#define PROBE_FROM ((uint64_t)1 << 20)

typedef struct kilni_pack {
    kiln_store store; /* first: a kilni_pack is a kiln_store */
    char *path;       /* as the user wrote it */
    kilni_owned_descriptor file;
    kilni_pack_header header;
    uint64_t disk_bytes;
    int64_t written_s;
} kilni_pack;

/* Reads @size bytes at an offset. According to the file's header, all of them must be in the file.
 */
static kiln_status read_run(const kilni_pack *pack, void *bytes, size_t size, uint64_t offset)
{
    size_t count = 0;
    if (kilni_file_read_at(pack->file.file, bytes, size, (off_t)offset, &count) != KILN_OK) {
        return KILN_E_IO;
    }
    return count == size ? KILN_OK : KILN_E_CORRUPT;
}

/* Reads a page of the index and checks it. */
static kiln_status read_bucket(const kilni_pack *pack, uint64_t number,
                               unsigned char page[KILNI_PACK_PAGE_SIZE])
{
    kiln_status status =
        read_run(pack, page, KILNI_PACK_PAGE_SIZE, kilni_pack_bucket_offset(number));
    return status == KILN_OK ? kilni_pack_bucket_check(page, number, &pack->header) : status;
}

/* Checks the beginning of a large entry before memory is allocated for it. Returns KILN_MISS if the
 * entry exceeds the store's limit for entries. */
static kiln_status probe(const kilni_pack *pack, const kilni_pack_slot *slot)
{
    unsigned char bytes[KILNI_ENTRY_PROBE_SIZE];
    if (slot->size > pack->store.options.max_entry_bytes) {
        return KILN_MISS;
    }
    if (slot->size < PROBE_FROM) {
        return KILN_OK;
    }
    const kiln_status status = read_run(pack, bytes, sizeof bytes, slot->offset);
    return status == KILN_OK ? kilni_entry_probe(bytes, slot->size) : status;
}

static kiln_status read_entry(const kilni_pack *pack, const kilni_pack_slot *slot,
                              kiln_entry **ret_entry)
{
    kiln_status status = probe(pack, slot);
    if (status != KILN_OK) {
        return status;
    }
    void *bytes = malloc((size_t)slot->size);
    if (!bytes) {
        return KILN_E_NO_MEMORY;
    }
    kiln_entry *entry = NULL;
    status = read_run(pack, bytes, (size_t)slot->size, slot->offset);
    if (status == KILN_OK) {
        status = kilni_entry_adopt(bytes, (size_t)slot->size, pack->store.signing_key, &entry);
    }
    if (status != KILN_OK) {
        free(bytes);
        return status;
    }
    kiln_digest digest = kiln_key_digest(kiln_entry_key(entry));
    if (memcmp(&digest, &slot->digest, sizeof digest) != 0) {
        kiln_entry_release(&entry);
        return KILN_E_CORRUPT;
    }
    *ret_entry = entry;
    return KILN_OK;
}

/* Returns the store's pack; NULL if its descriptor is no longer intact. */
static kilni_pack *pack_of(kiln_store *store)
{
    kilni_pack *pack = (kilni_pack *)store;
    if (kilni_owned_descriptor_is_intact(&pack->file)) {
        return pack;
    }
    kilni_store_warn(store, KILNI_WARNED_ENTRY, "%s: the program has closed its descriptor",
                     pack->path);
    return NULL;
}

/* Finds the slot of a digest. Returns KILN_OK; KILN_MISS; KILN_E_CORRUPT: the page of the index is
 * damaged; KILN_E_IO. */
static kiln_status find_slot(const kilni_pack *pack, const kiln_digest *digest,
                             kilni_pack_slot *ret_slot)
{
    unsigned char page[KILNI_PACK_PAGE_SIZE];
    kiln_status status =
        read_bucket(pack, kilni_pack_bucket_of(digest, pack->header.bucket_count), page);
    if (status != KILN_OK) {
        return status;
    }
    return kilni_pack_slot_find(page, digest, ret_slot) ? KILN_OK : KILN_MISS;
}

static kiln_status pack_read_digest(kiln_store *store, const kiln_digest *digest,
                                    kiln_entry **ret_entry)
{
    const kilni_pack *pack = pack_of(store);
    if (!pack) {
        return KILN_E_IO;
    }
    kilni_pack_slot slot;
    const kiln_status status = find_slot(pack, digest, &slot);
    return status == KILN_OK ? read_entry(pack, &slot, ret_entry) : status;
}

static kiln_status pack_get(kiln_store *store, const kiln_key *key, kiln_entry **ret_entry,
                            size_t *ret_fill)
{
    (void)ret_fill;
    const kiln_digest digest = kiln_key_digest(key);
    kiln_entry *entry = NULL;
    const kiln_status status = pack_read_digest(store, &digest, &entry);
    if (status != KILN_OK) {
        return status;
    }
    if (!kiln_key_equals(key, kiln_entry_key(entry))) {
        kiln_entry_release(&entry);
        return KILN_MISS;
    }
    *ret_entry = entry;
    return KILN_OK;
}

static kiln_status pack_contains(kiln_store *store, const kiln_key *key)
{
    const kilni_pack *pack = pack_of(store);
    if (!pack) {
        return KILN_E_IO;
    }
    kilni_pack_slot slot;
    const kiln_digest digest = kiln_key_digest(key);
    kiln_status status = find_slot(pack, &digest, &slot);
    return status == KILN_E_CORRUPT ? KILN_MISS : status;
}

/* ---- items ---- */

typedef struct pack_item {
    kiln_item item; /* first: a pack_item is a kiln_item */
    kilni_pack_slot slot;
    kilni_entry_preview head; /* the texts in the item's info are in this memory */
} pack_item;

static kiln_status read_head(const kilni_pack *pack, pack_item *item)
{
    unsigned char bytes[KILNI_ENTRY_PREVIEW_SIZE];
    size_t size = item->slot.size < sizeof bytes ? (size_t)item->slot.size : sizeof bytes;
    kiln_status status = read_run(pack, bytes, size, item->slot.offset);
    if (status == KILN_OK) {
        status = kilni_entry_preview_decode(bytes, size, item->slot.size, &item->head);
    }
    if (status == KILN_OK &&
        memcmp(&item->head.digest, &item->slot.digest, sizeof item->slot.digest) != 0) {
        status = KILN_E_CORRUPT;
    }
    return status;
}

static kiln_status pack_item_info(kiln_item *item, kiln_item_info *ret_info)
{
    pack_item *self = (pack_item *)item;
    const kilni_pack *pack = pack_of(item->store);
    kiln_status state = pack ? read_head(pack, self) : KILN_E_IO;
    if (state == KILN_E_IO) {
        return state;
    }
    if (state != KILN_OK) {
        self->head = (kilni_entry_preview){.kind = 0};
    }
    *ret_info = (kiln_item_info){
        .digest = self->slot.digest,
        .state = state,
        .kind = self->head.kind,
        .device = self->head.device,
        .name = self->head.name,
        .tool = self->head.tool,
        .bytes = self->head.payload_size,
        .stored_bytes = self->slot.size,
        .build_ns = self->head.build_ns,
        .created_s = self->head.created_s,
        .last_used_s = pack->written_s,
        .path = pack->path,
    };
    return KILN_OK;
}

static kiln_status pack_item_read(kiln_item *item, kiln_entry **ret_entry)
{
    const kilni_pack *pack = pack_of(item->store);
    return pack ? read_entry(pack, &((pack_item *)item)->slot, ret_entry) : KILN_E_IO;
}

/* Checks that the entries of a page of the index begin after the entries of all previous pages.
 * Otherwise a walk might read some bytes many times. */
static kiln_status check_order(const unsigned char *page, uint64_t *end)
{
    const size_t count = kilni_pack_slot_count(page);
    if (count == 0) {
        return KILN_OK;
    }
    const kilni_pack_slot last = kilni_pack_slot_at(page, count - 1);
    if (kilni_pack_slot_at(page, 0).offset < *end) {
        return KILN_E_CORRUPT;
    }
    *end = last.offset + last.size;
    return KILN_OK;
}

/* Visits all entries. If a page of the index is damaged, this function skips only the entries of
 * that page, and reports the damage by the status at the end. */
static kiln_status pack_each(kiln_store *store, kiln_item_fn visit, void *user)
{
    const kilni_pack *pack = pack_of(store);
    if (!pack) {
        return KILN_E_IO;
    }
    unsigned char page[KILNI_PACK_PAGE_SIZE];
    kiln_status first_failure = KILN_OK;
    uint64_t end = 0;
    for (uint64_t number = 0; number < pack->header.bucket_count; number++) {
        kiln_status status = read_bucket(pack, number, page);
        if (status == KILN_OK) {
            status = check_order(page, &end);
        }
        if (status != KILN_OK) {
            first_failure = first_failure == KILN_OK ? status : first_failure;
            continue;
        }
        for (size_t i = 0; i < kilni_pack_slot_count(page); i++) {
            pack_item item = {.item.store = store, .slot = kilni_pack_slot_at(page, i)};
            if (visit(user, &item.item) != 0) {
                return first_failure;
            }
        }
    }
    return first_failure;
}

static kiln_status pack_each_of_digest(kiln_store *store, const kiln_digest *digest,
                                       kiln_item_fn visit, void *user)
{
    const kilni_pack *pack = pack_of(store);
    pack_item item = {.item.store = store};
    const kiln_status status = pack ? find_slot(pack, digest, &item.slot) : KILN_E_IO;
    if (status == KILN_OK) {
        visit(user, &item.item);
    }
    return status == KILN_MISS ? KILN_OK : status;
}

/* Visits nothing, because a pack contains no capture requests. */
static kiln_status pack_each_request(kiln_store *store, kiln_item_fn visit, void *user)
{
    (void)store, (void)visit, (void)user;
    return KILN_OK;
}

static kiln_status pack_stat(kiln_store *store, uint32_t flags, kiln_store_stat *ret_stat)
{
    (void)flags;
    const kilni_pack *pack = (const kilni_pack *)store;
    *ret_stat = (kiln_store_stat){.entries = pack->header.entry_count,
                                  .bytes = pack->disk_bytes,
                                  .max_bytes = pack->header.total_size};
    return KILN_OK;
}

static void pack_close(kiln_store *store)
{
    kilni_pack *pack = (kilni_pack *)store;
    kilni_owned_descriptor_close(&pack->file);
    free(pack->path);
    free(pack);
}

/* The operations that write are NULL. They are never called, since the store does not have the
 * capability KILNI_STORE_WRITABLE. */
static const kilni_store_ops pack_ops = {
    .close = pack_close,
    .get = pack_get,
    .read_digest = pack_read_digest,
    .contains = pack_contains,
    .each = pack_each,
    .each_of_digest = pack_each_of_digest,
    .each_request = pack_each_request,
    .item_info = pack_item_info,
    .item_read = pack_item_read,
    .stat = pack_stat,
};

static kiln_status header_error(kiln_status status, const char *path, kiln_error *error)
{
    switch (status) {
    case KILN_E_CORRUPT:
        return kilni_error_set(error, status, 0, "%s: not a pack, or a damaged one", path);
    case KILN_E_VERSION:
        return kilni_error_set(error, status, 0, "%s: a newer version of Kiln made this pack",
                               path);
    default:
        return kilni_error_set(error, status, errno, "%s: %s", path, strerror(errno));
    }
}

static kiln_status read_header(kilni_pack *pack, kiln_error *error)
{
    unsigned char page[KILNI_PACK_PAGE_SIZE];
    struct stat stat;
    size_t count = 0;
    kiln_status status = KILN_E_IO;
    if (kilni_os()->fstat(pack->file.file, &stat) == 0 &&
        kilni_file_read_at(pack->file.file, page, sizeof page, 0, &count) == KILN_OK) {
        status = kilni_pack_header_decode(page, count, (uint64_t)stat.st_size, &pack->header);
    }
    if (status != KILN_OK) {
        return header_error(status, pack->path, error);
    }
    pack->disk_bytes = stat.st_blocks > 0 ? (uint64_t)stat.st_blocks * 512 : (uint64_t)stat.st_size;
    pack->written_s = stat.st_mtim.tv_sec;
    return KILN_OK;
}

kiln_status kilni_pack_open_file(const char *path, int file, const kilni_store_options *options,
                                 kiln_store **ret_store, kiln_error *error)
{
    kilni_pack *pack = calloc(1, sizeof *pack);
    char *copy = strdup(path);
    if (!pack || !copy) {
        free(pack);
        free(copy);
        kilni_os()->close(file);
        return kilni_error_set(error, KILN_E_NO_MEMORY, 0, "out of memory");
    }
    pack->store.ops = &pack_ops;
    pack->store.options = *options;
    pack->path = copy;
    pack->file.file = -1;
    kiln_status status = kilni_owned_descriptor_take(file, &pack->file);
    if (status != KILN_OK) {
        kilni_os()->close(file);
        status = kilni_error_set(error, status, errno, "%s: %s", path, strerror(errno));
    } else {
        status = read_header(pack, error);
    }
    if (status != KILN_OK) {
        pack_close(&pack->store);
        return status;
    }
    *ret_store = &pack->store;
    return KILN_OK;
}
