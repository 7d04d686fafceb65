/* SPDX-License-Identifier: Apache-2.0 */
#include "store/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/file_limit.h"
#include "os/thread.h"
#include "store/call_limit.h"
#include "store/journal_file.h"
#include "store/journal_record.h"
#include "store/store.h"
#include "store/totals.h"
#include "store/write_job.h"

#define FLUSH_DELAY_NS 100000000u
#define NS_PER_S 1000000000u
#define LOCK_RETRY_NS 100000u
/* How long calls to servers may last after the time of the last drain is over: enough to release
 * the leases of dropped entries on a server that answers. */
#define LAST_CALLS_NS UINT64_C(250000000)
/* The maximum size of the records that wait, which is also that of one write. */
#define NOTED_BYTES 65536u

/* Guards the queues and states of all writers. A thread holds this lock for a few instructions, or
 * while it starts a thread. It never holds the lock during I/O, or while it releases an entry or a
 * lease. All writers share one lock, so that the fork handlers have to take only one. The lock is
 * taken before fork, and released after it in both processes. */
static pthread_mutex_t writers_lock = PTHREAD_MUTEX_INITIALIZER;

/* How many forks led from the first process to this one. Only a fork handler in the child writes
 * it, and the child has no other thread at that time. So every access is relaxed. */
static _Atomic unsigned fork_generation;

/* The entries that wait for one tier, and the thread that writes them. So a tier that is slow or
 * does not answer delays no other tier, and takes no room from it. The lock writers_lock guards all
 * fields except the first two. */
typedef struct write_queue {
    kilni_writer *writer;
    bool is_of_server; /* only the queue's thread writes its entries, because a caller must not wait
                          for a server */
    kilni_write_item *first, *last;
    uint64_t bytes; /* of the jobs that wait or are being written */
    bool is_busy;   /* a thread is writing an entry of this queue, without the lock */
    bool has_thread;
    pthread_t thread;
} write_queue;

struct kilni_writer {
    kiln_store *store;
    uint64_t max_queued_bytes;
    char *stats_path, *record_path;
    bool has_journal;    /* of the store, or the file at record_path */
    pid_t pid;           /* of the process that created the writer */
    unsigned generation; /* the fork_generation of the process that created the writer */
    bool spares_thread;

    /* Counts that are not flushed yet. A thread adds them with relaxed operations and then sets
     * is_dirty (release). The load of is_dirty before a flush (acquire) pairs with this store. */
    _Atomic uint64_t pending[KILNI_STATS_COUNT];
    _Atomic bool is_dirty;

    /* The number of all builds that were counted, and their total duration. Every access is
     * relaxed, since the mean is only an estimate. */
    _Atomic uint64_t builds, build_ns;

    /* When the calls of the writer's threads to servers end (store/call_limit.h). */
    _Atomic uint64_t calls_end_ns;

    /* What the hits have saved that were noted one by one. Relaxed. */
    _Atomic uint64_t noted_saved_ns;

    /* The lock writers_lock guards all following fields up to detached_until_ns. */
    pthread_cond_t changed; /* one of the fields below, or of a queue, has changed, or is_dirty was
                               set */
    uint64_t flush_at_ns;   /* when to flush the counts; 0: no unflushed counts were seen */
    unsigned flushes_wanted, flushes_done;
    unsigned threads; /* how many threads of this writer run */
    /* Jobs that are done, except that a thread of a server has to release their leases. */
    kilni_write_job *done;
    bool has_to_stop;     /* the threads have to end, and nothing is queued any more */
    unsigned char *noted; /* the records that wait; NULL: none */
    size_t noted_bytes;
    bool is_flushing; /* a thread is writing counts or records, without the lock */
    bool
        is_detached; /* the last thread will close the writer, at detached_until_ns at the latest */
    uint64_t detached_until_ns;

    /* Counts that could not be written yet. Only the thread that set is_flushing accesses them. */
    kiln_stats for_store, for_file;
    /* Hits from memory that are not noted yet; what all hits have saved, and how much of that was
     * noted with hits from memory. */
    uint64_t memory_hits, saved_ns, memory_saved_ns;
    bool journal_failed, record_failed;

    size_t queue_count;
    write_queue queues[]; /* one for each tier of the store */
};

/* The writer to which this thread belongs; NULL: the thread belongs to no writer. */
static _Thread_local const kilni_writer *writer_of_thread;

