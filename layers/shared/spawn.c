/* SPDX-License-Identifier: Apache-2.0
 *
 * Works like posix_spawn: the child runs in this process's memory, on its own stack, while the
 * calling thread waits. An intermediate process starts the program and exits immediately, so that
 * the program is not a child of the application. The intermediate process is cloned without an exit
 * signal. This hides it from wait(), waitpid(-1) and SIGCHLD handlers. Only this code reaps it,
 * with __WCLONE, which is needed for children without an exit signal.
 */
#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK_SIZE ((size_t)128 << 10)
#define DESCRIPTORS_MAX 65536

typedef struct spawn_call {
    const char *path;
    char *const *arguments;
    char *const *environment;
    char *inner_stack_end;
    sigset_t no_signals;
    int was_started; /* written by the innermost child, in this process's memory */
} spawn_call;

/* ---- in the children: only system calls ---- */

static void reset_signals(void)
{
    struct sigaction by_default = {.sa_handler = SIG_DFL};
    for (int number = 1; number < NSIG; number++) {
        sigaction(number, &by_default, NULL); /* fails for signals whose action cannot be set */
    }
}

static void close_descriptors(void)
{
#ifdef SYS_close_range
    if (syscall(SYS_close_range, 3u, ~0u, 0u) == 0) {
        return;
    }
#endif
    for (int file = 3; file < DESCRIPTORS_MAX; file++) {
        close(file);
    }
}

static int use_no_terminal(void)
{
    for (int file = 0; file < 3; file++) {
        close(file);
    }
    return open("/dev/null", O_RDWR) == 0 && dup(0) == 1 && dup(0) == 2;
}

static int run_program(void *argument)
{
    spawn_call *call = argument;
    if (chdir("/") == 0 && use_no_terminal()) {
        close_descriptors();
        reset_signals();
        sigprocmask(SIG_SETMASK, &call->no_signals, NULL);
        call->was_started = 1;
        execve(call->path, call->arguments, call->environment);
        call->was_started = 0;
    }
    _exit(127);
}

/* With sched_autogroup, the scheduler treats a session as a unit. Nice values then have an effect
 * only among the processes of one session. So this function lowers the priority of the whole
 * session. */
static void lower_session_priority(void)
{
    const int file = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
    if (file >= 0) {
        if (write(file, "19", 2) != 2) {
            /* A failure is not fatal: the helper then runs at a higher priority. */
        }
        close(file);
    }
}

static int leave_application(void *argument)
{
    spawn_call *call = argument;
    if (setsid() >= 0) {
        lower_session_priority();
    }
    clone(run_program, call->inner_stack_end, CLONE_VM | CLONE_VFORK, call);
    _exit(0);
}

/* ---- in the application ---- */

static int gets_orphans(void)
{
    int is_subreaper = 0;
    return getpid() == 1 ||
           (prctl(PR_GET_CHILD_SUBREAPER, &is_subreaper, 0, 0, 0) == 0 && is_subreaper);
}

/* A program that has put aside the rights of root, or of a set-user-ID program, can take them back,
 * and so could what it executes. */
static int has_other_rights(void)
{
    return getuid() != geteuid() || getgid() != getegid();
}

static void clone_and_reap(spawn_call *call, char *stack_end)
{
    /* The children use this thread's memory. So they must not act on a cancellation of this thread,
     * and must not run the application's signal handlers. */
    int cancel_state = PTHREAD_CANCEL_ENABLE;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const pid_t child = clone(leave_application, stack_end, CLONE_VM | CLONE_VFORK, call);
    while (child > 0 && waitpid(child, NULL, __WCLONE) < 0 && errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_setcancelstate(cancel_state, &cancel_state);
}

int spawn_detached(const char *path, char *const *arguments, char *const *environment)
{
    if (gets_orphans() || has_other_rights()) {
        return 0;
    }
    char *stacks = mmap(NULL, 2 * STACK_SIZE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stacks == MAP_FAILED) {
        return 0;
    }
    spawn_call call = {
        .path = path,
        .arguments = arguments,
        .environment = environment,
        .inner_stack_end = stacks + 2 * STACK_SIZE,
    };
    sigemptyset(&call.no_signals);
    const int error = errno;
    clone_and_reap(&call, stacks + STACK_SIZE);
    munmap(stacks, 2 * STACK_SIZE);
    errno = error;
    return call.was_started;
}
