/* SPDX-License-Identifier: Apache-2.0 */
#include "device/watch/watch.h"

#include <errno.h>

/* Guards the list. Not held while NVRTC runs; whose reads are noted may be locked in it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static kilni_watch *all_under_way;

/* That of this thread; NULL: it compiles nothing. Looked at without the lock: the first time in
 * each thread may need the loader, whose lock another may have that waits for this one. */
static _Thread_local kilni_watch *own;

/* ---- forks ---- */

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

/* The parent's compilations are not this process's. */
static void after_fork_in_child(void)
{
    all_under_way = NULL;
    own = NULL;
    pthread_mutex_unlock(&lock);
}

static pthread_once_t once_registered = PTHREAD_ONCE_INIT;
static int is_registered;

static void register_forks(void)
{
    is_registered = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
}

/* ---- compilations ---- */

static void join(kilni_watch *watch)
{
    watch->around = own;
    own = watch;
    pthread_mutex_lock(&lock);
    watch->next = all_under_way;
    all_under_way = watch;
    pthread_mutex_unlock(&lock);
}

static void leave(const kilni_watch *watch)
{
    own = own == watch ? watch->around : NULL;
    pthread_mutex_lock(&lock);
    kilni_watch **link = &all_under_way;
    while (*link && *link != watch) {
        link = &(*link)->next;
    }
    if (*link) {
        *link = watch->next;
    }
    pthread_mutex_unlock(&lock);
}

kiln_status kilni_watch_begin(kilni_watch *watch, kilni_watched *library, kilni_reads *reads,
                              kilni_folds *folds)
{
    pthread_once(&once_registered, register_forks);
    *watch = (kilni_watch){.library = library, .reads = reads, .folds = folds};
    if (!is_registered || pthread_mutex_init(&watch->lock, NULL) != 0) {
        return KILN_E_NO_MEMORY;
    }
    if (kilni_watched_take(library, &watch->mark) != KILN_OK) {
        kilni_reads_spoil(reads, "somebody else watches NVRTC");
    }
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &watch->cancel_state);
    join(watch);
    return KILN_OK;
}

void kilni_watch_end(kilni_watch *watch)
{
    const int is_this_process = own == watch;
    leave(watch);
    if (!is_this_process) {
        kilni_reads_spoil(watch->reads, "the process was forked meanwhile");
    } else if (!kilni_watched_was_whole(watch->library, watch->mark)) {
        kilni_reads_spoil(watch->reads, "NVRTC's calls went elsewhere meanwhile");
    }
    pthread_mutex_destroy(&watch->lock);
    pthread_setcancelstate(watch->cancel_state, &watch->cancel_state);
}

/* ---- telling ---- */

/* What is told: either of the two. */
typedef struct tidings {
    kilni_note_fn *note;
    const char *text;
    const kilni_fold *fold;
} tidings;

static void tell_one(kilni_watch *watch, const tidings *of)
{
    pthread_mutex_lock(&watch->lock);
    if (of->fold) {
        kilni_folds_note(watch->folds, of->fold);
    } else {
        of->note(watch->reads, of->text);
    }
    pthread_mutex_unlock(&watch->lock);
}

static void tell_all(const tidings *of)
{
    pthread_mutex_lock(&lock);
    for (kilni_watch *each = all_under_way; each; each = each->next) {
        tell_one(each, of);
    }
    pthread_mutex_unlock(&lock);
}

/* NVRTC is not to find another errno than the C library left. */
static void tell(const tidings *of)
{
    const int number = errno;
    if (own) {
        tell_one(own, of);
    } else {
        tell_all(of);
    }
    errno = number;
}

void kilni_watch_tell(kilni_note_fn *note, const char *text)
{
    tell(&(tidings){.note = note, .text = text});
}

void kilni_watch_tell_fold(const kilni_fold *fold)
{
    tell(&(tidings){.fold = fold});
}
