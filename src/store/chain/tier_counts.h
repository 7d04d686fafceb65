/* SPDX-License-Identifier: Apache-2.0
 *
 * What the look-ups and puts in one tier of a chain did. Each process counts in memory, and adds
 * its counts to a file that all processes share.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include <kiln/status.h>

/* The counters, in the order in which the file has them. The last ones are numbers of look-ups by
 * their duration. The classes begin at 2, 3, 4, 6, 8, 12, 16, … us. */
enum {
    KILNI_TIER_HITS,
    KILNI_TIER_MISSES,
    KILNI_TIER_DAMAGED, /* entries that did not verify */
    KILNI_TIER_FAULTS,  /* calls that failed because the tier could not be used */
    KILNI_TIER_PUTS,
    KILNI_TIER_READ_BYTES, /* of the entries of the hits, as the tier has them */
    KILNI_TIER_DURATIONS,
    KILNI_TIER_DURATION_CLASSES = 48,
    KILNI_TIER_COUNTERS = KILNI_TIER_DURATIONS + KILNI_TIER_DURATION_CLASSES
};

/* What this process has counted since it last saved the counts. Zeroed, it is empty. These are only
 * counters, so every access is relaxed. A forked child begins with what its parent had not yet
 * saved, so that is saved twice. */
typedef struct kilni_tier_counts {
    _Atomic uint64_t values[KILNI_TIER_COUNTERS];
} kilni_tier_counts;

/* Counts a look-up.
 *
 * @bytes        of the entry that was found
 * @duration_ns  0: not measured. Counts only if the tier answered, and from 2 us on: an answer that
 *               took less time did not come from a server */
void kilni_tier_counts_note_get(kilni_tier_counts *counts, kiln_status status, uint64_t bytes,
                                uint64_t duration_ns);

/* Counts a put. */
void kilni_tier_counts_note_put(kilni_tier_counts *counts, kiln_status status);

/* Counts a call of any kind, if the tier could not be used. */
void kilni_tier_counts_note_fault(kilni_tier_counts *counts, kiln_status status);

/* Adds the counts to a tier's file, and begins to count anew. If that fails, the counts are kept.
 *
 * @folder    an absolute path
 * @identity  names the tier */
void kilni_tier_counts_save(kilni_tier_counts *counts, const char *folder, const char *identity);

/* Reads a tier's file. If there is none, all values are 0. */
void kilni_tier_counts_read(const char *folder, const char *identity,
                            uint64_t values[KILNI_TIER_COUNTERS]);

/* Returns the median duration of the look-ups that @values counts, in nanoseconds, to within a
 * quarter; 0: none was measured. The file has about the last thousand look-ups. */
uint64_t kilni_tier_counts_latency(const uint64_t values[KILNI_TIER_COUNTERS]);
