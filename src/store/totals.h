/* SPDX-License-Identifier: Apache-2.0
 *
 * A statistics file: counters to which many processes add, and the size of the store as its writers
 * have counted it. docs/stores.md describes the file's bytes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <kiln/stats.h>

/* The number of counters in kiln_stats, seen as an array. */
enum { KILNI_STATS_COUNT = sizeof(kiln_stats) / sizeof(uint64_t) };

typedef struct kilni_totals {
    uint64_t entries, bytes;
    kiln_stats counters;
    bool is_new; /* the file did not exist, was empty or was damaged, so the sizes are not known */
} kilni_totals;

typedef struct kilni_totals_change {
    int64_t entries, bytes; /* to be added, or to be set if is_recount */
    bool is_recount;
    kiln_stats counters; /* to be added */
} kilni_totals_change;

/* Changes a statistics file under its lock, and creates the file if necessary. A damaged file is
 * replaced. A file that is not a statistics file, or is of a newer version, is not changed.
 *
 * @directory   @path is relative to it, or AT_FDCWD
 * @ret_totals  what the file contains after the change; may be NULL
 * Returns KILN_OK; KILN_MISS: no such directory; KILN_E_CORRUPT: not a statistics file, or one of a
 * newer version; KILN_E_DENIED; KILN_E_READONLY; KILN_E_FULL; KILN_BUSY: the lock was not free
 * within 5 ms; KILN_E_IO: also if the file system has no locks. */
kiln_status kilni_totals_change_file(int directory, const char *path,
                                     const kilni_totals_change *change, kilni_totals *ret_totals);

/* Reads a statistics file. If another process holds the file's lock, the file is read without it,
 * and the content is accepted if its checksum is right.
 *
 * Returns KILN_OK; KILN_MISS: no such file; KILN_E_CORRUPT: the file is damaged, or is not a
 * statistics file; else as kilni_totals_change_file. */
kiln_status kilni_totals_read_file(int directory, const char *path, kilni_totals *ret_totals);

/* Applies a change to totals in memory. */
void kilni_totals_apply(kilni_totals *totals, const kilni_totals_change *change);

/* Adds @delta to @sum. */
void kilni_stats_add(kiln_stats *sum, const kiln_stats *delta);

bool kilni_stats_is_zero(const kiln_stats *stats);
