/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/text.h"
#include "entry/entry.h"
#include "os/file.h"
#include "store/dir/layout.h"

typedef struct dir_item {
    kiln_item item; /* first: a dir_item is a kiln_item */
    const kilni_dir_found *found;
    /* The item's file. It is held from the first use of the item to the end of the visit, so that
     * info, read and remove use the same file. Before the first use, no file is held. If the file
     * was replaced after the walk found it, no file is held either. */
    kilni_dir_held held;
    kilni_entry_preview head; /* the texts in the item's info are in this memory */
    kilni_text path;          /* empty until it is needed */
} dir_item;

static kilni_dir *dir_of(const dir_item *item)
{
    return kilni_dir_of(item->item.store);
}

static const kilni_dir_layout *layout_of(const dir_item *item)
{
    return kilni_dir_layout_of_shard(dir_of(item), item->found->shard);
}

/* Holds the item's file. Returns KILN_OK; KILN_MISS: the file was removed or replaced; else as
 * kilni_dir_open_file. */
static kiln_status hold(dir_item *item)
{
    if (item->held.file >= 0) {
        return KILN_OK;
    }
    const kilni_dir_found *found = item->found;
    const kiln_status status =
        kilni_dir_hold(dir_of(item), found->directory, found->name, &item->held);
    if (status != KILN_OK) {
        return status;
    }
    const struct stat *now = &item->held.stat;
    if (now->st_dev == found->stat.st_dev && now->st_ino == found->stat.st_ino &&
        now->st_size == found->stat.st_size) {
        return KILN_OK;
    }
    kilni_dir_release(&item->held);
    return KILN_MISS;
}

/* Reads an item's head. The statuses KILN_OK, KILN_E_CORRUPT and KILN_E_VERSION describe the entry.
 * KILN_MISS and KILN_E_IO mean that the file could not be read. */
static kiln_status read_head(dir_item *item)
{
    kiln_status status = hold(item);
    if (status != KILN_OK || !item->held.is_trusted) {
        return status == KILN_OK || status == KILN_E_DENIED ? KILN_E_CORRUPT : status;
    }
    unsigned char bytes[KILNI_ENTRY_PREVIEW_SIZE];
    size_t count = 0;
    status = kilni_file_read_at(item->held.file, bytes, sizeof bytes, 0, &count);
    if (status != KILN_OK) {
        return status;
    }
    return kilni_entry_preview_decode(bytes, count, (uint64_t)item->held.stat.st_size, &item->head);
}

static kiln_status write_path(dir_item *item)
{
    const kilni_dir_found *found = item->found;
    char shard[KILNI_DIR_PATH_SIZE];
    if (item->path.length > 0) {
        return KILN_OK;
    }
    kilni_dir_shard_path(found->shard, shard);
    return kilni_text_printf(&item->path, "%s/%s/%s", dir_of(item)->path,
                             found->folder ? found->folder : shard, found->name);
}

kiln_status kilni_dir_item_info(kiln_item *item, kiln_item_info *ret_info)
{
    dir_item *self = (dir_item *)item;
    const kilni_dir_found *found = self->found;
    kiln_status status = write_path(self);
    if (status != KILN_OK) {
        return status;
    }
    kiln_status state = read_head(self);
    const bool has_digest = !found->folder;
    if (state == KILN_OK && has_digest &&
        memcmp(&self->head.digest, &found->digest, sizeof found->digest) != 0) {
        state = KILN_E_CORRUPT;
    }
    if (state != KILN_OK && state != KILN_E_CORRUPT && state != KILN_E_VERSION) {
        return state;
    }
    if (state != KILN_OK) {
        self->head = (kilni_entry_preview){
            .digest = layout_of(self)->digest_of(dir_of(self), found),
        };
    }
    *ret_info = (kiln_item_info){
        .digest = self->head.digest,
        .state = state,
        .kind = self->head.kind,
        .device = self->head.device,
        .name = self->head.name,
        .tool = self->head.tool,
        .bytes = self->head.payload_size,
        .stored_bytes = (uint64_t)found->stat.st_size + found->key_size,
        .build_ns = self->head.build_ns,
        .created_s = self->head.created_s,
        .last_used_s = found->stat.st_mtim.tv_sec,
        .path = self->path.bytes,
    };
    return KILN_OK;
}

kiln_status kilni_dir_item_read(kiln_item *item, kiln_entry **ret_entry)
{
    dir_item *self = (dir_item *)item;
    kilni_dir *dir = dir_of(self);
    kiln_status status = hold(self);
    if (status != KILN_OK || !self->held.is_trusted) {
        return status == KILN_OK ? KILN_E_DENIED : status;
    }
    kiln_entry *entry = NULL;
    status = kilni_dir_read_file(dir, self->held.file, &self->held.stat, &entry);
    if (status != KILN_OK) {
        return status;
    }
    status = layout_of(self)->check_place(dir, self->found, entry);
    if (status != KILN_OK) {
        kiln_entry_release(&entry);
        return status;
    }
    *ret_entry = entry;
    return KILN_OK;
}

kiln_status kilni_dir_item_remove(kiln_item *item)
{
    dir_item *self = (dir_item *)item;
    kilni_dir *dir = dir_of(self);
    kiln_status status = hold(self);
    if (status != KILN_OK) {
        return status == KILN_MISS ? KILN_MISS : KILN_EXISTS;
    }
    const kilni_dir_identity seen = kilni_dir_identity_of_held(&self->held);
    status = kilni_dir_remove_found(dir, self->found, &seen, false);
    if (status == KILN_OK) {
        kilni_dir_count_removed(dir, self->found->shard, &self->found->stat);
    }
    return status;
}

typedef struct each_walk {
    kiln_store *store;
    kiln_item_fn visit;
    void *user;
} each_walk;

static int visit_item(void *user, const kilni_dir_found *found)
{
    const each_walk *walk = user;
    if (found->is_temporary) {
        return 0;
    }
    dir_item item = {.item.store = walk->store, .found = found, .held.file = -1};
    const int result = walk->visit(walk->user, &item.item);
    kilni_dir_release(&item.held);
    kilni_text_done(&item.path);
    return result;
}

kiln_status kilni_dir_each(kiln_store *store, kiln_item_fn visit, void *user)
{
    each_walk walk = {.store = store, .visit = visit, .user = user};
    return kilni_dir_walk(kilni_dir_of(store), visit_item, &walk);
}

kiln_status kilni_dir_each_of_digest(kiln_store *store, const kiln_digest *digest,
                                     kiln_item_fn visit, void *user)
{
    kilni_dir *dir = kilni_dir_of(store);
    each_walk each = {.store = store, .visit = visit, .user = user};
    bool has_ended = false;
    if (!dir->layout->read_digest) {
        return KILN_E_UNSUPPORTED;
    }
    const kiln_status of_entry =
        kilni_dir_visit_digest(dir, digest->bytes[0], digest, visit_item, &each, &has_ended);
    if (has_ended) {
        return of_entry;
    }
    const kiln_status of_request =
        kilni_dir_visit_digest(dir, KILNI_DIR_REQUESTS, digest, visit_item, &each, &has_ended);
    return of_entry == KILN_OK ? of_request : of_entry;
}

kiln_status kilni_dir_each_request(kiln_store *store, kiln_item_fn visit, void *user)
{
    each_walk each = {.store = store, .visit = visit, .user = user};
    bool has_ended = false;
    const kiln_status status = kilni_dir_walk_shard(kilni_dir_of(store), KILNI_DIR_REQUESTS,
                                                    visit_item, &each, &has_ended);
    return status == KILN_MISS ? KILN_OK : status;
}
