/* SPDX-License-Identifier: Apache-2.0
 *
 * The last key that was asked for and not found: an entry without payload, in a file of its own
 * that is changed in place under its lock. For people, who ask why; nothing is decided by it.
 */
#pragma once

#include <kiln/entry.h>

/* An entry of more bytes is not kept. */
#define KILNI_MISSED_MAX_BYTES 65536u

/* @directory  @path is relative to it
 * Returns KILN_OK; KILN_BUSY: another process is at it; KILN_MISS: no such directory;
 * KILN_E_DENIED; KILN_E_READONLY; KILN_E_FULL; KILN_E_IO; KILN_E_NO_MEMORY. */
kiln_status kilni_missed_write(int directory, const char *path, const kiln_entry *entry);

/* Returns KILN_OK; KILN_MISS: no such file; KILN_E_CORRUPT: damaged, or half written;
 * KILN_E_VERSION; KILN_E_DENIED; KILN_E_IO; KILN_E_NO_MEMORY. */
kiln_status kilni_missed_read(int directory, const char *path, kiln_entry **ret_entry);
