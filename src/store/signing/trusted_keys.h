/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of trusted keys, as <kiln/signature.h> describes them.
 */
#pragma once

#include <kiln/status.h>

#include "entry/signature.h"

/* Appends one key. Returns KILN_OK or KILN_E_NO_MEMORY. */
kiln_status kilni_trusted_keys_append(kilni_trusted_keys *keys, const kiln_public_key *key,
                                      bool is_revoked);

/* Appends the keys of a file. If the call fails, some of the keys may have been appended. Returns
 * the statuses of kiln_trusted_keys_each. */
kiln_status kilni_trusted_keys_read(const char *path, kilni_trusted_keys *keys, kiln_error *error);

/* Whether a key is revoked. */
bool kilni_trusted_keys_have_revoked(const kilni_trusted_keys *keys, const kiln_public_key *key);

/* Whether at least one key is trusted and not revoked. */
bool kilni_trusted_keys_are_any(const kilni_trusted_keys *keys);

void kilni_trusted_keys_done(kilni_trusted_keys *keys);
