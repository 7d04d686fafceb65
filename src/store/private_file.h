/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a small file that holds a secret. Only this user is allowed to read or write the file.
 */
#pragma once

#include <stddef.h>

#include <kiln/status.h>

/* Reads a whole file. It must be a regular file of this user, not a symbolic link. Nobody else is
 * allowed to read or write it.
 *
 * @path       absolute
 * @noun       names the kind of file in messages, such as "key file"
 * @capacity   the size of @buffer; a larger file is refused with KILN_E_DENIED
 * @ret_count  [out] the number of bytes that were read
 * Returns KILN_OK; KILN_E_INVALID: the path is not absolute, or there is no such file;
 * KILN_E_DENIED; KILN_E_IO; KILN_E_NO_MEMORY. @error describes the failure. */
kiln_status kilni_private_file_read(const char *path, const char *noun, void *buffer,
                                    size_t capacity, size_t *ret_count, kiln_error *error);
