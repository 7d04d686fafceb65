/* SPDX-License-Identifier: Apache-2.0 */
#include "os/file_limit.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "os/os.h"

/* What this thread is to find again. */
static _Thread_local struct {
    unsigned depth;
    bool was_blocked;
    bool was_pending; /* only what is blocked can be */
    bool is_reached;
} limit;

static sigset_t signal_of_the_limit(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    return set;
}

static bool is_pending(void)
{
    sigset_t pending;
    return kilni_os()->sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
}

/* Takes one signal that waits, this thread's own before that of its process. */
static bool take(siginfo_t *ret_info)
{
    const sigset_t set = signal_of_the_limit();
    const struct timespec now = {0};
    int number;
    do {
        number = kilni_os()->sigtimedwait(&set, ret_info, &now);
    } while (number < 0 && errno == EINTR);
    return number == SIGXFSZ;
}

/* Nothing else tells whether a signal that waits is the thread's own or the process's. A thread
 * keeps one signal of a kind at most, with what came with the first: so it is the thread's own if
 * this mark is not there afterwards, and what a write causes never adds to either. */
static void put_mark(void)
{
    siginfo_t mark = {.si_signo = SIGXFSZ, .si_code = SI_QUEUE};
    mark.si_pid = getpid();
    mark.si_value.sival_ptr = &limit;
    kilni_os()->queue_signal(&mark);
}

static void take_mark(void)
{
    siginfo_t info;
    const bool is_taken = take(&info);
    if (is_taken && !(info.si_code == SI_QUEUE && info.si_value.sival_ptr == &limit)) {
        kilni_os()->queue_signal(&info);
    }
}

void kilni_file_limit_begin(void)
{
    if (limit.depth++ > 0) {
        return;
    }
    const int error = errno;
    const sigset_t set = signal_of_the_limit();
    sigset_t before;
    sigemptyset(&before);
    kilni_os()->mask_signals(SIG_BLOCK, &set, &before);
    limit.was_blocked = sigismember(&before, SIGXFSZ) == 1;
    limit.was_pending = limit.was_blocked && is_pending();
    limit.is_reached = false;
    if (limit.was_pending) {
        put_mark();
    }
    errno = error;
}

void kilni_file_limit_reached(void)
{
    limit.is_reached = true;
}

void kilni_file_limit_end(void)
{
    if (--limit.depth > 0) {
        return;
    }
    const int error = errno;
    siginfo_t caused;
    if (limit.was_pending) {
        take_mark();
    } else if (limit.is_reached) {
        take(&caused);
    }
    if (!limit.was_blocked) {
        const sigset_t set = signal_of_the_limit();
        kilni_os()->mask_signals(SIG_UNBLOCK, &set, NULL);
    }
    errno = error;
}
