/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens the folders of pairs. This code follows no symbolic links, and checks each folder by its
 * descriptor.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "os/file.h"
#include "os/os.h"
#include "store/dir/file_pair.h"

typedef struct folder_path {
    const char *remaining; /* the rest of the path; NULL: there is no rest */
    int here;
    bool is_at_root; /* @here is the store's own descriptor */
} folder_path;

static int open_below(int parent, const char *name)
{
    return kilni_file_open_below(parent, name, O_RDONLY | O_DIRECTORY);
}

static int make_and_open_below(int parent, const char *name)
{
    const int folder = open_below(parent, name);
    if (folder >= 0 || errno != ENOENT) {
        return folder;
    }
    return kilni_dir_make_directory(parent, name) == 0 || errno == EEXIST ? open_below(parent, name)
                                                                          : -1;
}

/* Opens the next folder, and creates it if it is missing. On failure, returns false and sets errno.
 */
static bool step(folder_path *at)
{
    char name[KILNI_PAIR_FOLDER_SIZE];
    const size_t length = strcspn(at->remaining, "/");
    memcpy(name, at->remaining, length);
    name[length] = '\0';
    const int next = make_and_open_below(at->here, name);
    if (next < 0) {
        return false;
    }
    if (!at->is_at_root) {
        kilni_os()->close(at->here);
    }
    const char *const remaining = at->remaining + length;
    *at = (folder_path){.remaining = *remaining == '/' ? remaining + 1 : NULL, .here = next};
    return true;
}

/* Opens the remaining folders one after the other. On failure, closes the open folder, returns
 * false and keeps errno. */
static bool open_remaining(folder_path *at)
{
    while (at->remaining) {
        if (!step(at)) {
            const int system_error = errno;
            if (!at->is_at_root) {
                kilni_os()->close(at->here);
            }
            errno = system_error;
            return false;
        }
    }
    return true;
}

kiln_status kilni_pair_make_folder(kilni_dir *dir, const char *path, int *ret_folder)
{
    folder_path way = {.remaining = path, .here = kilni_dir_root(dir), .is_at_root = true};
    if (open_remaining(&way)) {
        const kiln_status status = kilni_dir_judge_folder(dir, way.here);
        if (status != KILN_OK) {
            kilni_os()->close(way.here);
            return status;
        }
        *ret_folder = way.here;
        return KILN_OK;
    }
    /* If a folder is missing in the store's directory and cannot be created, the directory was
     * removed. Other errors can mean that something that is not a folder has the folder's name. */
    const bool is_root_gone = way.is_at_root && (errno == ENOENT || errno == ESTALE);
    const kiln_status status = kilni_dir_write_status(errno);
    const kiln_status reopened = is_root_gone ? kilni_dir_reopen(dir) : KILN_OK;
    return reopened == KILN_OK ? status : reopened;
}

/* Removes the last folder of a path if it is empty. */
static bool remove_last(const kilni_dir *dir, char *path)
{
    char *slash = strrchr(path, '/');
    int parent = kilni_dir_root(dir);
    if (!slash) {
        return kilni_os()->unlinkat(parent, path, AT_REMOVEDIR) == 0;
    }
    *slash = '\0';
    if (kilni_dir_open_folder(dir, path, O_RDONLY, &parent) != KILN_OK) {
        return false;
    }
    const bool is_removed = kilni_os()->unlinkat(parent, slash + 1, AT_REMOVEDIR) == 0;
    kilni_os()->close(parent);
    return is_removed;
}

void kilni_pair_remove_empty(const kilni_dir *dir, const char *path)
{
    char part[KILNI_PAIR_FOLDER_SIZE];
    memcpy(part, path, strlen(path) + 1);
    bool has_more;
    do {
        has_more = strchr(part, '/');
    } while (remove_last(dir, part) && has_more);
}
