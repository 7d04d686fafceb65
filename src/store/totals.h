/* SPDX-License-Identifier: Apache-2.0
 *
 * A statistics file: counters that many processes add to, and the size of a store as far as its
 * writers know it. docs/stores.md describes its bytes.
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
    bool is_new; /* the file did not exist, was empty or damaged: the sizes are not known */
} kilni_totals;

typedef struct kilni_totals_change {
    int64_t entries, bytes; /* to be added, or to be set if is_recount */
    bool is_recount;
    kiln_stats counters; /* to be added */
} kilni_totals_change;

/* Changes a statistics file under its lock, and creates it if necessary. A damaged file is started
 * anew; a file of another kind is left alone.
 *
 * @directory   @path is relative to it, or AT_FDCWD
 * @ret_totals  may be NULL; what the file holds now
 * Returns KILN_OK; KILN_MISS: no such directory; KILN_E_CORRUPT: a file of another kind;
 * KILN_E_DENIED; KILN_E_READONLY; KILN_E_FULL; KILN_BUSY: the lock was not free within 5 ms;
 * KILN_E_IO: also if the file system has no locks. */
kiln_status kilni_totals_change_file(int directory, const char *path,
                                     const kilni_totals_change *change, kilni_totals *ret_totals);

/* Reads a statistics file. If another process holds its lock, the content is accepted if its
 * checksum is right.
 *
 * Returns KILN_OK; KILN_MISS: no such file; KILN_E_CORRUPT: damaged, or a file of another kind;
 * else as above. */
kiln_status kilni_totals_read_file(int directory, const char *path, kilni_totals *ret_totals);

/* Applies a change to totals in memory. */
void kilni_totals_apply(kilni_totals *totals, const kilni_totals_change *change);

/* Adds @delta to @sum. */
void kilni_stats_add(kiln_stats *sum, const kiln_stats *delta);

bool kilni_stats_is_zero(const kiln_stats *stats);
