/* SPDX-License-Identifier: Apache-2.0
 *
 * The file that holds the key by which entries are signed: 32 bytes that only its user may read.
 */
#pragma once

#include <kiln/status.h>

#include "entry/entry.h"

/* Reads a key file and trusts it: a regular file of this user's, no symbolic link, that nobody else
 * may read or write, of exactly the size of a key, and not of zeros only.
 *
 * @path     absolute
 * @ret_key  [out] to be wiped by the caller
 * Returns KILN_OK; KILN_E_INVALID: not an absolute path, or there is no such file; KILN_E_DENIED;
 * KILN_E_IO; KILN_E_NO_MEMORY. All are described in @error. */
kiln_status kilni_key_file_read(const char *path, kilni_entry_mac_key *ret_key, kiln_error *error);
