/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole transfers: the loops over short reads, short writes and EINTR.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <kiln/status.h>

/* Reads until @size bytes are there or the file ends. KILN_OK with the count; KILN_E_IO (errno
 * says why). */
kiln_status kilni_file_read(int file, void *buffer, size_t size, size_t *ret_count);
kiln_status kilni_file_read_at(int file, void *buffer, size_t size, off_t offset,
                               size_t *ret_count);

/* Writes all of it. Beyond the limit on the size of files this fails like any other write, and
 * sends no signal (os/file_limit.h). KILN_OK; KILN_E_FULL: ENOSPC, EDQUOT or EFBIG; KILN_E_IO. */
kiln_status kilni_file_write(int file, const void *buffer, size_t size);
kiln_status kilni_file_write_at(int file, const void *buffer, size_t size, off_t offset);

/* Makes a file shorter or longer. Statuses and signals as above. */
kiln_status kilni_file_resize(int file, off_t size);

/* Gives a file or directory that this process has just made the mode that it asked for, where the
 * umask took something off. The descriptor may be one of O_PATH. A failure leaves the mode. */
void kilni_file_complete_mode(int file, mode_t mode);
/* The same where its status is known. */
void kilni_file_complete_known_mode(int file, const struct stat *stat, mode_t mode);

/* Opens a file carefully: no link, no waiting for a FIFO's other end. With O_CREAT in @flags it is
 * made where there is none, mode 0600 whatever the umask. Returns the descriptor; -1 and errno. */
int kilni_file_open_or_make(int directory, const char *path, int flags);

/* Opens what exists below a directory, following no symbolic link on the way: openat2 where that is
 * allowed, else folder by folder. The mode of the folders on the way is not looked at.
 *
 * @path   components separated by single slashes, none of them "." or ".."
 * @flags  as openat; O_CLOEXEC is implied
 * Returns the descriptor; -1 and errno: ELOOP if a component is a symbolic link. */
int kilni_file_open_below(int directory, const char *path, int flags);

/* The status that an errno stands for: ENOENT, ENOTDIR, ESTALE: KILN_MISS; EACCES, EPERM, ELOOP:
 * KILN_E_DENIED; EROFS: KILN_E_READONLY; ENOSPC, EDQUOT, EFBIG: KILN_E_FULL; ENOMEM:
 * KILN_E_NO_MEMORY; EEXIST: KILN_EXISTS; EBUSY: KILN_BUSY; else KILN_E_IO. */
kiln_status kilni_status_from_errno(int error);
