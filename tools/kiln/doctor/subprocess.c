/* SPDX-License-Identifier: Apache-2.0 */
#include "subprocess.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../text/exit_code.h"
#include "../text/memory.h"
#include "../text/units.h"

#define NS_PER_MS 1000000
#define NS_PER_S 1000000000

/* ---- in the process ---- */

static _Noreturn void answer(json_t *(*function)(void *user), void *user, int file)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(STDERR_FILENO,
         STDOUT_FILENO); /* drivers might print text that is not part of the tool's output */
    json_t *value = function(user);
    const bool is_written = json_dumpfd(value, file, JSON_COMPACT) == 0;
    fflush(NULL);
    /* This does not call exit, because a driver's exit handlers might crash after the answer was
     * written. */
    _exit(is_written ? EXIT_OK : EXIT_IO);
}

/* ---- waiting for it ---- */

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* SIGCHLD must be blocked before the call, so that this function misses no SIGCHLD. Returns false
 * if the process was killed. */
static bool wait_for_end(pid_t process, uint64_t wait_ms, int *ret_wait_status)
{
    const int64_t end_ns = now_ns() + (int64_t)wait_ms * NS_PER_MS;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    while (waitpid(process, ret_wait_status, WNOHANG) == 0) {
        const int64_t left_ns = end_ns - now_ns();
        if (left_ns <= 0) {
            /* Does not wait for the process to end, because a process that hangs in the kernel does
             * not end. */
            kill(process, SIGKILL);
            return false;
        }
        const struct timespec left = {.tv_sec = left_ns / NS_PER_S, .tv_nsec = left_ns % NS_PER_S};
        sigtimedwait(&signals, NULL, &left);
    }
    return true;
}

static char *describe_end(int wait_status)
{
    if (WIFSIGNALED(wait_status)) {
        return text_of("ended by signal %d (%s)", WTERMSIG(wait_status),
                       strsignal(WTERMSIG(wait_status)));
    }
    return text_of("ended with exit status %d", WEXITSTATUS(wait_status));
}

static char *describe_limit(uint64_t wait_ms)
{
    char limit[UNIT_TEXT_SIZE];
    return text_of("did not end within %s", format_duration(wait_ms * NS_PER_MS, limit));
}

/* Returns the answer. If there is none, returns NULL and stores the reason. */
static json_t *wait_for_answer(pid_t process, int file, uint64_t wait_ms, char **ret_why)
{
    int wait_status = 0;
    if (!wait_for_end(process, wait_ms, &wait_status)) {
        *ret_why = describe_limit(wait_ms);
        return NULL;
    }
    lseek(file, 0, SEEK_SET);
    json_t *value = json_loadfd(file, 0, NULL);
    if (value == NULL) {
        *ret_why = describe_end(wait_status);
    }
    return value;
}

/* ---- starting it ---- */

static json_t *call(json_t *(*function)(void *user), void *user, uint64_t wait_ms,
                    const sigset_t *mask, char **ret_why)
{
    int file = memfd_create("kiln-answer", MFD_CLOEXEC);
    const pid_t process = file < 0 ? -1 : fork();
    if (process == 0) {
        sigprocmask(SIG_SETMASK, mask, NULL);
        answer(function, user, file);
    }
    json_t *value = NULL;
    if (process < 0) {
        *ret_why = text_of("could not start: %s", strerror(errno));
    } else {
        value = wait_for_answer(process, file, wait_ms, ret_why);
    }
    if (file >= 0) {
        close(file);
    }
    return value;
}

json_t *subprocess_call(json_t *(*function)(void *user), void *user, uint64_t wait_ms,
                        char **ret_why)
{
    sigset_t child_signal, mask;
    struct sigaction action;
    sigemptyset(&child_signal);
    sigaddset(&child_signal, SIGCHLD);
    /* Sets the default action, because the child's status would be lost if this process had
     * inherited SIG_IGN. */
    sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, &action);
    sigprocmask(SIG_BLOCK, &child_signal, &mask);
    json_t *value = call(function, user, wait_ms, &mask, ret_why);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    sigaction(SIGCHLD, &action, NULL);
    return value;
}
