/* SPDX-License-Identifier: Apache-2.0 */
#include "os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "os/file_limit.h"
#include "os/os.h"

/* The position at which a transfer begins: a given offset, or the file's own position. */
typedef struct position {
    bool given;
    off_t offset;
} position;

static ssize_t read_some(int file, unsigned char *buffer, size_t size, position at, size_t done)
{
    ssize_t count;
    do {
        count = at.given ? kilni_os()->pread(file, buffer, size, at.offset + (off_t)done)
                         : kilni_os()->read(file, buffer, size);
    } while (count < 0 && errno == EINTR);
    return count;
}

static ssize_t write_some(int file, const unsigned char *buffer, size_t size, position at,
                          size_t done)
{
    ssize_t count;
    do {
        count = at.given ? kilni_os()->pwrite(file, buffer, size, at.offset + (off_t)done)
                         : kilni_os()->write(file, buffer, size);
    } while (count < 0 && errno == EINTR);
    return count;
}

static kiln_status read_all(int file, unsigned char *buffer, size_t size, position at,
                            size_t *ret_count)
{
    size_t done = 0;
    while (done < size) {
        ssize_t count = read_some(file, buffer + done, size - done, at, done);
        if (count < 0) {
            return KILN_E_IO;
        }
        if (count == 0) {
            break;
        }
        done += (size_t)count;
    }
    *ret_count = done;
    return KILN_OK;
}

static kiln_status write_failure(void)
{
    if (errno == EFBIG) {
        kilni_file_limit_reached();
    }
    return kilni_status_from_errno(errno) == KILN_E_FULL ? KILN_E_FULL : KILN_E_IO;
}

static kiln_status write_all(int file, const unsigned char *buffer, size_t size, position at)
{
    size_t done = 0;
    while (done < size) {
        ssize_t count = write_some(file, buffer + done, size - done, at, done);
        if (count < 0) {
            return write_failure();
        }
        if (count == 0) {
            /* Without this check, a device that accepts no bytes and reports no error would cause
             * an endless loop. */
            errno = EIO;
            return KILN_E_IO;
        }
        done += (size_t)count;
    }
    return KILN_OK;
}

kiln_status kilni_file_read(int file, void *buffer, size_t size, size_t *ret_count)
{
    return read_all(file, buffer, size, (position){.given = false}, ret_count);
}

kiln_status kilni_file_read_at(int file, void *buffer, size_t size, off_t offset, size_t *ret_count)
{
    return read_all(file, buffer, size, (position){.given = true, .offset = offset}, ret_count);
}

static kiln_status write_within_limit(int file, const void *buffer, size_t size, position at)
{
    kilni_file_limit_begin();
    const kiln_status status = write_all(file, buffer, size, at);
    kilni_file_limit_end();
    return status;
}

kiln_status kilni_file_write(int file, const void *buffer, size_t size)
{
    return write_within_limit(file, buffer, size, (position){.given = false});
}

kiln_status kilni_file_write_at(int file, const void *buffer, size_t size, off_t offset)
{
    return write_within_limit(file, buffer, size, (position){.given = true, .offset = offset});
}

kiln_status kilni_file_resize(int file, off_t size)
{
    kilni_file_limit_begin();
    const kiln_status status = kilni_os()->ftruncate(file, size) == 0 ? KILN_OK : write_failure();
    kilni_file_limit_end();
    return status;
}

void kilni_file_close(int *file)
{
    const int system_error = errno;
    if (*file >= 0) {
        kilni_os()->close(*file);
    }
    *file = -1;
    errno = system_error;
}

DIR *kilni_file_list(int folder)
{
    int copy = kilni_os()->openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    DIR *list = copy < 0 ? NULL : kilni_os()->fdopendir(copy);
    if (!list) {
        kilni_file_close(&copy);
    }
    return list;
}

void kilni_file_ensure_known_mode(int file, const struct stat *stat, mode_t mode)
{
    if ((stat->st_mode & mode) != mode && stat->st_uid == kilni_os()->geteuid()) {
        kilni_os()->fchmod(file, (stat->st_mode & 07777) | mode);
    }
}

void kilni_file_ensure_mode(int file, mode_t mode)
{
    struct stat stat;
    if (kilni_os()->fstat(file, &stat) == 0) {
        kilni_file_ensure_known_mode(file, &stat, mode);
    }
}

int kilni_file_open_or_make(int directory, const char *path, int flags)
{
    const int careful = O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    const int existing = (flags & ~O_CREAT) | careful;
    int file = kilni_os()->openat(directory, path, existing, 0);
    if (file >= 0 || errno != ENOENT || !(flags & O_CREAT)) {
        return file;
    }
    file = kilni_os()->openat(directory, path, flags | O_EXCL | careful, 0600);
    if (file >= 0) {
        kilni_file_ensure_mode(file, 0600);
    } else if (errno == EEXIST) {
        file = kilni_os()->openat(directory, path, existing, 0);
    }
    return file;
}

/* Reports ELOOP for a symbolic link, even with O_DIRECTORY, for which the kernel reports ENOTDIR.
 */
static int open_component(int directory, const char *name, int flags)
{
    const int file = kilni_os()->openat(directory, name, flags | O_NOFOLLOW | O_CLOEXEC, 0);
    struct stat stat;
    if (file < 0 && errno == ENOTDIR) {
        const bool is_link =
            kilni_os()->fstatat(directory, name, &stat, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISLNK(stat.st_mode);
        errno = is_link ? ELOOP : ENOTDIR;
    }
    return file;
}

static int open_by_components(int directory, const char *path, int flags)
{
    int here = directory;
    for (;;) {
        char name[NAME_MAX + 1];
        const size_t length = strcspn(path, "/");
        const bool is_last = path[length] == '\0';
        int next = -1;
        if (length > NAME_MAX) {
            errno = ENAMETOOLONG;
        } else {
            memcpy(name, path, length);
            name[length] = '\0';
            next = open_component(here, name, is_last ? flags : O_PATH | O_DIRECTORY);
        }
        if (here != directory) {
            const int system_error = errno;
            kilni_os()->close(here);
            errno = system_error;
        }
        if (next < 0 || is_last) {
            return next;
        }
        here = next;
        path += length + 1;
    }
}

int kilni_file_open_below(int directory, const char *path, int flags)
{
    /* open_below also refuses a link as the last component. O_NOFOLLOW alone would not: depending
     * on the flags, the kernel would report ENOTDIR or open the link itself. */
    const int file = kilni_os()->open_below(directory, path, flags | O_CLOEXEC);
    /* Old kernels lack this call, and sandboxes that do not know it return EPERM. */
    const bool is_refused = file < 0 && (errno == ENOSYS || errno == EPERM);
    return is_refused ? open_by_components(directory, path, flags) : file;
}

kiln_status kilni_status_from_errno(int error)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR:
    case ESTALE:
        return KILN_MISS;
    case EACCES:
    case EPERM:
    case ELOOP:
        return KILN_E_DENIED;
    case EROFS:
        return KILN_E_READONLY;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return KILN_E_FULL;
    case ENOMEM:
        return KILN_E_NO_MEMORY;
    case EEXIST:
        return KILN_EXISTS;
    case EBUSY:
        return KILN_BUSY;
    default:
        return KILN_E_IO;
    }
}
