/* SPDX-License-Identifier: Apache-2.0 */
#include "working_directory.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* What a program's first thread has for the compiler, unless told otherwise. */
#define STACK_SIZE ((size_t)8 << 20)

typedef struct errand {
    const working_directory *in;
    void (*work)(void *user);
    void *user;
    int is_done;
} errand;

/* ---- in the thread ---- */

static int is_here(const working_directory *directory)
{
    struct stat facts;
    return stat(".", &facts) == 0 && facts.st_dev == directory->device &&
           facts.st_ino == directory->inode;
}

static void *run_errand(void *argument)
{
    errand *of = argument;
    if (unshare(CLONE_FS) == 0 && chdir(of->in->path) == 0 && is_here(of->in)) {
        of->work(of->user);
        of->is_done = 1;
    }
    return NULL;
}

static void *try_to_unshare(void *ret_is_allowed)
{
    *(int *)ret_is_allowed = unshare(CLONE_FS) == 0;
    return NULL;
}

/* ---- the thread ---- */

/* The application's signal handlers don't run on it. */
static int start_thread(pthread_t *thread, void *(*start)(void *), void *argument)
{
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) {
        return 0;
    }
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int is_started = pthread_attr_setstacksize(&attributes, STACK_SIZE) == 0 &&
                           pthread_create(thread, &attributes, start, argument) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return is_started;
}

static void run_on_thread(void *(*start)(void *), void *argument)
{
    pthread_t thread;
    if (start_thread(&thread, start, argument)) {
        pthread_join(thread, NULL);
    }
}

static pthread_once_t once_tried = PTHREAD_ONCE_INIT;
static int is_allowed; /* written under once_tried */

static void try_once(void)
{
    run_on_thread(try_to_unshare, &is_allowed);
}

int working_directory_can_be_kept(void)
{
    pthread_once(&once_tried, try_once);
    return is_allowed;
}

/* ---- a directory ---- */

kiln_status working_directory_note(working_directory *ret_directory)
{
    struct stat facts;
    char *path = getcwd(NULL, 0);
    if (!path) {
        return errno == ENOMEM ? KILN_E_NO_MEMORY : KILN_E_UNSUPPORTED;
    }
    if (*path != '/' || stat(".", &facts) != 0) {
        free(path);
        return KILN_E_UNSUPPORTED;
    }
    *ret_directory =
        (working_directory){.path = path, .device = facts.st_dev, .inode = facts.st_ino};
    return KILN_OK;
}

void working_directory_done(working_directory *directory)
{
    free(directory->path);
    *directory = (working_directory){0};
}

void working_directory_run(const working_directory *in, void (*work)(void *user), void *user)
{
    errand of = {.in = in, .work = work, .user = user};
    if (in->path) {
        run_on_thread(run_errand, &of);
    }
    if (!of.is_done) {
        work(user);
    }
}
