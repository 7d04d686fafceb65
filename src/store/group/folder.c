/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens the directory and its files. Keeps rules 1 and 3 of group.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/error.h"
#include "os/file.h"
#include "os/os.h"
#include "store/dir/dir.h"
#include "store/group/group.h"

/* The mode of the directory, apart from the sticky bit: the group can write, others can do nothing.
 * The group of new files is that of the directory, so that its members can read them. */
#define GROUP_MODE ((mode_t)(S_ISGID | S_IRWXU | S_IRWXG))

static kiln_status check_mode(const char *path, int folder, kiln_error *error)
{
    struct stat stat;
    if (kilni_os()->fstat(folder, &stat) != 0) {
        return kilni_error_set(error, KILN_E_IO, errno, "%s: %s", path, strerror(errno));
    }
    const mode_t mode = stat.st_mode & 07777;
    return (mode & ~(mode_t)S_ISVTX) == GROUP_MODE
               ? KILN_OK
               : kilni_error_set(error, KILN_E_DENIED, 0,
                                 "%s has mode %04o, but the directory of a group must have mode "
                                 "2770 or 3770 (chmod 2770 %s)",
                                 path, (unsigned)mode, path);
}

/* Without openat2, a member of the group could make the process wait for a file system whose server
 * is a program of that member (FUSE). */
static kiln_status check_calls(const char *path, int folder, kiln_error *error)
{
    int self = kilni_os()->open_within(folder, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (self < 0) {
        return kilni_error_set(error, KILN_E_IO, errno, "%s: %s%s", path, strerror(errno),
                               errno == ENOSYS || errno == EPERM
                                   ? " (the directory of a group needs openat2, of Linux 5.6)"
                                   : "");
    }
    kilni_file_close(&self);
    return KILN_OK;
}

/* The directory is checked like one above a private directory: it belongs to root or to the user,
 * and is no link, unless root or the user made the link. */
kiln_status kilni_group_enter(const char *path, int *ret_folder, kiln_error *error)
{
    const kilni_path_rules rules = {
        .start = -1, .user = kilni_os()->geteuid(), .is_readonly = true, .is_ancestor = true};
    int folder = -1;
    bool made;
    kiln_status status = kilni_dir_enter(path, &rules, &folder, &made, error);
    if (status == KILN_MISS) {
        status = kilni_error_set(error, KILN_E_IO, ENOENT,
                                 "%s: %s (root makes it: install -d -g GROUP -m 2770 %s)", path,
                                 strerror(ENOENT), path);
    } else if (status == KILN_E_DENIED && error && error->system_error == EACCES) {
        status = kilni_error_set(error, status, EACCES,
                                 "%s: %s (the members of the group that it belongs to can use it)",
                                 path, strerror(EACCES));
    }
    if (status != KILN_OK) {
        return status;
    }
    status = check_mode(path, folder, error);
    if (status == KILN_OK) {
        status = check_calls(path, folder, error);
    }
    if (status != KILN_OK) {
        kilni_file_close(&folder);
        return status;
    }
    *ret_folder = folder;
    return KILN_OK;
}

static kiln_status status_of_open(int error)
{
    switch (error) {
    case ENOENT:
        return KILN_MISS;
    case ENOMEM:
        return KILN_E_NO_MEMORY;
    case ELOOP:  /* a symbolic link */
    case EXDEV:  /* something is mounted there */
    case EACCES: /* a member does not let others read the file */
    case EAGAIN: /* a member has a lease of the file (fcntl, F_SETLEASE) */
    case ENXIO:  /* a socket */
    case ENODEV: /* a device */
        return KILN_E_CORRUPT;
    default:
        return KILN_E_IO;
    }
}

/* O_NONBLOCK: the call waits neither for the other end of a FIFO nor for the holder of a lease. */
kiln_status kilni_group_open_file(int folder, const char *name, int flags, int *ret_file,
                                  struct stat *ret_stat)
{
    const int careful = flags & O_PATH ? O_CLOEXEC : O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    int file = kilni_os()->open_within(folder, name, flags | careful);
    if (file < 0) {
        return status_of_open(errno);
    }
    struct stat stat;
    kiln_status status = KILN_OK;
    if (kilni_os()->fstat(file, &stat) != 0) {
        status = KILN_E_IO;
    } else if (!S_ISREG(stat.st_mode)) {
        status = KILN_E_CORRUPT;
    }
    if (status != KILN_OK) {
        kilni_file_close(&file);
        return status;
    }
    *ret_file = file;
    *ret_stat = stat;
    return KILN_OK;
}
