/* SPDX-License-Identifier: Apache-2.0
 *
 * The last key that was not found, for `kiln why`. It is kept in a separate file. Writers lock this
 * file and change it in place. Kiln never bases a decision on the last miss. The file holds an
 * entry whose payload is the missed key. The entry's own key is a different one. So even if
 * somebody copies this file, signed or not, over the file of the missed entry, the copy is not a
 * valid entry of the missed key.
 */
#pragma once

#include <kiln/entry.h>

#include "entry/entry.h"

/* The maximum size of the entry that records a miss. A larger entry is not kept. */
#define KILNI_LAST_MISS_MAX_BYTES 65536u

/* Makes the entry that records a missed key. Long parts are stored as digests. Returns KILN_OK;
 * KILN_E_TOO_LARGE: with a signature, the entry could still exceed KILNI_LAST_MISS_MAX_BYTES;
 * KILN_E_NO_MEMORY. */
kiln_status kilni_last_miss_entry_of(const kiln_key *key, kiln_entry **ret_miss);

/* Sets @ret_key to the missed key that an entry records. Returns KILN_OK; KILN_E_CORRUPT: @miss
 * does not record a missed key; KILN_E_NO_MEMORY. */
kiln_status kilni_last_miss_key_of(const kiln_entry *miss, kiln_key **ret_key);

/* Writes an entry that records a missed key to a file.
 *
 * @directory  the directory in which a relative @path begins
 * Returns KILN_OK; KILN_BUSY: another reader or writer has locked the file; KILN_EXISTS: Kiln did
 * not write the file, so the function does not change it; KILN_MISS: no such directory;
 * KILN_E_DENIED; KILN_E_READONLY; KILN_E_FULL; KILN_E_IO; KILN_E_NO_MEMORY. */
kiln_status kilni_last_miss_write(int directory, const char *path, const kiln_entry *entry);

/* Reads an entry that records a missed key from a file.
 *
 * @signing_key  the key with which the entry must be signed; NULL: no signature is required
 * Returns KILN_OK; KILN_MISS: no such file; KILN_E_CORRUPT: the file is damaged or incomplete;
 * KILN_E_UNAUTHENTICATED; KILN_E_VERSION; KILN_E_DENIED; KILN_E_IO; KILN_E_NO_MEMORY. */
kiln_status kilni_last_miss_read(int directory, const char *path,
                                 const kilni_signing_key *signing_key, kiln_entry **ret_entry);
