/* SPDX-License-Identifier: Apache-2.0
 *
 * A file of counters that many processes change. docs/stores.md describes the file's bytes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <kiln/status.h>

/* Later versions of Kiln can append counters. This version keeps counters that it does not know. */
#define KILNI_COUNTERS_MAX 255u

typedef struct kilni_counters {
    uint64_t values[KILNI_COUNTERS_MAX]; /* those from @count on are zero */
    uint32_t count;
    bool is_new; /* the file did not exist, was empty or was damaged, so all values were zero */
} kilni_counters;

/* Changes the counters that a file contains. Must not reduce their number. */
typedef void kilni_counters_change_fn(void *user, kilni_counters *counters);

/* Changes a file under its lock, and creates the file if necessary. A damaged file is replaced. If
 * the file has a newer version, or is not a file of counters, the function does not change it.
 *
 * @directory  the directory in which a relative @path begins; can be AT_FDCWD
 * @change     called once while the lock is held; not called if an earlier step fails
 * Returns KILN_OK; KILN_MISS: no such directory; KILN_E_CORRUPT: the file has a newer version, or
 * is not a file of counters; KILN_E_DENIED; KILN_E_READONLY; KILN_E_FULL; KILN_BUSY: the lock was
 * not free within 5 ms; KILN_E_IO, which also means that the file system has no locks. */
kiln_status kilni_counter_file_change(int directory, const char *path,
                                      kilni_counters_change_fn *change, void *user);

/* Reads a file of counters. If another process holds the file's lock, the function reads the file
 * without the lock. It then accepts the content if the checksum is right.
 *
 * Returns KILN_OK; KILN_MISS: no such file; KILN_E_CORRUPT: the file is damaged, or is not a
 * file of counters; else as kilni_counter_file_change. */
kiln_status kilni_counter_file_read(int directory, const char *path, kilni_counters *ret_counters);
