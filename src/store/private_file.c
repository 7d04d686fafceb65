/* SPDX-License-Identifier: Apache-2.0 */
#include "store/private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/error.h"
#include "os/file.h"
#include "os/os.h"
#include "os/trust.h"

static kiln_status fail(const char *path, const char *noun, int system_error, kiln_error *error)
{
    kiln_status status = kilni_status_from_errno(system_error);
    if (status == KILN_MISS) {
        status = KILN_E_INVALID;
    } else if (status != KILN_E_DENIED && status != KILN_E_NO_MEMORY) {
        status = KILN_E_IO;
    }
    return kilni_error_set(error, status, system_error, "%s %s: %s", noun, path,
                           system_error == ELOOP ? "is a symbolic link" : strerror(system_error));
}

static const char *why_not(const struct stat *stat, size_t capacity)
{
    switch (kilni_trust_of(stat, S_IFREG, kilni_os()->geteuid(), false, S_IRWXG | S_IRWXO)) {
    case KILNI_OF_OTHER_KIND:
        return "is not a regular file";
    case KILNI_OF_OTHER_USER:
        return "belongs to a different user";
    case KILNI_OPEN_TO_OTHERS:
        return "is readable or writable by others: its mode must be 0600";
    case KILNI_TRUSTED:
        break;
    }
    return stat->st_size > (off_t)capacity ? "is too large" : NULL;
}

static kiln_status read_opened(int file, const char *path, const char *noun, void *buffer,
                               size_t capacity, size_t *ret_count, kiln_error *error)
{
    struct stat stat;
    if (kilni_os()->fstat(file, &stat) != 0) {
        return fail(path, noun, errno, error);
    }
    const char *why = why_not(&stat, capacity);
    if (why) {
        return kilni_error_set(error, KILN_E_DENIED, 0, "%s %s %s", noun, path, why);
    }
    return kilni_file_read(file, buffer, capacity, ret_count) == KILN_OK
               ? KILN_OK
               : fail(path, noun, errno, error);
}

kiln_status kilni_private_file_read(const char *path, const char *noun, void *buffer,
                                    size_t capacity, size_t *ret_count, kiln_error *error)
{
    if (path[0] != '/') {
        return kilni_error_set(error, KILN_E_INVALID, 0, "%s \"%s\": expected an absolute path",
                               noun, path);
    }
    /* O_NONBLOCK: opening a FIFO must not block. */
    const int file = kilni_os()->openat(
        AT_FDCWD, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
    if (file < 0) {
        return fail(path, noun, errno, error);
    }
    const kiln_status status = read_opened(file, path, noun, buffer, capacity, ret_count, error);
    kilni_os()->close(file);
    return status;
}
