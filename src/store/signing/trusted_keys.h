/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads files of trusted keys. <kiln/signature.h> describes these files.
 */
#pragma once

#include <kiln/status.h>

#include "entry/signature.h"

/* Appends one key. Returns KILN_OK or KILN_E_NO_MEMORY. */
kiln_status kilni_trusted_keys_append(kilni_trusted_keys *keys, const kiln_public_key *key,
                                      bool is_revoked);

/* Appends the keys of a file. If the call fails, some of the keys might have been appended. Returns
 * the statuses of kiln_trusted_keys_each. */
kiln_status kilni_trusted_keys_read(const char *path, kilni_trusted_keys *keys, kiln_error *error);

/* Returns true if a key is revoked. */
bool kilni_trusted_keys_have_revoked(const kilni_trusted_keys *keys, const kiln_public_key *key);

/* Returns true if at least one key is trusted and not revoked. */
bool kilni_trusted_keys_are_any(const kilni_trusted_keys *keys);

void kilni_trusted_keys_done(kilni_trusted_keys *keys);
