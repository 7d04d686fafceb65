/* SPDX-License-Identifier: Apache-2.0 */
#include "device/watch/compilation.h"

#include <errno.h>

/* Guards the list. Not held while a compiler runs. The lock of a compilation may be taken while it
 * is held. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static kilni_compilation *running;

/* The compilation of this thread; NULL: it compiles nothing. Read without the lock: a thread's
 * first access may need the loader, whose lock another thread may hold while it waits for this
 * one. */
static _Thread_local kilni_compilation *current;

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
    pthread_mutex_lock(&lock);
    compilation->next = running;
    running = compilation;
    pthread_mutex_unlock(&lock);
    return KILN_OK;
}

bool kilni_compilation_leave(kilni_compilation *compilation)
{
    const bool is_this_process = current == compilation;
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
    return is_this_process;
}

/* ---- reporting ---- */

/* A report: a note with its text, or a fold. */
typedef struct event {
    kilni_note_fn *note;
    const char *text;
    const kilni_fold *fold;
} event;

static void report_to(kilni_compilation *to, const event *e)
{
    pthread_mutex_lock(&to->lock);
    if (e->fold && to->folds) {
        kilni_folds_note(to->folds, e->fold);
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

/* The compiler must see the errno that the C library set. */
static void report(const event *e)
{
    const int number = errno;
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

void kilni_compilation_report_fold(const kilni_fold *fold)
{
    report(&(event){.fold = fold});
}
