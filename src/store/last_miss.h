/* SPDX-License-Identifier: Apache-2.0
 *
 * The last key that was not found, for `kiln why`. It is kept in a separate file, which is changed
 * in place under a lock of that file. Kiln never bases a decision on it. The missed key is the
 * payload of an entry that has a different key of its own. So even if somebody puts this file,
 * signed or not, in the place of the missed entry, it is not a valid entry of the missed key.
 */
#pragma once

#include <kiln/entry.h>

#include "entry/entry.h"

/* A larger entry is not kept. */
#define KILNI_LAST_MISS_MAX_BYTES 65536u

/* Makes the entry that records a missed key. Long parts are stored as digests. Returns KILN_OK;
 * KILN_E_TOO_LARGE: once signed, the entry could still be larger than KILNI_LAST_MISS_MAX_BYTES;
 * KILN_E_NO_MEMORY. */
kiln_status kilni_last_miss_entry_of(const kiln_key *key, kiln_entry **ret_miss);

/* Sets @ret_key to the missed key that an entry records. Returns KILN_OK; KILN_E_CORRUPT: @miss
 * does not record a missed key; KILN_E_NO_MEMORY. */
kiln_status kilni_last_miss_key_of(const kiln_entry *miss, kiln_key **ret_key);

/* Writes an entry that records a missed key to a file.
 *
 * @directory  @path is relative to it
 * Returns KILN_OK; KILN_BUSY: another reader or writer has locked the file; KILN_EXISTS: Kiln did
 * not write the file, which is not changed; KILN_MISS: no such directory; KILN_E_DENIED;
 * KILN_E_READONLY; KILN_E_FULL; KILN_E_IO; KILN_E_NO_MEMORY. */
kiln_status kilni_last_miss_write(int directory, const char *path, const kiln_entry *entry);

/* Reads an entry that records a missed key from a file.
 *
 * @signing_key  the key that must have signed it; NULL: no signature is required
 * Returns KILN_OK; KILN_MISS: no such file; KILN_E_CORRUPT: the file is damaged, or was written
 * only in part; KILN_E_UNAUTHENTICATED; KILN_E_VERSION; KILN_E_DENIED; KILN_E_IO; KILN_E_NO_MEMORY.
 */
kiln_status kilni_last_miss_read(int directory, const char *path,
                                 const kilni_signing_key *signing_key, kiln_entry **ret_entry);
