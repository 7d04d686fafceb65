/* SPDX-License-Identifier: Apache-2.0 */
#include "device/file_content.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "os/file.h"
#include "os/os.h"

static kiln_status check(const struct stat *facts, size_t limit)
{
    if (!S_ISREG(facts->st_mode)) {
        return KILN_E_DENIED;
    }
    return facts->st_size < 0 || (uint64_t)facts->st_size > limit ? KILN_E_TOO_LARGE : KILN_OK;
}

/* Tries to read one byte more than expected, to notice if the file grows. */
static kiln_status read_open(int file, const struct stat *facts, kilni_file_content *ret_file)
{
    size_t size = (size_t)facts->st_size;
    kilni_file_content content = {.bytes = malloc(size + 1),
                                  .device = facts->st_dev,
                                  .inode = facts->st_ino,
                                  .changed = facts->st_ctim};
    if (!content.bytes) {
        return KILN_E_NO_MEMORY;
    }
    kiln_status status = kilni_file_read(file, content.bytes, size + 1, &content.size);
    if (status == KILN_OK && content.size != size) {
        status = KILN_E_IO;
    }
    if (status != KILN_OK) {
        kilni_file_content_done(&content);
        return status;
    }
    *ret_file = content;
    return KILN_OK;
}

kiln_status kilni_file_content_read(const char *path, size_t limit, kilni_file_content *ret_file)
{
    struct stat facts;
    /* The file is checked before it is opened, because opening a device or a pipe can have side
     * effects. */
    if (kilni_os()->fstatat(AT_FDCWD, path, &facts, 0) != 0) {
        return kilni_status_from_errno(errno);
    }
    kiln_status status = check(&facts, limit);
    if (status != KILN_OK) {
        return status;
    }
    int file = kilni_os()->openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
    if (file < 0) {
        return kilni_status_from_errno(errno);
    }
    status = kilni_os()->fstat(file, &facts) == 0 ? check(&facts, limit) : KILN_E_IO;
    if (status == KILN_OK) {
        status = read_open(file, &facts, ret_file);
    }
    kilni_os()->close(file);
    return status;
}

void kilni_file_content_done(kilni_file_content *file)
{
    free(file->bytes);
    *file = (kilni_file_content){0};
}
