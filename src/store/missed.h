/* SPDX-License-Identifier: Apache-2.0
 *
 * The last key that was asked for and not found, in a file of its own that is changed in place
 * under its lock. For people, who ask why; nothing is decided by it. The key is the payload of an
 * entry that has another: whoever puts the file, signed as it may be, in the place of the entry
 * that was missed has no entry of that key.
 */
#pragma once

#include <kiln/entry.h>

#include "entry/entry.h"

/* An entry of more bytes is not kept. */
#define KILNI_MISSED_MAX_BYTES 65536u

/* The entry that tells of a key; of a long one parts are kept as digests. Returns KILN_OK;
 * KILN_E_TOO_LARGE: more than is kept, even so; KILN_E_NO_MEMORY. */
kiln_status kilni_missed_entry_of(const kiln_key *key, kiln_entry **ret_miss);

/* The key that such an entry tells of. Returns KILN_OK; KILN_E_CORRUPT: it is none;
 * KILN_E_NO_MEMORY. */
kiln_status kilni_missed_key_of(const kiln_entry *miss, kiln_key **ret_key);

/* @directory  @path is relative to it
 * Returns KILN_OK; KILN_BUSY: another process is at it; KILN_EXISTS: the file holds something else,
 * which stays; KILN_MISS: no such directory;
 * KILN_E_DENIED; KILN_E_READONLY; KILN_E_FULL; KILN_E_IO; KILN_E_NO_MEMORY. */
kiln_status kilni_missed_write(int directory, const char *path, const kiln_entry *entry);

/* @mac_key  what has to have signed it; NULL: anyone
 * Returns KILN_OK; KILN_MISS: no such file; KILN_E_CORRUPT: damaged, or half written;
 * KILN_E_UNAUTHENTICATED; KILN_E_VERSION; KILN_E_DENIED; KILN_E_IO; KILN_E_NO_MEMORY. */
kiln_status kilni_missed_read(int directory, const char *path, const kilni_entry_mac_key *mac_key,
                              kiln_entry **ret_entry);
