/* SPDX-License-Identifier: Apache-2.0
 *
 * A statistics file: counters that many processes add to, and the size of a store as its writers
 * know it. docs/stores.md gives its bytes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <kiln/stats.h>

/* kiln_stats as an array. */
enum { KILNI_STATS_COUNT = sizeof(kiln_stats) / sizeof(uint64_t) };

typedef struct kilni_totals {
    uint64_t entries, bytes;
    kiln_stats counters;
    bool is_new; /* the file was not there before, is empty, or had to be begun anew: sizes are
                    not known */
} kilni_totals;

typedef struct kilni_totals_change {
    int64_t entries, bytes; /* to be added; or, with is_recount, to be set */
    bool is_recount;
    kiln_stats counters; /* to be added */
} kilni_totals_change;

/* Changes a statistics file under its lock; makes it where there is none. One that was damaged is
 * begun anew; one of another kind is left alone.
 *
 * @directory   @path is relative to it, or AT_FDCWD
 * @ret_totals  may be NULL; what the file holds now
 * Returns KILN_OK; KILN_MISS: no such directory; KILN_E_CORRUPT: another kind of file;
 * KILN_E_DENIED; KILN_E_READONLY; KILN_E_FULL; KILN_BUSY: another holds the lock, after 5 ms;
 * KILN_E_IO: also where there are no locks. */
kiln_status kilni_totals_change_file(int directory, const char *path,
                                     const kilni_totals_change *change, kilni_totals *ret_totals);

/* Where another holds the lock, what is there is believed if its checksum is right.
 *
 * Returns KILN_OK; KILN_MISS: no such file; KILN_E_CORRUPT: damaged, or another kind of file; else
 * as above. */
kiln_status kilni_totals_read_file(int directory, const char *path, kilni_totals *ret_totals);

/* Makes a change to totals that are in memory. */
void kilni_totals_apply(kilni_totals *totals, const kilni_totals_change *change);

/* Adds @delta to @sum. */
void kilni_stats_add(kiln_stats *sum, const kiln_stats *delta);

bool kilni_stats_is_zero(const kiln_stats *stats);
