/* SPDX-License-Identifier: Apache-2.0 */
#include "store/network/secret_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/error.h"
#include "os/file.h"
#include "os/os.h"
#include "os/trust.h"

kiln_status kilni_secret_file_fail(const char *path, const char *noun, kiln_error *error)
{
    const kiln_status status = errno == ENOENT || errno == ENOTDIR ? KILN_E_INVALID
                               : errno == EACCES                   ? KILN_E_DENIED
                                                                   : KILN_E_IO;
    return kilni_error_set(error, status, errno, "%s %s: %s", noun, path, strerror(errno));
}

static const char *why_not(const struct stat *stat)
{
    switch (kilni_trust_of(stat, S_IFREG, kilni_os()->geteuid(), true, S_IWGRP | S_IRWXO)) {
    case KILNI_OF_OTHER_KIND:
        return "is not a regular file";
    case KILNI_OF_OTHER_USER:
        return "belongs to a different user";
    case KILNI_OPEN_TO_OTHERS:
        return "is readable or writable by others: its mode must be 0600";
    case KILNI_TRUSTED:
        break;
    }
    return NULL;
}

kiln_status kilni_secret_file_open(const char *path, const char *noun, int *ret_file,
                                   kiln_error *error)
{
    /* O_NONBLOCK keeps the call from blocking if the file is a FIFO. */
    const int file =
        kilni_os()->openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
    struct stat stat;
    if (file < 0 || kilni_os()->fstat(file, &stat) != 0) {
        const kiln_status status = kilni_secret_file_fail(path, noun, error);
        if (file >= 0) {
            kilni_os()->close(file);
        }
        return status;
    }
    const char *why = why_not(&stat);
    if (why) {
        kilni_os()->close(file);
        return kilni_error_set(error, KILN_E_DENIED, 0, "%s %s: %s", noun, path, why);
    }
    *ret_file = file;
    return KILN_OK;
}

static kiln_status read_line(const char *path, const char *noun, int file,
                             char line[KILNI_SECRET_SIZE], kiln_error *error)
{
    size_t count = 0;
    if (kilni_file_read(file, line, KILNI_SECRET_SIZE, &count) != KILN_OK) {
        return kilni_secret_file_fail(path, noun, error);
    }
    char *end = memchr(line, '\n', count);
    const size_t length = end ? (size_t)(end - line) : count;
    if (length == 0 || length == KILNI_SECRET_SIZE || memchr(line, '\0', length)) {
        return kilni_error_set(error, KILN_E_INVALID, 0,
                               "%s %s: must begin with a line of 1 to %u characters", noun, path,
                               KILNI_SECRET_SIZE - 1);
    }
    line[length] = '\0';
    return KILN_OK;
}

kiln_status kilni_secret_file_read_line(const char *path, const char *noun,
                                        char ret_line[KILNI_SECRET_SIZE], kiln_error *error)
{
    int file;
    kiln_status status = kilni_secret_file_open(path, noun, &file, error);
    if (status == KILN_OK) {
        status = read_line(path, noun, file, ret_line, error);
        kilni_os()->close(file);
    }
    return status;
}
