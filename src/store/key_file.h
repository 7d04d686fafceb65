/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a key file, which contains the signing key of a store: 32 bytes that only its user may
 * read.
 */
#pragma once

#include <kiln/status.h>

#include "entry/entry.h"

/* Reads a key file. It must be a regular file that belongs to this user and that nobody else may
 * read or write; it must not be a symbolic link. It must be exactly as long as a signing key, and
 * must not consist of zeros only.
 *
 * @path     absolute
 * @ret_key  [out] the caller must wipe it
 * Returns KILN_OK; KILN_E_INVALID: the path is not absolute, or there is no such file;
 * KILN_E_DENIED; KILN_E_IO; KILN_E_NO_MEMORY. @error describes the failure. */
kiln_status kilni_key_file_read(const char *path, kilni_signing_key *ret_key, kiln_error *error);
