/* SPDX-License-Identifier: Apache-2.0 */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../text/exit_code.h"
#include "../text/output.h"

static const int forwarded[] = {SIGINT,  SIGTERM,  SIGHUP,  SIGQUIT, SIGUSR1,
                                SIGUSR2, SIGWINCH, SIGTSTP, SIGCONT};

static int cannot_start(const char *program, int error)
{
    complain("%s: %s", program, strerror(error));
    return error == ENOENT ? EXIT_NO_SUCH_PROGRAM : EXIT_NOT_EXECUTABLE;
}

int program_replace(char **arguments)
{
    execvp(arguments[0], arguments);
    return cannot_start(arguments[0], errno);
}

static sigset_t watched_signals(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    for (size_t i = 0; i < sizeof forwarded / sizeof forwarded[0]; i++) {
        sigaddset(&signals, forwarded[i]);
    }
    return signals;
}

/* The signal state that this process inherited. The program must get the same state. */
typedef struct inherited_signals {
    sigset_t mask;
    struct sigaction child_action;
} inherited_signals;

/* Blocks the signals, so that they stay pending until sigwaitinfo accepts them. */
static void hold_signals(const sigset_t *signals, inherited_signals *ret_inherited)
{
    /* Sets the default action, because the child's status would be lost if this process had
     * inherited SIG_IGN. */
    struct sigaction by_default = {.sa_handler = SIG_DFL};
    sigaction(SIGCHLD, &by_default, &ret_inherited->child_action);
    sigprocmask(SIG_BLOCK, signals, &ret_inherited->mask);
}

static void start_program(char **arguments, const inherited_signals *inherited, int failure_pipe)
{
    sigaction(SIGCHLD, &inherited->child_action, NULL);
    sigprocmask(SIG_SETMASK, &inherited->mask, NULL);
    execvp(arguments[0], arguments);
    int error = errno;
    ssize_t written = write(failure_pipe, &error, sizeof error);
    (void)written; /* if the write failed, the exit status still reports the failure */
    _exit(EXIT_NOT_EXECUTABLE);
}

/* Returns the errno if the program could not be started. Returns 0 once the program runs, because
 * exec closes the pipe. */
static int read_failure(int failure_pipe)
{
    int error = 0;
    ssize_t count;
    do {
        count = read(failure_pipe, &error, sizeof error);
    } while (count < 0 && errno == EINTR);
    return count == (ssize_t)sizeof error ? error : 0;
}

/* Returns true if the program has ended. */
static bool take_status(pid_t program, int *ret_wait_status)
{
    int status;
    while (waitpid(program, &status, WNOHANG | WUNTRACED) == program) {
        if (!WIFSTOPPED(status)) {
            *ret_wait_status = status;
            return true;
        }
        /* Stops this process until it gets a SIGCONT, which is blocked, and forwarded later. */
        raise(SIGSTOP);
    }
    return false;
}

/* Returns true if a process other than the program sent the signal to this process. Returns false
 * for signals from the kernel, such as those of a terminal, because they go to the whole process
 * group. */
static bool was_sent_here(const siginfo_t *info, pid_t program)
{
    return info->si_code <= 0 && info->si_pid != program;
}

static int wait_for_end(pid_t program, const sigset_t *signals)
{
    int wait_status = 0;
    for (;;) {
        siginfo_t info;
        int number = sigwaitinfo(signals, &info);
        if (number == SIGCHLD) {
            if (take_status(program, &wait_status)) {
                return wait_status;
            }
        } else if (number > 0 && was_sent_here(&info, program)) {
            kill(program, number);
        }
    }
}

static int fork_program(char **arguments, const inherited_signals *inherited, pid_t *ret_program)
{
    int failure_pipe[2];
    if (pipe2(failure_pipe, O_CLOEXEC) != 0) {
        return errno;
    }
    pid_t program = fork();
    if (program == 0) {
        start_program(arguments, inherited, failure_pipe[1]);
    }
    int error = program < 0 ? errno : 0;
    close(failure_pipe[1]);
    if (error == 0) {
        error = read_failure(failure_pipe[0]);
        *ret_program = program;
    }
    close(failure_pipe[0]);
    if (program > 0 && error != 0) {
        waitpid(program, NULL, 0);
    }
    return error;
}

int program_run(char **arguments, int *ret_wait_status)
{
    sigset_t signals = watched_signals();
    inherited_signals inherited;
    hold_signals(&signals, &inherited);
    pid_t program = -1;
    int error = fork_program(arguments, &inherited, &program);
    if (error != 0) {
        return cannot_start(arguments[0], error);
    }
    *ret_wait_status = wait_for_end(program, &signals);
    return 0;
}

static void die_by(int number)
{
    prctl(PR_SET_DUMPABLE, 0); /* do not dump core here, because the program has already done so if
                                  it had to */
    struct sigaction by_default = {.sa_handler = SIG_DFL};
    sigaction(number, &by_default, NULL);
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, number);
    sigprocmask(SIG_UNBLOCK, &signals, NULL);
    raise(number);
}

int program_repeat_end(int wait_status)
{
    if (WIFSIGNALED(wait_status)) {
        die_by(WTERMSIG(wait_status));
        return 128 + WTERMSIG(wait_status);
    }
    return WEXITSTATUS(wait_status);
}
