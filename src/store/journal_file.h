/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of a journal: the present one, and the one before it. Many processes append to the
 * present file without a lock. On a local file system, the kernel appends the bytes of one write in
 * one piece. If a write is cut short, or the file system does not append in one piece, the reader
 * finds bytes that are not a record, skips them, and counts them.
 */
#pragma once

#include <stdint.h>

#include <kiln/journal.h>

/* Once the present file has this size, it becomes the file before. */
#define KILNI_JOURNAL_FILE_BYTES (UINT64_C(16) << 20)

/* Appends whole records with a single write. Creates the file (mode 0600) if it does not exist.
 * Does not use a file that is a symbolic link, that belongs to a different user, or that other
 * users can read or write.
 *
 * @directory  the directory in which a relative @path begins; can be AT_FDCWD
 * @before     the path of the file before; NULL: the file at @path has no maximum size
 * Returns KILN_OK; KILN_MISS: no such directory; KILN_E_DENIED; KILN_E_READONLY; KILN_E_FULL: some
 * of the bytes may have been written; KILN_E_IO; KILN_E_NO_MEMORY. */
kiln_status kilni_journal_append(int directory, const char *path, const char *before,
                                 const void *records, size_t size);

/* Writes the record of an event that this process adds now. The statuses are KILN_OK,
 * KILN_E_INVALID and KILN_E_UNSUPPORTED, as for kiln_store_add_journal_event.
 *
 * @bytes  [out] of KILNI_JOURNAL_RECORD_MAX bytes */
kiln_status kilni_journal_encode_given(const kiln_journal_event *event, unsigned char *bytes,
                                       size_t *ret_size);

/* Reads the file before and the present file. Everything else is as for
 * kiln_store_each_journal_event.
 *
 * @before  NULL: there is none */
kiln_status kilni_journal_read(int directory, const char *path, const char *before,
                               kiln_journal_fn visit, void *user, kiln_journal_report *ret_report);
