/* SPDX-License-Identifier: Apache-2.0 */
#include "device/watch/path_lookup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "device/file_content.h"
#include "os/file.h"
#include "os/os.h"

enum { MAX_FILE_BYTES = 64 << 20 };

static void describe_file(const kilni_file_content *file, kilni_path_facts *ret_facts)
{
    ret_facts->what = KILN_FOUND_FILE;
    ret_facts->size = file->size;
    ret_facts->device = file->device;
    ret_facts->inode = file->inode;
    ret_facts->changed = file->changed;
    crypto_generichash(ret_facts->digest, sizeof ret_facts->digest, file->bytes, file->size, NULL,
                       0);
}

static bool find_folder(const char *path, kilni_path_facts *ret_facts)
{
    struct stat found;
    if (kilni_os()->fstatat(AT_FDCWD, path, &found, 0) != 0 || !S_ISDIR(found.st_mode)) {
        return false;
    }
    ret_facts->what = KILN_FOUND_FOLDER;
    ret_facts->device = found.st_dev;
    ret_facts->inode = found.st_ino;
    return true;
}

static kiln_status find_content(const char *path, kilni_content_fn *scan, void *user,
                                kilni_path_facts *ret_facts)
{
    kilni_file_content file;
    const kiln_status status = kilni_file_content_read(path, MAX_FILE_BYTES, &file);
    if (status == KILN_OK) {
        describe_file(&file, ret_facts);
        if (scan) {
            scan(user, ret_facts, file.bytes);
        }
        kilni_file_content_done(&file);
    } else if (status == KILN_MISS) {
        ret_facts->what = KILN_FOUND_NOTHING;
    } else if (status != KILN_E_DENIED || !find_folder(path, ret_facts)) {
        return status == KILN_E_NO_MEMORY ? status : KILN_E_UNSUPPORTED;
    }
    return KILN_OK;
}

static kiln_status find_link(const char *path, kiln_finding *ret_what, char *ret_target)
{
    const ssize_t length = kilni_os()->readlinkat(AT_FDCWD, path, ret_target, PATH_MAX - 1);
    if (length < 0) {
        *ret_what = KILN_FOUND_NOTHING;
        return errno == EINVAL || kilni_status_from_errno(errno) == KILN_MISS ? KILN_OK
                                                                              : KILN_E_UNSUPPORTED;
    }
    *ret_what = KILN_FOUND_LINK;
    ret_target[length] = '\0';
    return KILN_OK;
}

static kiln_status find_real_path(const char *path, kiln_finding *ret_what, char *ret_target)
{
    if (!realpath(path, ret_target)) {
        *ret_what = KILN_FOUND_NOTHING;
        return kilni_status_from_errno(errno) == KILN_MISS ? KILN_OK : KILN_E_UNSUPPORTED;
    }
    *ret_what = KILN_FOUND_LINK;
    return KILN_OK;
}

/* Returns how many components a path has after its last "..". */
static size_t count_names(const char *path)
{
    size_t count = 0;
    for (const char *at = path + strspn(path, "/"); *at; at += strspn(at, "/")) {
        const size_t length = strcspn(at, "/");
        const bool is_dots = *at == '.' && (length == 1 || (length == 2 && at[1] == '.'));
        count = !is_dots ? count + 1 : length == 2 ? 0 : count;
        at += length;
    }
    return count;
}

static kiln_status find_real_names(const char *path, kiln_finding *ret_what, char *ret_target)
{
    const kiln_status status = find_real_path(path, ret_what, ret_target);
    if (status == KILN_OK && *ret_what == KILN_FOUND_LINK) {
        char *at = ret_target + strlen(ret_target);
        for (size_t left = count_names(path); at > ret_target; at--) {
            if (*at == '/' && left-- <= 1) {
                break;
            }
        }
        memmove(ret_target, at, strlen(at) + 1);
    }
    return status;
}

kiln_status kilni_path_look_up(kilni_lookup lookup, const char *path, kilni_content_fn *scan,
                               void *user, kilni_path_facts *ret_facts, char ret_target[PATH_MAX])
{
    switch (lookup) {
    case KILNI_LOOKUP_CONTENT:
        return find_content(path, scan, user, ret_facts);
    case KILNI_LOOKUP_LINK:
        return find_link(path, &ret_facts->what, ret_target);
    case KILNI_LOOKUP_REAL_PATH:
        return find_real_path(path, &ret_facts->what, ret_target);
    case KILNI_LOOKUP_REAL_NAMES:
        return find_real_names(path, &ret_facts->what, ret_target);
    }
    return KILN_E_CORRUPT;
}
