/* SPDX-License-Identifier: Apache-2.0 */
#include "store/chain/tier_counts.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "key/hash.h"
#include "store/counter_file.h"

/* If a file counts more durations than this, all its counters of durations are halved. So later
 * look-ups have more weight than earlier ones. */
#define DURATIONS_MAX 1024u

_Static_assert(KILNI_TIER_COUNTERS <= KILNI_COUNTERS_MAX, "a file has room for all counters");

static void add(kilni_tier_counts *counts, unsigned counter, uint64_t value)
{
    atomic_fetch_add_explicit(&counts->values[counter], value, memory_order_relaxed);
}

/* Returns the class of a duration. Durations from one power of two of microseconds to the next are
 * divided into two classes. The first class begins at 2 us. */
static unsigned class_of(uint64_t duration_ns)
{
    const uint64_t us = duration_ns / 1000;
    const unsigned power = 63u - (unsigned)__builtin_clzll(us);
    const unsigned number = 2 * (power - 1) + (unsigned)(us >> (power - 1) & 1);
    return number < KILNI_TIER_DURATION_CLASSES ? number : KILNI_TIER_DURATION_CLASSES - 1;
}

/* Returns the shortest duration of a class, in microseconds. */
static uint64_t beginning_of(unsigned number)
{
    const uint64_t whole = UINT64_C(2) << (number / 2);
    return number % 2 == 0 ? whole : whole + whole / 2;
}

void kilni_tier_counts_note_fault(kilni_tier_counts *counts, kiln_status status)
{
    if (status == KILN_E_IO || status == KILN_E_DENIED) {
        add(counts, KILNI_TIER_FAULTS, 1);
    }
}

void kilni_tier_counts_note_get(kilni_tier_counts *counts, kiln_status status, uint64_t bytes,
                                uint64_t duration_ns)
{
    if (status == KILN_OK) {
        add(counts, KILNI_TIER_HITS, 1);
        add(counts, KILNI_TIER_READ_BYTES, bytes);
    } else if (status == KILN_MISS) {
        add(counts, KILNI_TIER_MISSES, 1);
    } else if (status == KILN_E_CORRUPT || status == KILN_E_UNAUTHENTICATED) {
        add(counts, KILNI_TIER_DAMAGED, 1);
    } else {
        kilni_tier_counts_note_fault(counts, status);
        return;
    }
    if (duration_ns >= KILNI_TIER_ANSWER_MIN_NS) {
        add(counts, KILNI_TIER_DURATIONS + class_of(duration_ns), 1);
    }
}

void kilni_tier_counts_note_put(kilni_tier_counts *counts, kiln_status status)
{
    if (status == KILN_OK) {
        add(counts, KILNI_TIER_PUTS, 1);
    }
    kilni_tier_counts_note_fault(counts, status);
}

void kilni_tier_counts_note_drop(kilni_tier_counts *counts)
{
    add(counts, KILNI_TIER_DROPPED, 1);
}

/* ---- the file ---- */

/* Sets @path to the path of a tier's file. Returns false if the path is too long. */
static bool path_of(const char *folder, const char *identity, char path[PATH_MAX])
{
    const kiln_digest digest = kilni_hash(identity, strlen(identity));
    char text[KILN_DIGEST_TEXT_SIZE];
    kiln_digest_format(&digest, text);
    return snprintf(path, PATH_MAX, "%s/kiln-tier-%.16s", folder, text) < PATH_MAX;
}

static uint64_t durations_in(const uint64_t values[KILNI_TIER_COUNTERS])
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < KILNI_TIER_DURATION_CLASSES; i++) {
        sum += values[KILNI_TIER_DURATIONS + i];
    }
    return sum;
}

static void add_all(void *user, kilni_counters *counters)
{
    const uint64_t *values = user;
    if (counters->count < KILNI_TIER_COUNTERS) {
        counters->count = KILNI_TIER_COUNTERS;
    }
    for (unsigned i = 0; i < KILNI_TIER_COUNTERS; i++) {
        counters->values[i] += values[i];
    }
    while (durations_in(counters->values) > DURATIONS_MAX) {
        for (unsigned i = 0; i < KILNI_TIER_DURATION_CLASSES; i++) {
            counters->values[KILNI_TIER_DURATIONS + i] /= 2;
        }
    }
}

void kilni_tier_counts_save(kilni_tier_counts *counts, const char *folder, const char *identity)
{
    uint64_t values[KILNI_TIER_COUNTERS];
    char path[PATH_MAX];
    bool is_any = false;
    for (unsigned i = 0; i < KILNI_TIER_COUNTERS; i++) {
        values[i] = atomic_exchange_explicit(&counts->values[i], 0, memory_order_relaxed);
        is_any |= values[i] > 0;
    }
    if (!is_any || (path_of(folder, identity, path) &&
                    kilni_counter_file_change(AT_FDCWD, path, add_all, values) == KILN_OK)) {
        return;
    }
    for (unsigned i = 0; i < KILNI_TIER_COUNTERS; i++) {
        atomic_fetch_add_explicit(&counts->values[i], values[i], memory_order_relaxed);
    }
}

void kilni_tier_counts_read(const char *folder, const char *identity,
                            uint64_t values[KILNI_TIER_COUNTERS])
{
    kilni_counters counters;
    char path[PATH_MAX];
    const bool is_read = path_of(folder, identity, path) &&
                         kilni_counter_file_read(AT_FDCWD, path, &counters) == KILN_OK;
    for (unsigned i = 0; i < KILNI_TIER_COUNTERS; i++) {
        values[i] = is_read ? counters.values[i] : 0;
    }
}

uint64_t kilni_tier_counts_latency(const uint64_t values[KILNI_TIER_COUNTERS])
{
    const uint64_t count = durations_in(values);
    uint64_t below = 0;
    for (unsigned i = 0; i < KILNI_TIER_DURATION_CLASSES; i++) {
        below += values[KILNI_TIER_DURATIONS + i];
        if (below > count / 2) {
            return (beginning_of(i) + beginning_of(i + 1)) * 500;
        }
    }
    return 0;
}