static void before_fork(void)
{
    pthread_mutex_lock(&writers_lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&writers_lock);
}

static void after_fork_in_child(void)
{
    atomic_fetch_add_explicit(&fork_generation, 1, memory_order_relaxed);
    pthread_mutex_unlock(&writers_lock);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

void kilni_writer_watch_forks(void)
{
    static pthread_once_t watching = PTHREAD_ONCE_INIT;
    pthread_once(&watching, watch_forks);
}

static bool is_forked(const kilni_writer *writer)
{
    return writer->generation != atomic_load_explicit(&fork_generation, memory_order_relaxed);
}

/* ---- counting ---- */

static void mark_dirty(kilni_writer *writer)
{
    if (atomic_exchange_explicit(&writer->is_dirty, true, memory_order_acq_rel)) {
        return;
    }
    pthread_mutex_lock(&writers_lock);
    if (writer->threads > 0) {
        pthread_cond_broadcast(&writer->changed);
    }
    pthread_mutex_unlock(&writers_lock);
}

void kilni_writer_count(kilni_writer *writer, const kiln_stats *delta)
{
    uint64_t counts[KILNI_STATS_COUNT];
    memcpy(counts, delta, sizeof counts);
    for (size_t i = 0; i < KILNI_STATS_COUNT; i++) {
        if (counts[i] != 0) {
            atomic_fetch_add_explicit(&writer->pending[i], counts[i], memory_order_relaxed);
        }
    }
    atomic_fetch_add_explicit(&writer->builds, delta->builds, memory_order_relaxed);
    atomic_fetch_add_explicit(&writer->build_ns, delta->build_ns, memory_order_relaxed);
    if (!is_forked(writer)) {
        mark_dirty(writer);
    }
}

uint64_t kilni_writer_mean_build_ns(const kilni_writer *writer)
{
    const uint64_t builds = atomic_load_explicit(&writer->builds, memory_order_relaxed);
    return builds > 0 ? atomic_load_explicit(&writer->build_ns, memory_order_relaxed) / builds : 0;
}

static void take_pending(kilni_writer *writer, kiln_stats *ret_counts)
{
    uint64_t counts[KILNI_STATS_COUNT];
    atomic_exchange_explicit(&writer->is_dirty, false, memory_order_acq_rel);
    for (size_t i = 0; i < KILNI_STATS_COUNT; i++) {
        counts[i] = atomic_exchange_explicit(&writer->pending[i], 0, memory_order_relaxed);
    }
    memcpy(ret_counts, counts, sizeof counts);
}

/* Adds the counts to the store's totals and to the statistics file. Called by the thread that set
 * is_flushing, without the lock. Counts that cannot be written now are kept for the next flush.
 *
 * @is_late  as in flush_locked */
static void flush_counts(kilni_writer *writer, bool is_late)
{
    kiln_stats counted;
    kiln_stats counted_by_store;
    take_pending(writer, &counted);
    kilni_store_take_counts(writer->store, &counted_by_store);
    kilni_stats_add(&writer->for_store, &counted);
    kilni_stats_add(&writer->for_file, &counted);
    kilni_stats_add(&writer->for_file, &counted_by_store);
    writer->memory_hits += counted.hits_memory;
    writer->saved_ns += counted.saved_ns;
    /* A chain also writes the counts of its tiers. */
    if (is_late || !kilni_stats_is_zero(&writer->for_store)) {
        kiln_status status = kiln_store_add_stats(writer->store, &writer->for_store);
        if (status == KILN_OK || status == KILN_E_READONLY) {
            writer->for_store = (kiln_stats){0};
        }
    }
    if (!writer->stats_path) {
        writer->for_file = (kiln_stats){0};
    } else if (!kilni_stats_is_zero(&writer->for_file) &&
               kiln_stats_add_to_file(writer->stats_path, &writer->for_file) == KILN_OK) {
        writer->for_file = (kiln_stats){0};
    }
}

/* ---- the journal ---- */

static size_t encode(const kilni_writer *writer, kiln_journal_event event, unsigned char *record)
{
    event.time_ns = kilni_file_clock_ns();
    event.pid = (uint32_t)writer->pid;
    event.program = program_invocation_short_name;
    return kilni_journal_encode(&event, record);
}

/* Called by the thread that set is_flushing, without the lock. */
static void append_records(kilni_writer *writer, const unsigned char *records, size_t size)
{
    if (!writer->journal_failed) {
        writer->journal_failed =
            kilni_store_append_to_journal(writer->store, records, size) != KILN_OK;
    }
    if (writer->record_path && !writer->record_failed) {
        writer->record_failed =
            kilni_journal_append(AT_FDCWD, writer->record_path, NULL, records, size) != KILN_OK;
    }
}

/* Appends how often memory had what was requested. Called as append_records is. */
static void append_memory_hits(kilni_writer *writer)
{
    if (!writer->has_journal || writer->memory_hits == 0) {
        return;
    }
    unsigned char record[KILNI_JOURNAL_RECORD_MAX];
    const uint64_t noted_ns = atomic_load_explicit(&writer->noted_saved_ns, memory_order_relaxed) +
                              writer->memory_saved_ns;
    const uint64_t left_ns = writer->saved_ns > noted_ns ? writer->saved_ns - noted_ns : 0;
    const kiln_journal_event event = {
        .kind = KILN_JOURNAL_MEMORY_HITS, .count = writer->memory_hits, .saved_ns = left_ns};
    append_records(writer, record, encode(writer, event, record));
    writer->memory_hits = 0;
    writer->memory_saved_ns += left_ns;
}

/* ---- flushing: these functions hold writers_lock, and release it during the work ---- */

static void begin_flush(kilni_writer *writer)
{
    writer->is_flushing = true;
    pthread_mutex_unlock(&writers_lock);
}

static void end_flush(kilni_writer *writer)
{
    pthread_mutex_lock(&writers_lock);
    writer->is_flushing = false;
    pthread_cond_broadcast(&writer->changed);
}

/* Appends the records that wait. */
static void append_noted_locked(kilni_writer *writer)
{
    unsigned char *records = writer->noted;
    const size_t size = writer->noted_bytes;
    writer->noted = NULL;
    writer->noted_bytes = 0;
    begin_flush(writer);
    append_records(writer, records, size);
    free(records);
    end_flush(writer);
}

/* Returns true if no entry waits or is being written, and no lease waits for its release. */
static bool is_idle(const kilni_writer *writer)
{
    if (writer->done) {
        return false;
    }
    for (size_t i = 0; i < writer->queue_count; i++) {
        if (writer->queues[i].first || writer->queues[i].is_busy) {
            return false;
        }
    }
    return true;
}

/* @is_late  the time of a drain is over, so this flush may be the last one */
static void flush_locked(kilni_writer *writer, bool is_late)
{
    /* A caller of kilni_writer_drain waits for a flush that comes after everything that is queued.
     * If the writer is not idle, this flush is only a periodic one, and the caller must wait for a
     * later one. */
    unsigned wanted = is_idle(writer) ? writer->flushes_wanted : writer->flushes_done;
    writer->flush_at_ns = 0;
    const bool is_wanted = wanted != writer->flushes_done;
    if (writer->noted) {
        append_noted_locked(writer);
    }
    begin_flush(writer);
    flush_counts(writer, is_late);
    if (is_wanted || is_late) {
        append_memory_hits(writer);
    }
    end_flush(writer);
    writer->flushes_done = wanted;
}

static bool has_to_flush(kilni_writer *writer)
{
    if (writer->is_flushing) {
        return false;
    }
    if (writer->flushes_done != writer->flushes_wanted && is_idle(writer)) {
        return true;
    }
    return writer->flush_at_ns != 0 && kilni_clock_ns() >= writer->flush_at_ns;
}

/* ---- queues ---- */

static void count_dropped(kilni_writer *writer, uint64_t count)
{
    const kiln_stats dropped = {.dropped = count};
    kilni_writer_count(writer, &dropped);
}

/* Frees a job that is done. Must be called without the lock. */
static void end_job(kilni_writer *writer, kilni_write_job *job)
{
    if (job->fill == 0 && !job->is_stored) {
        count_dropped(writer, 1);
    }
    kilni_write_job_free(job);
}

static bool has_room(const kilni_writer *writer, const write_queue *queue, uint64_t bytes)
{
    return queue->bytes == 0 || (queue->bytes < writer->max_queued_bytes &&
                                 bytes <= writer->max_queued_bytes - queue->bytes);
}

/* Returns true if the process has only one thread, which then writes the entries that it puts. */
static bool is_alone(const kilni_writer *writer)
{
    return writer->spares_thread && writer->threads == 0 && kilni_is_single_threaded();
}

static void *run_thread(void *argument);

static bool start_thread_locked(write_queue *queue)
{
    if (!queue->has_thread) {
        queue->has_thread = kilni_thread_start(run_thread, queue, &queue->thread);
        queue->writer->threads += queue->has_thread;
    }
    return queue->has_thread;
}

/* In a process that has only one thread, a fill waits in the queue, because a program that has
 * found its entry must not wait for a fill. A drain makes the fill, or the next put does: its
 * caller has waited for a build anyway. So such a put must not be refused because of the fills. */
static kiln_status append_locked(write_queue *queue, kilni_write_item *item)
{
    const kilni_write_job *job = item->job;
    const bool has_thread = !is_alone(queue->writer) || (queue->is_of_server && job->fill == 0);
    if (queue->writer->has_to_stop ||
        ((has_thread || job->fill > 0) && !has_room(queue->writer, queue, job->bytes))) {
        return KILN_E_FULL;
    }
    if (has_thread && !start_thread_locked(queue)) {
        return KILN_E_NO_MEMORY;
    }
    item->state = KILNI_WRITE_QUEUED;
    item->next = NULL;
    if (queue->first) {
        queue->last->next = item;
    } else {
        queue->first = item;
    }
    queue->last = item;
    queue->bytes += job->bytes;
    pthread_cond_broadcast(&queue->writer->changed);
    return KILN_OK;
}

/* Appends the items of a job that have to be queued now. Returns KILN_OK; KILN_E_FULL or
 * KILN_E_NO_MEMORY: at least one of the items was dropped. If the job is done afterwards, the
 * caller must end it. */
static kiln_status advance_locked(kilni_writer *writer, kilni_write_job *job)
{
    kiln_status result = KILN_OK;
    for (;;) {
        kilni_write_item *item = kilni_write_job_next(job);
        if (!item) {
            return result;
        }
        const size_t tier = (size_t)(item - job->items);
        const kiln_status status = append_locked(&writer->queues[tier], item);
        if (status != KILN_OK) {
            result = status;
            kilni_write_item_finish(item, false);
            if (job->fill == 0) {
                kilni_store_note_drop(writer->store, tier);
            }
        }
    }
}

/* Makes a thread of a server release a job's lease and free the job, because the release may be a
 * call to a server. Neither the caller of a put nor the thread of a directory must wait for that.
 * Returns false if the caller must end the job itself.
 *
 * @from  the queue that has finished the job's last item; NULL: none took the job */
static bool hand_over_locked(kilni_writer *writer, kilni_write_job *job, const write_queue *from)
{
    if (!job->lease || (from && from->is_of_server) || is_alone(writer)) {
        return false;
    }
    for (size_t i = 0; i < writer->queue_count; i++) {
        write_queue *queue = &writer->queues[i];
        if (queue->is_of_server && !writer->has_to_stop && start_thread_locked(queue)) {
            job->next = writer->done;
            writer->done = job;
            pthread_cond_broadcast(&writer->changed);
            return true;
        }
    }
    return false;
}

/* Ends a job that was handed over, and releases the lock meanwhile. */
static void end_done_locked(kilni_writer *writer)
{
    kilni_write_job *job = writer->done;
    writer->done = job->next;
    pthread_mutex_unlock(&writers_lock);
    end_job(writer, job);
    pthread_mutex_lock(&writers_lock);
}

static kilni_write_item *take_first_locked(write_queue *queue)
{
    kilni_write_item *item = queue->first;
    queue->first = item->next;
    return item;
}

/* Finishes an item that was taken from its queue. Ends the job if it is done then, and releases the
 * lock meanwhile. */
static void finish_locked(write_queue *queue, kilni_write_item *item, bool is_stored)
{
    kilni_writer *writer = queue->writer;
    kilni_write_job *job = item->job;
    const uint64_t bytes = job->bytes;
    if (is_stored && job->fill == 0 && !job->is_stored) {
        kilni_store_count_put(writer->store, job->entry);
    }
    kilni_write_item_finish(item, is_stored);
    advance_locked(writer, job);
    queue->bytes -= bytes;
    if (kilni_write_job_is_done(job) && !hand_over_locked(writer, job, queue)) {
        pthread_mutex_unlock(&writers_lock);
        end_job(writer, job);
        pthread_mutex_lock(&writers_lock);
    }
}

/* Returns true if the calls to servers had to end. */
static bool are_calls_over(const kilni_writer *writer)
{
    return kilni_clock_ns() >= atomic_load_explicit(&writer->calls_end_ns, memory_order_relaxed);
}

/* Writes the first entry of a queue, and releases the lock meanwhile. */
static void write_first_locked(write_queue *queue)
{
    kilni_writer *writer = queue->writer;
    kilni_write_item *item = take_first_locked(queue);
    kilni_write_job *job = item->job;
    const size_t tier = (size_t)(queue - writer->queues);
    queue->is_busy = true;
    pthread_mutex_unlock(&writers_lock);
    const bool is_stored =
        kilni_store_write_to_tier(writer->store, tier, job->fill, job->key, job->entry) == KILN_OK;
    if (is_stored) {
        kilni_lease_note_stored(job->lease, tier);
    } else if (job->fill == 0 && queue->is_of_server && are_calls_over(writer)) {
        kilni_store_note_drop(writer->store, tier);
    }
    pthread_mutex_lock(&writers_lock);
    finish_locked(queue, item, is_stored);
    queue->is_busy = false;
    pthread_cond_broadcast(&writer->changed);
    /* The store has counted the put. The count must also reach the statistics file. */
    atomic_store_explicit(&writer->is_dirty, true, memory_order_release);
}

/* Drops the first entry of a queue, and releases the lock meanwhile. The child of a fork loses
 * nothing, because the parent writes the entry. */
static void drop_first_locked(write_queue *queue)
{
    kilni_writer *writer = queue->writer;
    kilni_write_item *item = take_first_locked(queue);
    if (item->job->fill == 0 && !is_forked(writer)) {
        kilni_store_note_drop(writer->store, (size_t)(queue - writer->queues));
    }
    finish_locked(queue, item, false);
}

/* Drops all entries that wait, and releases the lock meanwhile. */
static void drop_all_locked(kilni_writer *writer)
{
    const _Atomic uint64_t *limit = kilni_call_limit_set(&writer->calls_end_ns);
    for (size_t i = 0; i < writer->queue_count; i++) {
        while (writer->queues[i].first) {
            drop_first_locked(&writer->queues[i]);
        }
    }
    while (writer->done) {
        end_done_locked(writer);
    }
    kilni_call_limit_set(limit);
}

/* ---- threads ---- */

static void wait_until(kilni_writer *writer, uint64_t time_ns)
{
    struct timespec time = {.tv_sec = (time_t)(time_ns / NS_PER_S),
                            .tv_nsec = (long)(time_ns % NS_PER_S)};
    pthread_cond_timedwait(&writer->changed, &writers_lock, &time);
}

/* Does one step of the work of a queue's thread, or waits once if there is nothing to do. */
static void work_locked(write_queue *queue)
{
    kilni_writer *writer = queue->writer;
    bool is_dirty = atomic_load_explicit(&writer->is_dirty, memory_order_acquire);
    if (is_dirty && writer->flush_at_ns == 0) {
        writer->flush_at_ns = kilni_clock_ns() + FLUSH_DELAY_NS;
    }
    if (has_to_flush(writer)) {
        flush_locked(writer, false);
    } else if (queue->is_of_server && writer->done) {
        queue->is_busy = true;
        end_done_locked(writer);
        queue->is_busy = false;
        pthread_cond_broadcast(&writer->changed);
    } else if (queue->first && !queue->is_busy) {
        write_first_locked(queue);
    } else if (writer->flush_at_ns != 0 && !writer->is_flushing) {
        wait_until(writer, writer->flush_at_ns);
    } else {
        pthread_cond_wait(&writer->changed, &writers_lock);
    }
}

/* ---- end ---- */

/* Frees a writer that no other thread uses any more. Drops and counts the entries that were not
 * written. */
static void free_stopped(kilni_writer *writer)
{
    pthread_mutex_lock(&writers_lock);
    writer->has_to_stop = true;
    drop_all_locked(writer);
    pthread_mutex_unlock(&writers_lock);
    /* In a forked child, the parent's thread might still be registered as a waiter of the
     * condition. So the condition cannot be destroyed. */
    if (!is_forked(writer)) {
        if (atomic_load_explicit(&writer->is_dirty, memory_order_acquire)) {
            flush_counts(writer, false);
        }
        if (writer->noted) {
            append_records(writer, writer->noted, writer->noted_bytes);
        }
        append_memory_hits(writer);
        pthread_cond_destroy(&writer->changed);
    }
    free(writer->noted);
    free(writer->record_path);
    free(writer->stats_path);
    free(writer);
}

/* Returns true if a thread of the writer has an entry to write, or a lease to release. */
static bool is_any_writing(const kilni_writer *writer)
{
    if (writer->done) {
        return true;
    }
    for (size_t i = 0; i < writer->queue_count; i++) {
        const write_queue *queue = &writer->queues[i];
        if (queue->has_thread && (queue->first || queue->is_busy)) {
            return true;
        }
    }
    return false;
}

/* Returns true if a thread must continue to work. If a callback on a thread of the writer has
 * forked, the child writes nothing, because the parent does. */
static bool goes_on_locked(const kilni_writer *writer)
{
    if (is_forked(writer)) {
        return false;
    }
    if (writer->is_detached) {
        return is_any_writing(writer) && kilni_clock_ns() < writer->detached_until_ns;
    }
    return !writer->has_to_stop;
}

static void *run_thread(void *argument)
{
    write_queue *queue = argument;
    kilni_writer *writer = queue->writer;
    writer_of_thread = writer;
    kilni_call_limit_set(&writer->calls_end_ns);
    pthread_setname_np(pthread_self(), "kiln-writer");
    kilni_file_limit_begin(); /* blocks SIGXFSZ for everything that this thread writes, until it
                                 ends */
    pthread_mutex_lock(&writers_lock);
    while (goes_on_locked(writer)) {
        work_locked(queue);
    }
    writer->threads--;
    const bool is_detached = writer->is_detached;
    const bool is_last = writer->threads == 0 || is_forked(writer);
    pthread_mutex_unlock(&writers_lock);
    if (is_detached) {
        pthread_detach(pthread_self());
    }
    if (is_detached && is_last) {
        kiln_store *store = writer->store;
        writer_of_thread = NULL;
        kilni_call_limit_set(NULL);
        free_stopped(writer);
        kiln_store_close(&store);
    }
    return NULL;
}

/* ---- the interface ---- */

kiln_status kilni_writer_new(kiln_store *store, uint64_t max_queued_bytes,
                             kilni_writer **ret_writer)
{
    kilni_writer_watch_forks();
    const size_t queue_count = kilni_store_tier_count(store);
    kilni_writer *writer = calloc(1, sizeof *writer + queue_count * sizeof writer->queues[0]);
    if (!writer || !kilni_condition_init(&writer->changed)) {
        free(writer);
        return KILN_E_NO_MEMORY;
    }
    writer->queue_count = queue_count;
    for (size_t i = 0; i < queue_count; i++) {
        writer->queues[i].writer = writer;
        writer->queues[i].is_of_server =
            kilni_store_tier_capabilities(store, i) & KILNI_STORE_SENDS;
    }
    atomic_init(&writer->calls_end_ns, UINT64_MAX);
    writer->store = store;
    writer->pid = getpid();
    writer->max_queued_bytes = max_queued_bytes;
    writer->has_journal = kilni_store_has_journal(store);
    writer->generation = atomic_load_explicit(&fork_generation, memory_order_relaxed);
    *ret_writer = writer;
    return KILN_OK;
}

kiln_status kilni_writer_set_stats_file(kilni_writer *writer, const char *path)
{
    char *copy = path ? strdup(path) : NULL;
    if (path && !copy) {
        return KILN_E_NO_MEMORY;
    }
    free(writer->stats_path);
    writer->stats_path = copy;
    return KILN_OK;
}

kiln_status kilni_writer_set_record_file(kilni_writer *writer, const char *path)
{
    char *copy = path ? strdup(path) : NULL;
    if (path && !copy) {
        return KILN_E_NO_MEMORY;
    }
    free(writer->record_path);
    writer->record_path = copy;
    writer->has_journal |= copy != NULL;
    return KILN_OK;
}

/* Makes room for one more record. If a thread is already flushing, no room can be made, because
 * this call must not wait. */
static bool make_room_locked(kilni_writer *writer, size_t size)
{
    if (writer->noted && writer->noted_bytes + size > NOTED_BYTES && !writer->is_flushing) {
        append_noted_locked(writer);
    }
    if (!writer->noted) {
        writer->noted = malloc(NOTED_BYTES);
    }
    return writer->noted && writer->noted_bytes + size <= NOTED_BYTES;
}

void kilni_writer_note(kilni_writer *writer, const kiln_journal_event *event)
{
    if (!writer->has_journal || is_forked(writer)) {
        return;
    }
    unsigned char record[KILNI_JOURNAL_RECORD_MAX];
    const size_t size = encode(writer, *event, record);
    atomic_fetch_add_explicit(&writer->noted_saved_ns, event->saved_ns, memory_order_relaxed);
    pthread_mutex_lock(&writers_lock);
    if (make_room_locked(writer, size)) {
        memcpy(writer->noted + writer->noted_bytes, record, size);
        writer->noted_bytes += size;
    }
    pthread_mutex_unlock(&writers_lock);
}

void kilni_writer_spare_thread(kilni_writer *writer)
{
    writer->spares_thread = true;
}

/* Returns a queue whose entries the caller has to write, because the queue has no thread; NULL:
 * there is none. */
static write_queue *queue_for_caller(kilni_writer *writer)
{
    for (size_t i = 0; i < writer->queue_count; i++) {
        write_queue *queue = &writer->queues[i];
        if (queue->first && !queue->has_thread && !queue->is_busy) {
            return queue;
        }
    }
    return NULL;
}

/* Writes the first entry of a queue that has no thread. If the tier is a server, starts a thread
 * for the queue instead. */
static void serve_locked(write_queue *queue)
{
    if (!queue->is_of_server) {
        write_first_locked(queue);
    } else if (!start_thread_locked(queue)) {
        drop_first_locked(queue);
    }
}

/* Writes what waits in queues without a thread. If the process has a second thread now, starts the
 * threads of these queues instead. */
static void serve_threadless_locked(kilni_writer *writer)
{
    for (write_queue *queue; (queue = queue_for_caller(writer)) != NULL;) {
        if (is_alone(writer) || !start_thread_locked(queue)) {
            serve_locked(queue);
        }
    }
}

/* Queues or writes an entry. Returns KILN_OK: at least one tier gets it, or its part of a fill;
 * KILN_E_FULL, KILN_E_NO_MEMORY or KILN_E_READONLY: no tier does. */
static kiln_status enqueue(kilni_writer *writer, kilni_write_job *job)
{
    if (is_forked(writer)) {
        kilni_write_job_free(job);
        return KILN_E_FULL;
    }
    const bool is_put = job->fill == 0;
    pthread_mutex_lock(&writers_lock);
    const kiln_status status = advance_locked(writer, job);
    /* Unless the job is done, a thread of the writer can free it from now on. */
    const bool is_done = kilni_write_job_is_done(job);
    const bool is_to_end = is_done && !hand_over_locked(writer, job, NULL);
    if (is_put || !is_alone(writer)) {
        serve_threadless_locked(writer);
    }
    pthread_mutex_unlock(&writers_lock);
    if (is_to_end) {
        end_job(writer, job);
    }
    return !is_done ? KILN_OK : status == KILN_OK ? KILN_E_READONLY : status;
}

kiln_status kilni_writer_put(kilni_writer *writer, const kiln_entry *entry, kiln_lease **lease)
{
    kiln_lease *held = lease ? *lease : NULL;
    if (lease) {
        *lease = NULL;
    }
    if (!writer->store) {
        kiln_lease_release(&held);
        return KILN_OK;
    }
    kilni_write_job *job = NULL;
    const kiln_status status =
        kilni_write_job_new(writer->store, 0, kiln_entry_key(entry), entry, held, &job);
    if (status != KILN_OK) {
        kiln_lease_release(&held);
        count_dropped(writer, 1);
        return status;
    }
    return enqueue(writer, job);
}

void kilni_writer_fill(kilni_writer *writer, size_t fill, const kiln_key *key,
                       const kiln_entry *entry)
{
    kilni_write_job *job = NULL;
    if (fill > 0 && kilni_write_job_new(writer->store, fill, key, entry, NULL, &job) == KILN_OK) {
        enqueue(writer, job);
    }
}

/* Returns the time at which a timeout ends if it begins now. */
static uint64_t end_of(uint64_t timeout_ns)
{
    const uint64_t now_ns = kilni_clock_ns();
    return timeout_ns > UINT64_MAX - now_ns ? UINT64_MAX : now_ns + timeout_ns;
}

/* A signal handler that ends the process can call a drain. The handler might have interrupted its
 * own thread while that thread held the lock. So a drain waits for the lock only until its timeout.
 */
static bool lock_writers_until(uint64_t end_ns)
{
    while (pthread_mutex_trylock(&writers_lock) != 0) {
        if (kilni_clock_ns() >= end_ns) {
            return false;
        }
        kilni_sleep_ns(LOCK_RETRY_NS);
    }
    return true;
}

static bool is_drained_locked(const kilni_writer *writer, unsigned flush)
{
    /* The difference is signed because the numbers can wrap around. */
    bool is_flushed = (int)(writer->flushes_done - flush) >= 0;
    return is_flushed && is_idle(writer) && !writer->is_flushing;
}

kiln_status kilni_writer_drain(kilni_writer *writer, uint64_t timeout_ns)
{
    if (is_forked(writer)) {
        return KILN_OK;
    }
    const uint64_t end_ns = end_of(timeout_ns);
    if (!lock_writers_until(end_ns)) {
        return KILN_TIMEOUT;
    }
    unsigned flush = ++writer->flushes_wanted;
    pthread_cond_broadcast(&writer->changed);
    while (!is_drained_locked(writer, flush) && kilni_clock_ns() < end_ns) {
        write_queue *queue = queue_for_caller(writer);
        if (queue) {
            serve_locked(queue);
        } else if (writer->threads == 0 && has_to_flush(writer)) {
            flush_locked(writer, false);
        } else {
            wait_until(writer, end_ns);
        }
    }
    bool is_drained = is_drained_locked(writer, flush);
    /* The threads may all be waiting for servers when the process ends. */
    if (!is_drained && !writer->is_flushing) {
        flush_locked(writer, true);
    }
    pthread_mutex_unlock(&writers_lock);
    return is_drained ? KILN_OK : KILN_TIMEOUT;
}

/* Makes the calls of the writer's threads to servers end soon. */
static void end_calls(kilni_writer *writer, uint64_t from_ns)
{
    const uint64_t end_ns =
        from_ns < UINT64_MAX - LAST_CALLS_NS ? from_ns + LAST_CALLS_NS : UINT64_MAX;
    atomic_store_explicit(&writer->calls_end_ns, end_ns, memory_order_relaxed);
}

void kilni_writer_end(kilni_writer *writer, uint64_t timeout_ns)
{
    if (kilni_writer_drain(writer, timeout_ns) == KILN_OK) {
        return;
    }
    end_calls(writer, kilni_clock_ns());
    const uint64_t end_ns = end_of(2 * LAST_CALLS_NS);
    if (!lock_writers_until(end_ns)) {
        return;
    }
    drop_all_locked(writer);
    while ((!is_idle(writer) || writer->is_flushing) && kilni_clock_ns() < end_ns) {
        wait_until(writer, end_ns);
    }
    if (!writer->is_flushing) {
        flush_locked(writer, true);
    }
    pthread_mutex_unlock(&writers_lock);
}

/* Drops what is queued and stops the threads. The leases of the dropped entries are released first.
 * After that, this function waits until the entries that are being written are complete. Calls to
 * servers that are not complete soon are given up. */
static void stop_threads(kilni_writer *writer)
{
    end_calls(writer, kilni_clock_ns());
    pthread_mutex_lock(&writers_lock);
    writer->has_to_stop = true;
    drop_all_locked(writer);
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writers_lock);
    for (size_t i = 0; i < writer->queue_count; i++) {
        if (writer->queues[i].has_thread) {
            pthread_join(writer->queues[i].thread, NULL);
        }
    }
}

void kilni_writer_free(kilni_writer **writer, uint64_t timeout_ns)
{
    if (!writer || !*writer) {
        return;
    }
    kilni_writer *self = *writer;
    *writer = NULL;
    if (!is_forked(self)) {
        kilni_writer_drain(self, timeout_ns);
        stop_threads(self);
    }
    free_stopped(self);
}

void kilni_writer_close(kilni_writer **writer, uint64_t timeout_ns)
{
    if (!writer || !*writer) {
        return;
    }
    kilni_writer *self = *writer;
    if (writer_of_thread != self) {
        kiln_store *store = self->store;
        kilni_writer_free(writer, timeout_ns);
        kiln_store_close(&store);
        return;
    }
    /* This is one of the writer's own threads. It cannot wait for itself, and it is still using the
     * writer and the store. */
    *writer = NULL;
    pthread_mutex_lock(&writers_lock);
    self->is_detached = true;
    self->detached_until_ns = end_of(timeout_ns);
    end_calls(self, self->detached_until_ns);
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&writers_lock);
}
