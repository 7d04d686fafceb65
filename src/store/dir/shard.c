/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens the folders below the directory. This code opens each folder without following symbolic
 * links, checks it by its descriptor, and accesses its files through that descriptor. So an
 * operation uses the folder that was checked, and never one to which other users are allowed to
 * write. Only a get opens the file before it checks the folder, to save calls (layout_kiln.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "os/file.h"
#include "os/os.h"
#include "os/trust.h"
#include "store/dir/dir.h"

#define MAKE_TRIES 3

bool kilni_dir_trusts_folder(const kilni_dir *dir, const struct stat *stat)
{
    return kilni_dir_trusts(dir, stat, S_IFDIR);
}

kiln_status kilni_dir_judge_folder(const kilni_dir *dir, int folder)
{
    struct stat stat;
    if (kilni_os()->fstat(folder, &stat) != 0) {
        return kilni_dir_read_status(errno);
    }
    return kilni_dir_trusts_folder(dir, &stat) ? KILN_OK : KILN_E_DENIED;
}

kiln_status kilni_dir_open_folder(const kilni_dir *dir, const char *path, int flags,
                                  int *ret_folder)
{
    const int folder = kilni_file_open_below(kilni_dir_root(dir), path, flags | O_DIRECTORY);
    if (folder < 0) {
        return kilni_dir_read_status(errno);
    }
    const kiln_status status = kilni_dir_judge_folder(dir, folder);
    if (status != KILN_OK) {
        kilni_os()->close(folder);
        return status;
    }
    *ret_folder = folder;
    return KILN_OK;
}

kiln_status kilni_dir_open_shard(const kilni_dir *dir, unsigned shard, int flags, int *ret_folder)
{
    char path[KILNI_DIR_PATH_SIZE];
    kilni_dir_shard_path(shard, path);
    return kilni_dir_open_folder(dir, path, flags, ret_folder);
}

static kiln_status make_folder(int parent, const char *name)
{
    return kilni_dir_make_directory(parent, name) == 0 || errno == EEXIST
               ? KILN_OK
               : kilni_dir_write_status(errno);
}

/* Creates the folder of all shards, and the directory itself if it was removed. */
static kiln_status make_version_folder(kilni_dir *dir)
{
    const kiln_status status = make_folder(kilni_dir_root(dir), KILNI_DIR_VERSION);
    return status == KILN_MISS ? kilni_dir_reopen(dir) : status;
}

static const char *last_component(const char *path)
{
    return strrchr(path, '/') + 1;
}

kiln_status kilni_dir_make_shard(kilni_dir *dir, unsigned shard)
{
    char path[KILNI_DIR_PATH_SIZE];
    kilni_dir_shard_path(shard, path);
    kiln_status status = KILN_MISS;
    for (int i = 0; i < MAKE_TRIES && status == KILN_MISS; i++) {
        int version;
        status = kilni_dir_open_folder(dir, KILNI_DIR_VERSION, O_PATH, &version);
        if (status == KILN_OK) {
            status = make_folder(version, last_component(path));
            kilni_os()->close(version);
        } else if (status == KILN_MISS) {
            const kiln_status made = make_version_folder(dir);
            status = made == KILN_OK ? KILN_MISS : made;
        }
    }
    return status;
}

void kilni_dir_remove_empty_shard(const kilni_dir *dir, unsigned shard)
{
    char path[KILNI_DIR_PATH_SIZE];
    kilni_dir_shard_path(shard, path);
    int version;
    if (kilni_dir_open_folder(dir, KILNI_DIR_VERSION, O_PATH, &version) == KILN_OK) {
        kilni_os()->unlinkat(version, last_component(path), AT_REMOVEDIR);
        kilni_os()->close(version);
    }
}
