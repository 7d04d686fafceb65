/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens, reads and writes files. Transfers are complete: these functions handle short reads, short
 * writes and EINTR.
 */
#pragma once

#include <dirent.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <kiln/status.h>

/* Reads until @size bytes have been read or the file ends. Returns KILN_OK and the number of bytes,
 * or KILN_E_IO with the reason in errno. */
kiln_status kilni_file_read(int file, void *buffer, size_t size, size_t *ret_count);
kiln_status kilni_file_read_at(int file, void *buffer, size_t size, off_t offset,
                               size_t *ret_count);

/* Writes all bytes. A write beyond the limit on the size of files fails and sends no signal
 * (os/file_limit.h). Returns KILN_OK; KILN_E_FULL: ENOSPC, EDQUOT or EFBIG; KILN_E_IO. */
kiln_status kilni_file_write(int file, const void *buffer, size_t size);
kiln_status kilni_file_write_at(int file, const void *buffer, size_t size, off_t offset);

/* Makes a file shorter or longer. Returns the statuses of kilni_file_write. Like kilni_file_write,
 * sends no signal. */
kiln_status kilni_file_resize(int file, off_t size);

/* Closes a descriptor and sets it to -1. Does nothing if it is -1 already. Preserves errno. */
void kilni_file_close(int *file);

/* Opens a listing of a folder. The listing begins at the first name, even if the folder was listed
 * before. On failure, returns NULL and sets errno. */
DIR *kilni_file_list(int folder);

/* Restores the bits of @mode that the umask removed from a file or directory that this process has
 * just created. @file may have been opened with O_PATH. A failure leaves the mode unchanged. */
void kilni_file_ensure_mode(int file, mode_t mode);
/* Does the same as kilni_file_ensure_mode, for a caller that has already called fstat. */
void kilni_file_ensure_known_mode(int file, const struct stat *stat, mode_t mode);

/* Opens a file without following a symbolic link or waiting for the other end of a FIFO. With
 * O_CREAT in @flags, creates a missing file. Its mode is 0600, whatever the umask is. Returns the
 * descriptor, or -1 and errno. */
int kilni_file_open_or_make(int directory, const char *path, int flags);

/* Opens an existing file or folder below a directory, without following any symbolic link. Uses
 * openat2 if the system allows it. Otherwise opens one folder after the other. Does not check the
 * modes of the folders on the path.
 *
 * @path   components separated by single slashes, none of them "." or ".."
 * @flags  as for openat; O_CLOEXEC is implied
 * Returns the descriptor, or -1 and errno: ELOOP if a component is a symbolic link. */
int kilni_file_open_below(int directory, const char *path, int flags);

/* Returns the status for an errno. ENOENT, ENOTDIR, ESTALE: KILN_MISS; EACCES, EPERM, ELOOP:
 * KILN_E_DENIED; EROFS: KILN_E_READONLY; ENOSPC, EDQUOT, EFBIG: KILN_E_FULL; ENOMEM:
 * KILN_E_NO_MEMORY; EEXIST: KILN_EXISTS; EBUSY: KILN_BUSY; any other: KILN_E_IO. */
kiln_status kilni_status_from_errno(int error);
