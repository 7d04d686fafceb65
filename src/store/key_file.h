/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a key file, which contains the signing key of a store: 32 bytes that only the file's owner
 * is allowed to read.
 */
#pragma once

#include <kiln/status.h>

#include "entry/entry.h"

/* Reads the signing key from a key file. The file must be a regular file of this user, not a
 * symbolic link. Nobody else is allowed to read or write it. It must be exactly as long as a
 * signing key, and must not consist only of zeros.
 *
 * @path     absolute
 * @ret_key  [out] the caller must wipe it
 * Returns KILN_OK; KILN_E_INVALID: the path is not absolute, or there is no such file;
 * KILN_E_DENIED; KILN_E_IO; KILN_E_NO_MEMORY. @error describes the failure. */
kiln_status kilni_key_file_read(const char *path, kilni_signing_key *ret_key, kiln_error *error);
