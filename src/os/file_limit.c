/* SPDX-License-Identifier: Apache-2.0 */
#include "os/file_limit.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "os/os.h"

/* The state that kilni_file_limit_end must restore. */
static _Thread_local struct {
    unsigned depth;
    bool was_blocked;
    bool was_pending; /* a signal can be pending only if it is blocked */
    bool is_reached;
} limit;

static sigset_t limit_signals(void)
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

/* Consumes one pending SIGXFSZ. The system returns a signal that was sent to the thread before one
 * that was sent to the process. */
static bool take(siginfo_t *ret_info)
{
    const sigset_t set = limit_signals();
    const struct timespec now = {0};
    int number;
    do {
        number = kilni_os()->sigtimedwait(&set, ret_info, &now);
    } while (number < 0 && errno == EINTR);
    return number == SIGXFSZ;
}

/* Sends this thread a SIGXFSZ that can be recognized, which serves as a mark. The system does not
 * report whether a pending signal was sent to the thread or to the process. A thread keeps at most
 * one pending signal of each number, with the siginfo of the first. So if the next signal that is
 * taken is not the mark, that signal was already pending for the thread, and the system dropped the
 * mark. Either way, a signal is pending for the thread, so the system drops any signal that a write
 * causes. */
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
    const sigset_t set = limit_signals();
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
        const sigset_t set = limit_signals();
        kilni_os()->mask_signals(SIG_UNBLOCK, &set, NULL);
    }
    errno = error;
}
