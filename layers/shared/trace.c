/* SPDX-License-Identifier: Apache-2.0 */
#include "trace.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "os/file_limit.h"
#include "os/os.h"
#include "os/owned_descriptor.h"

/* Written once, before any request. */
static kilni_owned_descriptor trace_file = {.file = -1};
static int is_stderr;

void trace_open(const char *target)
{
    if (!target) {
        return;
    }
    if (strcmp(target, "-") == 0) {
        is_stderr = 1;
        return;
    }
    const int file = kilni_os()->openat(
        AT_FDCWD, target, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
    if (file >= 0 && kilni_owned_descriptor_take(file, &trace_file) != KILN_OK) {
        close(file);
    }
}

/* Returns the descriptor to write to; -1 if there is none or the application has closed it. */
static int current_target(void)
{
    if (is_stderr) {
        return STDERR_FILENO;
    }
    return kilni_owned_descriptor_is_intact(&trace_file) ? trace_file.file : -1;
}

/* A closed pipe or a limit on file sizes must not end the application. So this function blocks
 * SIGPIPE and SIGXFSZ during the write, and consumes those of these signals that the write has
 * caused. */
static void write_without_signal(int target, const char *line, size_t size)
{
    sigset_t pipe, before, pending;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    const int was_pending = sigismember(&pending, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before);
    kilni_file_limit_begin();
    const int error = write(target, line, size) < 0 ? errno : 0;
    if (error == EFBIG) {
        kilni_file_limit_reached();
    }
    kilni_file_limit_end();
    if (error == EPIPE && !was_pending) {
        const struct timespec now = {0};
        sigtimedwait(&pipe, NULL, &now);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Writes a line with a single call of write, so that the lines of several threads and processes do
 * not mix. */
static void write_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void write_line(const char *format, ...)
{
    const int target = current_target();
    if (target < 0) {
        return;
    }
    char line[1024];
    const int head = snprintf(line, sizeof line, "kiln[%ld] ", (long)getpid());
    va_list arguments;
    va_start(arguments, format);
    const int body = vsnprintf(line + head, sizeof line - (size_t)head - 1, format, arguments);
    va_end(arguments);
    if (body < 0) {
        return;
    }
    size_t size = strlen(line);
    for (size_t i = 0; i < size; i++) {
        line[i] = line[i] == '\n' || line[i] == '\r' ? ' ' : line[i];
    }
    line[size++] = '\n';
    write_without_signal(target, line, size);
}

static double milliseconds(uint64_t ns)
{
    return (double)ns / 1e6;
}

static const char *outcome(const kilni_request_result *result, kiln_status status)
{
    if (status != KILN_OK) {
        return "failed";
    }
    switch (result->source) {
    case KILNI_FROM_MEMORY:
        return "hit-memory";
    case KILNI_FROM_STORE:
        return "hit-store";
    case KILNI_FROM_BUILD:
        return "built";
    case KILNI_FROM_PRIVATE_BUILD:
        break;
    }
    return "built-privately";
}

void trace_request(const char *door, const kiln_key *key, const kilni_request_result *result,
                   kiln_status status)
{
    if (!is_stderr && trace_file.file < 0) {
        return;
    }
    char digest[KILN_DIGEST_TEXT_SIZE];
    const kiln_digest found = kiln_key_digest(key);
    kiln_digest_format(&found, digest);
    const int was_built =
        result->source == KILNI_FROM_BUILD || result->source == KILNI_FROM_PRIVATE_BUILD;
    write_line("%s key=%s door=%s load=%.3fms build=%.3fms wait=%.3fms%s%s%s%s",
               outcome(result, status), digest, door, milliseconds(result->load_ns),
               milliseconds(result->build_ns), milliseconds(result->wait_ns),
               result->store != KILN_OK ? " store=" : "",
               result->store != KILN_OK ? kiln_status_name(result->store) : "",
               was_built && result->kept != KILN_OK ? " kept=" : "",
               was_built && result->kept != KILN_OK ? kiln_status_name(result->kept) : "");
}

void trace_passed(const char *call, const char *reason)
{
    write_line("passed-through %s: %s", call, reason);
}

void trace_note(const char *text)
{
    write_line("note: %s", text);
}

/* `kiln why` reads this line too. */
void trace_changed(const kiln_key *key, const char *path)
{
    char digest[KILN_DIGEST_TEXT_SIZE];
    const kiln_digest found = kiln_key_digest(key);
    kiln_digest_format(&found, digest);
    write_line("note: key=%s was made from a different %s", digest, path);
}
