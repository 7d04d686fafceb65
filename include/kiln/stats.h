/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters of hits, misses, builds and the like, which add up over threads, processes and time.
 */
#ifndef KILN_STATS_H
#define KILN_STATS_H

#include <stdint.h>

#include <kiln/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, meaning): the list of the counters, in the order in which files store them. */
#define KILN_STATS_LIST(X)                                                                         \
    X(hits_memory, "builds answered from memory")                                                  \
    X(hits_store, "builds answered from a store")                                                  \
    X(misses, "cacheable builds that no store had")                                                \
    X(builds, "builds done by the device runtime")                                                 \
    X(waits, "times one build waited for another's")                                               \
    X(passed_through, "builds that are not cacheable")                                             \
    X(failures, "builds that the device runtime refused")                                          \
    X(puts, "entries written")                                                                     \
    X(dropped, "entries not written: queue full, store refused, or changed meanwhile")             \
    X(corrupt, "stored entries found damaged, not signed, or refused by the device")               \
    X(evicted, "entries removed to make room")                                                     \
    X(build_ns, "time spent in builds")                                                            \
    X(saved_ns, "time that hits saved: what their builds had cost, less the loading")

typedef struct kiln_stats {
#define KILN_STATS_FIELD(name, meaning) uint64_t name;
    KILN_STATS_LIST(KILN_STATS_FIELD)
#undef KILN_STATS_FIELD
} kiln_stats;

/* Adds to the counters in a file, which is created (mode 0600) if it doesn't exist. Several
 * processes may do so concurrently. A file that does not contain counters is not changed.
 *
 * @path   a regular file that belongs to this user and that no other user can write to
 * @delta  what to add
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_CORRUPT: the file does not contain counters;
 * KILN_E_DENIED; KILN_E_IO: nothing was added, perhaps because another process held the file's
 * lock. Threads: any. Blocks: on that lock, for at most 5 ms; processes hold it for microseconds.
 */
KILN_API kiln_status kiln_stats_add_to_file(const char *path, const kiln_stats *delta);

/* Reads the counters in a file.
 *
 * @path       as for kiln_stats_add_to_file
 * @ret_stats  [out]
 * Returns KILN_OK; KILN_MISS: there is no such file; otherwise what kiln_stats_add_to_file returns.
 * Threads: any. Blocks: as that call does. */
KILN_API kiln_status kiln_stats_read_file(const char *path, kiln_stats *ret_stats);

#ifdef __cplusplus
}
#endif

#endif
