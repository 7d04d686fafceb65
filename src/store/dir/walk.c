/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>

#include "os/file.h"
#include "os/os.h"
#include "store/dir/layout.h"

typedef struct shard_walk {
    kilni_dir_visit_fn *visit;
    void *user;
    bool has_ended;
} shard_walk;

static kiln_status walk_status(int system_error)
{
    kiln_status status = kilni_status_from_errno(system_error);
    return status == KILN_MISS || status == KILN_E_NO_MEMORY ? status : KILN_E_IO;
}

static void visit_name(shard_walk *walk, int directory, unsigned shard, const char *name)
{
    kilni_dir_found found = {.shard = shard, .directory = directory, .name = name};
    if (!kilni_dir_is_entry_name(name, shard, &found.digest)) {
        found.is_temporary = kilni_dir_is_temporary_name(name);
        if (!found.is_temporary) {
            return;
        }
    }
    if (kilni_os()->fstatat(directory, name, &found.stat, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(found.stat.st_mode)) {
        walk->has_ended = walk->visit(walk->user, &found) != 0;
    }
}

static kiln_status walk_shard(kilni_dir *dir, unsigned shard, int64_t *offset, shard_walk *walk)
{
    int directory;
    kiln_status status = kilni_dir_open_shard(dir, shard, O_RDONLY, &directory);
    if (status != KILN_OK) {
        return status;
    }
    DIR *listing = kilni_os()->fdopendir(directory);
    if (!listing) {
        status = walk_status(errno);
        kilni_os()->close(directory);
        return status;
    }
    int system_error = 0;
    if (*offset != 0) {
        kilni_os()->seekdir(listing, (long)*offset);
    }
    *offset = 0;
    while (!walk->has_ended) {
        errno = 0;
        const struct dirent *found = kilni_os()->readdir(listing);
        if (!found) {
            system_error = errno;
            break;
        }
        const int64_t next = found->d_off;
        visit_name(walk, directory, shard, found->d_name);
        *offset = walk->has_ended ? next : 0;
    }
    kilni_os()->closedir(listing);
    return system_error == 0 ? KILN_OK : walk_status(system_error);
}

kiln_status kilni_dir_walk_shard(kilni_dir *dir, unsigned shard, kilni_dir_visit_fn *visit,
                                 void *user, bool *ret_has_ended)
{
    shard_walk walk = {.visit = visit, .user = user};
    int64_t offset = 0;
    const kiln_status status = walk_shard(dir, shard, &offset, &walk);
    *ret_has_ended = walk.has_ended;
    return status;
}

kiln_status kilni_dir_visit_digest(kilni_dir *dir, unsigned shard, const kiln_digest *digest,
                                   kilni_dir_visit_fn *visit, void *user, bool *ret_has_ended)
{
    shard_walk walk = {.visit = visit, .user = user};
    char name[KILN_DIGEST_TEXT_SIZE];
    int directory;
    const kiln_status status = kilni_dir_open_shard(dir, shard, O_PATH, &directory);
    if (status == KILN_OK) {
        kiln_digest_format(digest, name);
        visit_name(&walk, directory, shard, name);
        kilni_os()->close(directory);
    }
    *ret_has_ended = walk.has_ended;
    return status == KILN_MISS ? KILN_OK : status;
}

kiln_status kilni_dir_walk_part(kilni_dir *dir, unsigned part, kilni_dir_position *position,
                                kilni_dir_visit_fn *visit, void *user, bool *ret_has_ended)
{
    if (part != KILNI_DIR_REQUESTS && dir->layout->walk_from) {
        return part == 0 ? dir->layout->walk_from(dir, position, visit, user, ret_has_ended)
                         : KILN_MISS;
    }
    shard_walk walk = {.visit = visit, .user = user};
    int64_t offset = (int64_t)position->offsets[0];
    const kiln_status status = walk_shard(dir, part, &offset, &walk);
    position->offsets[0] = (uint64_t)offset;
    *ret_has_ended = walk.has_ended;
    return status;
}

kiln_status kilni_dir_walk(kilni_dir *dir, kilni_dir_visit_fn *visit, void *user)
{
    bool has_ended = false;
    const kiln_status of_entries = dir->layout->walk(dir, visit, user, &has_ended);
    if (has_ended) {
        return of_entries;
    }
    const kiln_status of_requests =
        kilni_dir_walk_shard(dir, KILNI_DIR_REQUESTS, visit, user, &has_ended);
    return of_entries == KILN_OK && of_requests != KILN_MISS ? of_requests : of_entries;
}

kilni_dir_spot kilni_dir_spot_of(const kilni_dir_found *found)
{
    return (kilni_dir_spot){.shard = found->shard,
                            .digest = found->digest,
                            .folder = found->folder,
                            .number = found->number};
}

const struct kilni_dir_layout *kilni_dir_layout_of_shard(const kilni_dir *dir, unsigned shard)
{
    return shard == KILNI_DIR_REQUESTS ? dir->request_layout : dir->layout;
}

kiln_status kilni_dir_remove_found(kilni_dir *dir, const kilni_dir_found *found,
                                   const kilni_dir_identity *seen, bool even_newer)
{
    const kilni_dir_layout *layout = kilni_dir_layout_of_shard(dir, found->shard);
    if (!even_newer && !kilni_dir_may_remove(dir, found->directory, found->name)) {
        return KILN_EXISTS;
    }
    if (!found->is_temporary) {
        const kilni_dir_spot spot = kilni_dir_spot_of(found);
        return layout->remove_place(dir, &spot, seen);
    }
    return found->half == KILNI_DIR_NO_HALF
               ? kilni_dir_remove_seen(found->directory, found->name, seen)
               : layout->remove_half(dir, found, seen);
}
