/* SPDX-License-Identifier: Apache-2.0
 *
 * The last key that was not found, for people who ask why. It has a file of its own, which is
 * changed in place under its lock. Kiln decides nothing by it. The missed key is the payload of an
 * entry whose own key is a different one. So nobody who puts this file, even signed, in the place
 * of the missed entry gets a valid entry of the missed key.
 */
#pragma once

#include <kiln/entry.h>

#include "entry/entry.h"

/* A larger entry is not kept. */
#define KILNI_MISSED_MAX_BYTES 65536u

/* Makes the entry that records a missed key. Long parts are kept as digests. Returns KILN_OK;
 * KILN_E_TOO_LARGE: it is larger than KILNI_MISSED_MAX_BYTES even so; KILN_E_NO_MEMORY. */
kiln_status kilni_missed_entry_of(const kiln_key *key, kiln_entry **ret_miss);

/* Returns the key that such an entry records. Returns KILN_OK; KILN_E_CORRUPT: it is no such entry;
 * KILN_E_NO_MEMORY. */
kiln_status kilni_missed_key_of(const kiln_entry *miss, kiln_key **ret_key);

/* Writes such an entry to a file.
 *
 * @directory  @path is relative to it
 * Returns KILN_OK; KILN_BUSY: another process is reading or writing it; KILN_EXISTS: the file holds
 * something else, and stays; KILN_MISS: no such directory; KILN_E_DENIED; KILN_E_READONLY;
 * KILN_E_FULL; KILN_E_IO; KILN_E_NO_MEMORY. */
kiln_status kilni_missed_write(int directory, const char *path, const kiln_entry *entry);

/* Reads such an entry from a file.
 *
 * @signing_key  the key that must have signed it; NULL: no signature is required
 * Returns KILN_OK; KILN_MISS: no such file; KILN_E_CORRUPT: damaged, or partly written;
 * KILN_E_UNAUTHENTICATED; KILN_E_VERSION; KILN_E_DENIED; KILN_E_IO; KILN_E_NO_MEMORY. */
kiln_status kilni_missed_read(int directory, const char *path, const kilni_signing_key *signing_key,
                              kiln_entry **ret_entry);
