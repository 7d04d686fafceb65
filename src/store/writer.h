/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes entries to a store on a separate thread, so that threads that build do not wait for a
 * disk. Also keeps the counters of this process. The process may end at any moment: entries that
 * are not written yet are then lost, but no entry is written in part.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <kiln/stats.h>
#include <kiln/store.h>

/* May be used by any thread. In a forked child, a put drops its entry, a drain immediately returns
 * KILN_OK, and kilni_writer_free frees the memory but writes nothing. */
typedef struct kilni_writer kilni_writer;

/* Registers the fork handlers of writers. Otherwise kilni_writer_new registers them for the first
 * writer. A caller needs this function if it creates a writer while it holds a lock that its own
 * fork handlers take. */
void kilni_writer_watch_forks(void);

/* Creates a writer, without starting its thread.
 *
 * @store             borrowed until kilni_writer_free; NULL: only the statistics file is written
 * @max_queued_bytes  the largest total size of the entries that wait or are being written. If there
 *                    are no such entries, an entry of any size is accepted
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_writer_new(kiln_store *store, uint64_t max_queued_bytes,
                             kilni_writer **ret_writer);

/* Names a file to which the counters are also added, as by kiln_stats_add_to_file. Must be called
 * before the first put or count. @path is copied; NULL: none. Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_writer_set_stats_file(kilni_writer *writer, const char *path);

/* While the process has only one thread, makes that thread write the entries that it puts, and
 * starts no thread for them. Once a second thread has been started, each getc and malloc of the
 * process takes a lock. A program that reads with getc would lose more time to these locks than it
 * takes to write most entries. Must be called before the first put. */
void kilni_writer_spare_thread(kilni_writer *writer);

/* Queues an entry, and starts the thread if it is not running. After kilni_writer_spare_thread, may
 * instead write the entry before it returns. Retains the entry; allocates once and copies nothing.
 * The lease of the entry's builder is queued with the entry, and released after the entry was
 * written or dropped.
 *
 * @lease  may be NULL or point to NULL; set to NULL in any case
 * Returns KILN_OK; KILN_E_FULL or KILN_E_NO_MEMORY: the entry is dropped and counted, and the lease
 * released. */
kiln_status kilni_writer_put(kilni_writer *writer, const kiln_entry *entry, kiln_lease **lease);

/* Queues a call of kilni_store_fill. If the queue is full or memory runs out, the call is not made,
 * which does no harm and is not counted. If puts do not queue their entries
 * (kilni_writer_spare_thread), the call is made by the next put or drain.
 *
 * @fill   the value that kilni_store_find returned with @entry for @key; 0: there is nothing to do
 */
void kilni_writer_fill(kilni_writer *writer, size_t fill, const kiln_key *key,
                       const kiln_entry *entry);

/* Adds @delta to the counters. The counters reach the totals soon if the thread is running,
 * otherwise with the next drain. The caller must not add what the store and this writer count
 * themselves: puts, evicted entries, entries that this writer dropped, and damaged entries that
 * kiln_store_get reported. */
void kilni_writer_count(kilni_writer *writer, const kiln_stats *delta);

/* Returns the mean duration of the builds that were counted; 0: none was. */
uint64_t kilni_writer_mean_build_ns(const kilni_writer *writer);

/* Waits until everything that was queued has been written and counted. If the writer has no thread,
 * the caller does this work, and a write that has begun may exceed the timeout. Returns KILN_OK;
 * KILN_TIMEOUT. */
kiln_status kilni_writer_drain(kilni_writer *writer, uint64_t timeout_ns);

/* Drains the writer. Drops and counts the entries that are still queued after the timeout. Then
 * ends the thread, frees the writer and sets the pointer to NULL. Accepts NULL and a pointer to
 * NULL. Waits until the entry that is being written is complete, so the call can take longer than
 * the timeout if the store blocks. Must not be called by the writer's own thread. */
void kilni_writer_free(kilni_writer **writer, uint64_t timeout_ns);

/* Does the same as kilni_writer_free, and then closes the store. Unlike kilni_writer_free, this
 * function may be called on the writer's own thread, from a log callback of the store. If called
 * there, it returns immediately. Later, until the timeout has passed, the thread writes what is
 * queued. Then it closes the store and ends. The caller must not use the writer or the store
 * afterwards. */
void kilni_writer_close(kilni_writer **writer, uint64_t timeout_ns);
