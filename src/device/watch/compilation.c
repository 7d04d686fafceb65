/* SPDX-License-Identifier: Apache-2.0 */
#include "device/watch/compilation.h"

#include <errno.h>
#include <stdatomic.h>

/* Guards the list of running compilations. Not held while a compiler runs. A thread that holds this
 * lock is allowed to take the lock of a compilation as well. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static kilni_compilation *running;

/* The compilation of this thread; NULL: the thread compiles nothing. The lock above must not be
 * held while this variable is accessed. A thread's first access to it might need the loader's lock,
 * and the thread that holds the loader's lock might be waiting for the lock above. */
static _Thread_local kilni_compilation *current;

/* Counts the signal handlers that have started to use a library, and shows whether one might still
 * be running. Relaxed order is enough for two reasons. A handler reads what its own thread has
 * written. And a thread whose compilation misses a report has synchronized, within the library,
 * with the thread that the handler interrupted. */
static _Atomic uint64_t interruptions;
static _Atomic bool is_interrupted;

/* ---- forks ---- */

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

/* The child does not run the parent's compilations. */
static void after_fork_in_child(void)
{
    running = NULL;
    current = NULL;
    pthread_mutex_unlock(&lock);
}

static pthread_once_t once_registered = PTHREAD_ONCE_INIT;
static int is_registered;

static void register_forks(void)
{
    is_registered = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
}

/* ---- compilations ---- */

kiln_status kilni_compilation_join(kilni_compilation *compilation, kilni_reads *reads,
                                   kilni_folds *folds)
{
    pthread_once(&once_registered, register_forks);
    *compilation = (kilni_compilation){.outer = current, .reads = reads, .folds = folds};
    if (!is_registered || pthread_mutex_init(&compilation->lock, NULL) != 0) {
        return KILN_E_NO_MEMORY;
    }
    current = compilation;
    compilation->interruptions = atomic_load_explicit(&interruptions, memory_order_relaxed);
    atomic_store_explicit(&is_interrupted, false, memory_order_relaxed);
    pthread_mutex_lock(&lock);
    compilation->next = running;
    running = compilation;
    pthread_mutex_unlock(&lock);
    return KILN_OK;
}

const char *kilni_compilation_leave(kilni_compilation *compilation)
{
    const bool is_this_process = current == compilation;
    const bool was_interrupted =
        compilation->interruptions != atomic_load_explicit(&interruptions, memory_order_relaxed);
    current = is_this_process ? compilation->outer : NULL;
    pthread_mutex_lock(&lock);
    kilni_compilation **link = &running;
    while (*link && *link != compilation) {
        link = &(*link)->next;
    }
    if (*link) {
        *link = compilation->next;
    }
    pthread_mutex_unlock(&lock);
    pthread_mutex_destroy(&compilation->lock);
    return !is_this_process  ? "the process was forked during the compilation"
           : was_interrupted ? "a signal arrived during the compilation"
                             : NULL;
}

void kilni_compilation_interrupt(void)
{
    atomic_fetch_add_explicit(&interruptions, 1, memory_order_relaxed);
    atomic_store_explicit(&is_interrupted, true, memory_order_relaxed);
}

/* ---- reporting ---- */

/* A report: a note with its text, what was seen, or a fold. */
typedef struct event {
    kilni_note_fn *note;
    const char *text;
    const kilni_seen *seen;
    const kilni_fold *fold;
} event;

static void report_to(kilni_compilation *to, const event *e)
{
    pthread_mutex_lock(&to->lock);
    if (e->fold && to->folds) {
        kilni_folds_note(to->folds, e->fold);
    } else if (e->seen) {
        kilni_reads_note_seen(to->reads, e->seen);
    } else if (!e->fold) {
        e->note(to->reads, e->text);
    }
    pthread_mutex_unlock(&to->lock);
}

static void report_to_all(const event *e)
{
    pthread_mutex_lock(&lock);
    for (kilni_compilation *each = running; each; each = each->next) {
        report_to(each, e);
    }
    pthread_mutex_unlock(&lock);
}

/* Keeps errno, because the compiler must see the errno that the C library set. */
static void report(const event *e)
{
    const int number = errno;
    if (atomic_load_explicit(&is_interrupted, memory_order_relaxed)) {
        return;
    }
    if (current) {
        report_to(current, e);
    } else {
        report_to_all(e);
    }
    errno = number;
}

void kilni_compilation_report(kilni_note_fn *note, const char *text)
{
    report(&(event){.note = note, .text = text});
}

void kilni_compilation_report_seen(const kilni_seen *seen)
{
    report(&(event){.seen = seen});
}

bool kilni_compilation_is_own(void)
{
    return !atomic_load_explicit(&is_interrupted, memory_order_relaxed) && current;
}

void kilni_compilation_report_fold(const kilni_fold *fold)
{
    report(&(event){.fold = fold});
}
