/* SPDX-License-Identifier: Apache-2.0
 *
 * A secret key is kept in a file of one line. The line consists of "kiln-secret-key NAME:" and 32
 * random bytes in Base64.
 */
#pragma once

#include <kiln/status.h>

#include "entry/signature.h"

/* Reads a secret key from its file.
 *
 * @path     absolute
 * @ret_key  [out] the caller must wipe it
 * Returns KILN_OK; KILN_E_INVALID: the path is not absolute, or there is no such file;
 * KILN_E_DENIED; KILN_E_IO; KILN_E_NO_MEMORY. @error describes the failure. */
kiln_status kilni_secret_key_read(const char *path, kilni_secret_key *ret_key, kiln_error *error);
