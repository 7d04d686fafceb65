/* SPDX-License-Identifier: Apache-2.0
 *
 * A file of counters, which many processes change. docs/stores.md describes the file's bytes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <kiln/status.h>

/* Later versions may append counters. Counters that this version does not know are kept. */
#define KILNI_COUNTERS_MAX 255u

typedef struct kilni_counters {
    uint64_t values[KILNI_COUNTERS_MAX]; /* those from @count on are zero */
    uint32_t count;
    bool is_new; /* the file did not exist, was empty or was damaged, so all values were zero */
} kilni_counters;

/* Changes what a file contains. Must not reduce the count. */
typedef void kilni_counters_change_fn(void *user, kilni_counters *counters);

/* Changes a file under its lock, and creates the file if necessary. A damaged file is replaced. A
 * file that is not a file of counters, or is of a newer version, is not changed.
 *
 * @directory  @path is relative to it, or AT_FDCWD
 * @change     called once, while the lock is held, unless the call fails before
 * Returns KILN_OK; KILN_MISS: no such directory; KILN_E_CORRUPT: not a file of counters, or one of
 * a newer version; KILN_E_DENIED; KILN_E_READONLY; KILN_E_FULL; KILN_BUSY: the lock was not free
 * within 5 ms; KILN_E_IO: also if the file system has no locks. */
kiln_status kilni_counter_file_change(int directory, const char *path,
                                      kilni_counters_change_fn *change, void *user);

/* Reads a file of counters. If another process holds the file's lock, the file is read without it,
 * and the content is accepted if its checksum is right.
 *
 * Returns KILN_OK; KILN_MISS: no such file; KILN_E_CORRUPT: the file is damaged, or is not a
 * file of counters; else as kilni_counter_file_change. */
kiln_status kilni_counter_file_read(int directory, const char *path, kilni_counters *ret_counters);
