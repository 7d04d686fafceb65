/* SPDX-License-Identifier: Apache-2.0
 *
 * A statistics file contains counters to which many processes add. It also contains the size of the
 * store as its writers have counted it. docs/stores.md describes the file's bytes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <kiln/stats.h>

/* The number of counters in kiln_stats, which code here treats as an array. */
enum { KILNI_STATS_COUNT = sizeof(kiln_stats) / sizeof(uint64_t) };

typedef struct kilni_totals {
    uint64_t entries, bytes;
    kiln_stats counters;
    bool is_new; /* the file did not exist, was empty or was damaged, so the sizes are not known */
} kilni_totals;

typedef struct kilni_totals_change {
    int64_t entries, bytes; /* added to the sizes; if is_recount, they replace them */
    bool is_recount;
    kiln_stats counters; /* added to the counters */
} kilni_totals_change;

/* Changes a statistics file under its lock, and creates the file if necessary. A damaged file is
 * replaced. If the file has a newer version, or is not a statistics file, the function does not
 * change it.
 *
 * @directory   the directory in which a relative @path begins; can be AT_FDCWD
 * @ret_totals  [out] what the file contains after the change; can be NULL
 * Returns KILN_OK; KILN_MISS: no such directory; KILN_E_CORRUPT: the file has a newer version, or
 * is not a statistics file; KILN_E_DENIED; KILN_E_READONLY; KILN_E_FULL; KILN_BUSY: the lock was
 * not free within 5 ms; KILN_E_IO, which also means that the file system has no locks. */
kiln_status kilni_totals_change_file(int directory, const char *path,
                                     const kilni_totals_change *change, kilni_totals *ret_totals);

/* Reads a statistics file. If another process holds the file's lock, the function reads the file
 * without the lock. It then accepts the content if the checksum is right.
 *
 * Returns KILN_OK; KILN_MISS: no such file; KILN_E_CORRUPT: the file is damaged, or is not a
 * statistics file; else as kilni_totals_change_file. */
kiln_status kilni_totals_read_file(int directory, const char *path, kilni_totals *ret_totals);

/* Applies a change to totals that are in memory. */
void kilni_totals_apply(kilni_totals *totals, const kilni_totals_change *change);

/* Adds @delta to @sum. */
void kilni_stats_add(kiln_stats *sum, const kiln_stats *delta);

bool kilni_stats_is_zero(const kiln_stats *stats);
