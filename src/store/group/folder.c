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

/* Reports why the directory could not be opened, and what can be done about it. */
static kiln_status report(const char *path, kiln_status status, const kiln_error *why,
                          kiln_error *error)
{
    const int system_error = why->system_error;
    switch (system_error) {
    case ENOENT:
        return kilni_error_set(error, KILN_E_IO, system_error,
                               "%s: %s (root makes it: install -d -g GROUP -m 2770 %s)", path,
                               strerror(system_error), path);
    case EACCES:
        return kilni_error_set(error, status, system_error,
                               "%s: %s (the members of the group that it belongs to can use it)",
                               path, strerror(system_error));
    case ELOOP:
        return kilni_error_set(error, status, system_error, "%s is a symbolic link", path);
    case EXDEV:
        return kilni_error_set(error, KILN_E_DENIED, system_error,
                               "%s is a mount point (use a directory below it)", path);
    case ENOSYS:
    case EPERM:
        return kilni_error_set(error, KILN_E_IO, system_error,
                               "%s: the directory of a group needs openat2, of Linux 5.6, which is "
                               "missing or forbidden here",
                               path);
    default:
        return kilni_error_set(error, status, system_error, "%s", why->text);
    }
}

kiln_status kilni_group_enter(const char *path, int *ret_folder, kiln_error *error)
{
    const kilni_path_rules rules = {
        .start = -1, .user = kilni_os()->geteuid(), .is_of_group = true};
    int folder = -1;
    bool made;
    kiln_error why = {.struct_size = sizeof why};
    kiln_status status = kilni_dir_enter(path, &rules, &folder, &made, &why);
    if (status != KILN_OK) {
        return report(path, status, &why, error);
    }
    status = check_mode(path, folder, error);
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
