/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts the results of look-ups and puts in one tier of a chain. Each process counts in memory,
 * and later adds its counts to a file that all processes share.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include <kiln/status.h>

/* The counters, in the order in which the file contains them. Each counter from
 * KILNI_TIER_DURATIONS on is the number of look-ups in a class of durations. The classes begin at
 * 2, 3, 4, 6, 8, 12, 16, … us. */
enum {
    KILNI_TIER_HITS,
    KILNI_TIER_MISSES,
    KILNI_TIER_DAMAGED, /* entries that failed verification */
    KILNI_TIER_FAULTS,  /* calls that failed because the tier could not be used */
    KILNI_TIER_PUTS,
    KILNI_TIER_READ_BYTES, /* the size of the found entries, as the tier stores them */
    KILNI_TIER_DURATIONS,
    KILNI_TIER_DURATION_CLASSES = 48,
    KILNI_TIER_DROPPED =
        KILNI_TIER_DURATIONS + KILNI_TIER_DURATION_CLASSES, /* entries that were not put */
    KILNI_TIER_COUNTERS
};

/* What this process has counted since it last saved the counts. A zeroed struct is empty. Nothing
 * else depends on these counters, so every access is relaxed. A forked child inherits the counts
 * that its parent has not yet saved, so these counts are saved twice. */
typedef struct kilni_tier_counts {
    _Atomic uint64_t values[KILNI_TIER_COUNTERS];
} kilni_tier_counts;

/* A faster answer does not come from a server. */
#define KILNI_TIER_ANSWER_MIN_NS 2000u

/* Counts a look-up.
 *
 * @bytes        the size of the entry that was found
 * @duration_ns  how long the look-up took; 0: not measured. It is counted only if the tier answered
 *               and the answer took at least KILNI_TIER_ANSWER_MIN_NS */
void kilni_tier_counts_note_get(kilni_tier_counts *counts, kiln_status status, uint64_t bytes,
                                uint64_t duration_ns);

/* Counts a put. */
void kilni_tier_counts_note_put(kilni_tier_counts *counts, kiln_status status);

/* Counts an entry that was not put because too many others waited, or the time was over. */
void kilni_tier_counts_note_drop(kilni_tier_counts *counts);

/* Counts a failed call of any kind if it failed because the tier could not be used. */
void kilni_tier_counts_note_fault(kilni_tier_counts *counts, kiln_status status);

/* Adds the counts to a tier's file, and sets them to zero. If that fails, they are kept.
 *
 * @folder    an absolute path
 * @identity  a text that identifies the tier */
void kilni_tier_counts_save(kilni_tier_counts *counts, const char *folder, const char *identity);

/* Reads a tier's file. If the file does not exist, all values are 0. */
void kilni_tier_counts_read(const char *folder, const char *identity,
                            uint64_t values[KILNI_TIER_COUNTERS]);

/* Returns the median duration of the look-ups that @values counts, in nanoseconds, with an error of
 * at most a quarter; 0: no look-up was measured. The counters in the file cover about the last
 * thousand look-ups. */
uint64_t kilni_tier_counts_latency(const uint64_t values[KILNI_TIER_COUNTERS]);
