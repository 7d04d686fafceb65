/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes entries to a store on separate threads, so that threads that build do not wait for a disk
 * or a server. Each tier of a chain has its own queue and its own thread, so a tier that is slow
 * delays no other tier. Also keeps the counters of this process. The process can end at any moment.
 * Entries that are not written yet are then lost, but no entry is written in part.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <kiln/journal.h>
#include <kiln/stats.h>
#include <kiln/store.h>

/* Any thread can use a writer. In a forked child, a put drops its entry, a drain immediately
 * returns KILN_OK, and kilni_writer_free frees the memory but writes nothing. */
typedef struct kilni_writer kilni_writer;

/* Registers the fork handlers of writers. If this function is not called, kilni_writer_new
 * registers them when it creates the first writer. A caller needs this function if it creates a
 * writer while it holds a lock that its own fork handlers take. */
void kilni_writer_watch_forks(void);

/* Creates a writer, without starting its threads.
 *
 * @store             borrowed until kilni_writer_free; NULL: only the statistics file is written
 * @max_queued_bytes  the maximum total size of the entries that wait for one tier or are being
 *                    written to it. If there are no such entries, an entry of any size is accepted
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_writer_new(kiln_store *store, uint64_t max_queued_bytes,
                             kilni_writer **ret_writer);

/* Names a file to which the writer also adds the counters, like kiln_stats_add_to_file. Must be
 * called before the first put or count. @path is copied; NULL: none. Returns KILN_OK;
 * KILN_E_NO_MEMORY. */
kiln_status kilni_writer_set_stats_file(kilni_writer *writer, const char *path);

/* Names a file to which the writer appends all that it appends to the store's journal, whether or
 * not the store has one. Must be called before the first note or count. @path is copied; NULL:
 * none. Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_writer_set_record_file(kilni_writer *writer, const char *path);

/* While the process has only one thread, makes that thread write the entries that it puts, and
 * starts no thread for them. Once a second thread has been started, each getc and malloc of the
 * process takes a lock. A program that reads with getc would lose more time to these locks than it
 * takes to write most entries. Threads still write the entries for servers. Must be called before
 * the first put. */
void kilni_writer_spare_thread(kilni_writer *writer);

/* Queues an entry for each tier that gets new entries, and starts their threads if they are not
 * running. If kilni_writer_spare_thread was called, this function might instead write the entry
 * before it returns. It retains the entry, allocates memory once and copies nothing. If a tier's
 * queue is full, that tier does not get the entry. The lease of the entry's builder is queued with
 * the entry. Its parts are released as the tiers store the entry (kilni_lease_note_stored), and the
 * rest after the entry was written or dropped in all tiers. An entry that no tier has stored counts
 * as dropped.
 *
 * @lease  can be NULL or point to NULL; the pointer to which it points is set to NULL in any case
 * Returns KILN_OK; KILN_E_FULL, KILN_E_NO_MEMORY or KILN_E_READONLY: no tier gets the entry, so it
 * is counted, and the lease is released, by a thread if a server might have granted it. */
kiln_status kilni_writer_put(kilni_writer *writer, const kiln_entry *entry, kiln_lease **lease);

/* Queues each tier's part of kilni_store_fill. If a tier's queue is full or memory runs out, that
 * part is not done, which does no harm and is not counted. If puts do not queue their entries
 * (kilni_writer_spare_thread), the parts are done by the next put or drain.
 *
 * @fill   the value that kilni_store_find returned with @entry for @key; 0: there is nothing to do
 */
void kilni_writer_fill(kilni_writer *writer, size_t fill, const kiln_key *key,
                       const kiln_entry *entry);

/* Adds @delta to the counters. If a thread is running, it soon adds the counters to the totals.
 * Otherwise the next drain does. The caller must not add what the store or this writer already
 * counts: puts, evicted entries, entries that this writer dropped, and damaged entries that
 * kiln_store_get reported. */
void kilni_writer_count(kilni_writer *writer, const kiln_stats *delta);

/* Adds an event to the journal. The event is appended when the counters are next written, together
 * with all others; if too many wait, this call appends them. A caller notes all that it counts,
 * except for hits from memory: the writer itself notes their number when it is drained. If the
 * journal cannot be written once, nothing more is appended.
 *
 * @event  kind, count, digest, times, store, kept, device and name; the writer adds the rest */
void kilni_writer_note(kilni_writer *writer, const kiln_journal_event *event);

/* Returns the mean duration of the builds that were counted; 0: no build was counted. */
uint64_t kilni_writer_mean_build_ns(const kilni_writer *writer);

/* Waits until everything that was queued for any tier has been written and counted. If the writer
 * has no thread, the caller writes to the directories, and a write that has begun can exceed the
 * timeout. Entries for servers are always written by threads. If
 * the timeout passes first, the caller writes what has been counted by then, because all threads
 * may be waiting for a tier. Returns KILN_OK; KILN_TIMEOUT. */
kiln_status kilni_writer_drain(kilni_writer *writer, uint64_t timeout_ns);

/* Drains the writer for the last time, because the process ends. What is still queued after the
 * timeout is dropped and counted, and soon after that, the calls to servers that are under way are
 * given up, so that their entries count as dropped too. In all, the call takes at most half a
 * second longer than the timeout, unless the caller itself writes to a directory that blocks.
 * Leases that could not be released expire. Entries that are put later may be lost. */
void kilni_writer_end(kilni_writer *writer, uint64_t timeout_ns);

/* Drains the writer. Drops and counts the entries that are still queued after the timeout. Then
 * ends the threads, frees the writer and sets the pointer to NULL. Accepts NULL and a pointer to
 * NULL. Waits until the entries that are being written are complete, so if a directory blocks, the
 * call can take longer than the timeout. Calls to servers are given up a quarter of a second after
 * the timeout, and their entries are counted as dropped. Must not be called by one of the writer's
 * own threads. */
void kilni_writer_free(kilni_writer **writer, uint64_t timeout_ns);

/* Does the same as kilni_writer_free, and then closes the store. Unlike kilni_writer_free, this
 * function can be called on one of the writer's own threads, from a log callback of the store.
 * There it returns immediately. Afterwards the threads write what is queued, until the timeout has
 * passed. Then the last one closes the store. The caller must not use the writer or the store
 * afterwards. */
void kilni_writer_close(kilni_writer **writer, uint64_t timeout_ns);
