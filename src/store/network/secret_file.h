/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that hold a secret: a password, a token, or the key of a certificate.
 */
#pragma once

#include <kiln/status.h>

#define KILNI_SECRET_SIZE 4097u /* with the terminating NUL */

/* Opens a file that holds a secret, for reading. It must be a regular file that belongs to this
 * user or to root. No one except its owner is allowed to write it, and no one except its owner and
 * its group is allowed to read it. Symbolic links are followed, because containers often provide
 * secrets as such links.
 *
 * @path  absolute
 * @noun  names the kind of file in messages, such as "password file"
 * Returns KILN_OK; KILN_E_INVALID: the file does not exist; KILN_E_DENIED; KILN_E_IO. @error
 * describes the failure. */
kiln_status kilni_secret_file_open(const char *path, const char *noun, int *ret_file,
                                   kiln_error *error);

/* Sets @error, and returns a status for the errno of a failure to use a secret file. */
kiln_status kilni_secret_file_fail(const char *path, const char *noun, kiln_error *error);

/* Reads the first line of a file that holds a secret.
 *
 * @ret_line  [out] the caller must wipe the line, even on failure
 * Returns KILN_OK; KILN_E_INVALID: there is no file, or its line is empty or too long;
 * KILN_E_DENIED; KILN_E_IO. @error describes the failure. */
kiln_status kilni_secret_file_read_line(const char *path, const char *noun,
                                        char ret_line[KILNI_SECRET_SIZE], kiln_error *error);
