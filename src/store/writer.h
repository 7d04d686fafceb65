/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes entries to a store on a thread of its own, so that no one who builds waits for a disk,
 * and keeps the counters of this process. The process may end at any moment: what was not written
 * is lost, nothing is torn.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <kiln/stats.h>
#include <kiln/store.h>

/* Any thread. In a forked child: put drops, drain returns at once, free frees. */
typedef struct kilni_writer kilni_writer;

/* Registers what writers do at forks, as the first one does: for who makes that one with a lock
 * held that forks take. */
void kilni_writer_watch_forks(void);

/* @store             borrowed until kilni_writer_free; NULL: only the statistics file is fed
 * @max_queued_bytes  entries waiting or being written; one entry is taken whatever its size
 * Returns KILN_OK; KILN_E_NO_MEMORY. Starts no thread. */
kiln_status kilni_writer_new(kiln_store *store, uint64_t max_queued_bytes,
                             kilni_writer **ret_writer);

/* Names a file to which the counters are added too, as kiln_stats_add_to_file does. Before the
 * first put or count. @path is copied; NULL: none. Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_writer_set_stats_file(kilni_writer *writer, const char *path);

/* Lets who puts an entry write it too, as long as the process has no other thread: with the first
 * one, whatever it does, each getc and malloc of the process begins to lock, which costs those who
 * read by them more than most entries take to write. Before the first put. */
void kilni_writer_spare_thread(kilni_writer *writer);

/* Queues an entry, of which it takes one reference, and starts the thread where there is none, or
 * writes it (kilni_writer_spare_thread). One allocation, no copy. The lease that the entry's
 * builder holds moves along, and is given back when the entry is written.
 *
 * @lease  may be NULL or point to NULL; set to NULL in any case
 * Returns KILN_OK; KILN_E_FULL or KILN_E_NO_MEMORY: dropped, counted, the lease given back. */
kiln_status kilni_writer_put(kilni_writer *writer, const kiln_entry *entry, kiln_lease **lease);

/* Queues what kilni_store_find has left to be done. Where the queue is full, or memory runs out, it
 * is not done, which does no harm and is not counted. Where puts are written by who asks for them
 * (kilni_writer_spare_thread), it waits for the next one, or for a drain.
 *
 * @fill   as kilni_store_find gave it, with @entry for @key; 0: nothing is to be done */
void kilni_writer_fill(kilni_writer *writer, size_t fill, const kiln_key *key,
                       const kiln_entry *entry);

/* Adds to the counters. They reach the totals soon after where the thread runs, and otherwise with
 * the next drain. What the store and this writer count themselves is not for the caller to add:
 * puts, dropped and evicted entries, and damaged ones that kiln_store_get answered. */
void kilni_writer_count(kilni_writer *writer, const kiln_stats *delta);

/* Waits until all that was queued is written and counted. Returns KILN_OK; KILN_TIMEOUT. */
kiln_status kilni_writer_drain(kilni_writer *writer, uint64_t timeout_ns);

/* Drains, drops and counts what is left after that time, ends the thread and sets the pointer to
 * NULL; takes NULL and a pointer to NULL. Blocks longer only where the store does: an entry that
 * is being written is finished. Not for the writer's own thread. */
void kilni_writer_free(kilni_writer **writer, uint64_t timeout_ns);

/* The same, and then closes the store. The one way to end a writer where its own thread may be
 * the one to do so, in a log callback of the store: there it returns at once, and the thread writes
 * what is queued, ends and closes the store later, none of which the caller may use any more. */
void kilni_writer_close(kilni_writer **writer, uint64_t timeout_ns);
