/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes entries to a store on a thread of its own, so that no builder waits for a disk, and keeps
 * the counters of this process. The process may end at any moment: entries that are not written yet
 * are lost, but none is written in part.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <kiln/stats.h>
#include <kiln/store.h>

/* May be used by any thread. In a forked child, put drops, drain returns at once, and free frees.
 */
typedef struct kilni_writer kilni_writer;

/* Registers the fork handlers of writers, as the first writer does otherwise. For a caller that
 * creates that one while it holds a lock that fork handlers take. */
void kilni_writer_watch_forks(void);

/* Creates a writer, without starting its thread.
 *
 * @store             borrowed until kilni_writer_free; NULL: only the statistics file is written
 * @max_queued_bytes  size of the entries that wait or are being written; a single entry is accepted
 *                    whatever its size
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_writer_new(kiln_store *store, uint64_t max_queued_bytes,
                             kilni_writer **ret_writer);

/* Names a file to which the counters are also added, as by kiln_stats_add_to_file. Must be called
 * before the first put or count. @path is copied; NULL: none. Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_writer_set_stats_file(kilni_writer *writer, const char *path);

/* Lets the thread that puts an entry also write it while the process has no other thread. A second
 * thread makes each getc and malloc of the process take a lock, from its start on. A program that
 * reads by getc would lose more time by that than writing most entries takes. Must be called before
 * the first put. */
void kilni_writer_spare_thread(kilni_writer *writer);

/* Queues an entry, of which it takes one reference, and starts the thread if there is none; or
 * writes the entry (kilni_writer_spare_thread). One allocation, no copy. The lease of the entry's
 * builder goes with it, and is released when the entry is written.
 *
 * @lease  may be NULL or point to NULL; set to NULL in any case
 * Returns KILN_OK; KILN_E_FULL or KILN_E_NO_MEMORY: the entry is dropped and counted, and the lease
 * released. */
kiln_status kilni_writer_put(kilni_writer *writer, const kiln_entry *entry, kiln_lease **lease);

/* Queues what kilni_store_find has left to write. If the queue is full or memory runs out, it is
 * not written, which does no harm and is not counted. If the caller of a put writes the entry
 * (kilni_writer_spare_thread), a fill waits for the next put or drain.
 *
 * @fill   from kilni_store_find, with @entry for @key; 0: nothing to do */
void kilni_writer_fill(kilni_writer *writer, size_t fill, const kiln_key *key,
                       const kiln_entry *entry);

/* Adds to the counters. They reach the totals soon if the thread runs, otherwise with the next
 * drain. The caller must not add what the store and this writer count themselves: puts, dropped and
 * evicted entries, and damaged ones that kiln_store_get reported. */
void kilni_writer_count(kilni_writer *writer, const kiln_stats *delta);

/* Waits until all that was queued is written and counted. Returns KILN_OK; KILN_TIMEOUT. */
kiln_status kilni_writer_drain(kilni_writer *writer, uint64_t timeout_ns);

/* Drains; after the timeout, drops and counts what is left. Then ends the thread and sets the
 * pointer to NULL. Accepts NULL and a pointer to NULL. Blocks longer only if the store does: the
 * entry that is being written is completed. Must not be called by the writer's own thread. */
void kilni_writer_free(kilni_writer **writer, uint64_t timeout_ns);

/* The same, and then closes the store. Only this call may be made by the writer's own thread, from
 * a log callback of the store. In that case it returns at once, and the thread later writes what is
 * queued, ends and closes the store. The caller must use none of these afterwards. */
void kilni_writer_close(kilni_writer **writer, uint64_t timeout_ns);
