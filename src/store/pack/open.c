/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens a pack. This code opens the directories above the pack, and then the pack, and checks each
 * of them by its descriptor.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "os/file.h"
#include "os/os.h"
#include "os/trust.h"
#include "store/dir/dir.h"
#include "store/pack/pack.h"

/* Returns no capability to write or to grant leases, because a pack can only be read. */
static uint32_t capabilities_of(uint32_t flags)
{
    (void)flags;
    return KILNI_STORE_FOREIGN;
}

/* Sets @error to describe errno, and returns the status. Opening never creates a pack, so a missing
 * pack is a failure like any other. */
static kiln_status fail(const char *path, kiln_error *error)
{
    return kilni_error_set(error, errno == ELOOP || errno == EACCES ? KILN_E_DENIED : KILN_E_IO,
                           errno, "%s: %s", path,
                           errno == ELOOP ? "is a symbolic link" : strerror(errno));
}

/* Opens the directory that holds a file. */
static kiln_status enter_folder(const char *path, const char *name, bool any_owner, int *ret_folder,
                                kiln_error *error)
{
    const bool is_relative = path[0] != '/';
    char *folder = name == path ? strdup(".") : strndup(path, (size_t)(name - path));
    if (!folder) {
        return kilni_error_set(error, KILN_E_NO_MEMORY, 0, "out of memory");
    }
    int start = -1;
    if (is_relative) {
        start = kilni_os()->openat(AT_FDCWD, ".", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
        if (start < 0) {
            free(folder);
            return fail(path, error);
        }
    }
    const kilni_path_rules entrance = {.start = start,
                                       .user = kilni_os()->geteuid(),
                                       .is_readonly = true,
                                       .is_ancestor = true,
                                       .any_owner = any_owner};
    bool made;
    kiln_status status = kilni_dir_enter(folder, &entrance, ret_folder, &made, error);
    if (status == KILN_MISS) {
        status = kilni_error_set(error, KILN_E_IO, ENOENT, "%s: %s", path, strerror(ENOENT));
    }
    kilni_file_close(&start);
    free(folder);
    return status;
}

static kiln_status judge(int file, const char *path, bool any_owner, kiln_error *error)
{
    struct stat stat;
    if (kilni_os()->fstat(file, &stat) != 0) {
        return fail(path, error);
    }
    const uid_t user = any_owner ? stat.st_uid : kilni_os()->geteuid();
    const kilni_trust trust =
        kilni_trust_of(&stat, S_IFREG, user, true, any_owner ? 0 : KILNI_WRITE_BY_OTHERS);
    return kilni_trust_report(trust, &stat, user, path, "a regular file", error);
}

static kiln_status open_pack(const char *path, const kilni_store_options *options,
                             kiln_store **ret_store, kiln_error *error)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    int folder = -1;
    kiln_status status = enter_folder(path, name, options->trusts_any_owner, &folder, error);
    if (status != KILN_OK) {
        return status;
    }
    /* O_NONBLOCK: opening a FIFO must not block. */
    int file = kilni_os()->openat(folder, name,
                                  O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
    status = file < 0 ? fail(path, error) : judge(file, path, options->trusts_any_owner, error);
    kilni_os()->close(folder);
    if (status != KILN_OK) {
        kilni_file_close(&file);
        return status;
    }
    status = kilni_pack_open_file(path, file, options, ret_store, error);
    if (status == KILN_OK) {
        (*ret_store)->capabilities = capabilities_of(options->flags);
    }
    return status;
}

/* Accepts "pack:FILE", "pack:/path" and "pack:///path". */
static kiln_status check_url(const char *text, const char *path, kiln_error *error)
{
    if (path[0] != '/' && path != text) {
        return kilni_error_set(error, KILN_E_PARSE, 0,
                               "pack:%s: an absolute path must follow //, as in pack:///path",
                               text);
    }
    if (path[0] == '\0' || path[0] == '?') {
        return kilni_error_set(error, KILN_E_PARSE, 0, "pack: names no file");
    }
    return KILN_OK;
}

static const char *const url_options[] = {"readonly",  "write", "key-file",
                                          "max-entry", "owner", NULL};

const kilni_store_engine kilni_pack_engine = {
    .noun = "a pack",
    .scheme = "pack:",
    .options = url_options,
    .check_url = check_url,
    .open = open_pack,
    .capabilities = capabilities_of,
};
