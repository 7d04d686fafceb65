/* SPDX-License-Identifier: Apache-2.0 */
#include "job.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- steps ---- */

static char *job, *job_at;
static size_t job_size;

_Noreturn void job_fail(const char *what, const char *detail)
{
    fprintf(stderr, "differential worker: %s: %s\n", what, detail ? detail : "?");
    _exit(3);
}

static void must(bool succeeded, const char *what, const char *detail)
{
    if (!succeeded) {
        job_fail(what, detail);
    }
}

void job_read(void)
{
    size_t room = 0;
    ssize_t count;
    do {
        if (job_size + 1 >= room) {
            room = room ? 2 * room : 1 << 16;
            job = realloc(job, room);
            must(job != NULL, "a job", "no memory");
        }
        count = read(STDIN_FILENO, job + job_size, room - job_size - 1);
        must(count >= 0, "a job", strerror(errno));
        job_size += (size_t)count;
    } while (count > 0);
    job[job_size] = '\0';
    job_at = job;
}

bool job_next(job_step *ret_step)
{
    if (job_at == job + job_size) {
        return false;
    }
    char *blank = strchr(job_at, ' '), *end;
    must(blank != NULL, "a job", "a step without a size");
    const unsigned long size = strtoul(blank + 1, &end, 10);
    must(*end == '\n' && size < (size_t)(job + job_size - end - 1), "a job", "a step's size");
    *blank = '\0';
    *ret_step = (job_step){.name = job_at, .bytes = end + 1, .size = size};
    end[1 + size] = '\0';
    job_at = end + size + 2;
    return true;
}

bool job_is(const job_step *step, const char *name)
{
    return strcmp(step->name, name) == 0;
}

/* ---- the world ---- */

static struct {
    unsigned mxcsr;
    unsigned short x87;
    bool on_thread;
    const char *keep; /* a folder; NULL: do not keep results */
    time_t clock;
} world = {.mxcsr = 0x1f80, .x87 = 0x37f, .clock = 1600000000};

/* Replaces the C library's function, which compilers call for __DATE__ and __TIME__. */
time_t time(time_t *ret_time)
{
    if (ret_time) {
        *ret_time = world.clock;
    }
    return world.clock;
}

static void set_floating_point(unsigned mxcsr, unsigned short x87)
{
#if defined __x86_64__
    __asm__ volatile("ldmxcsr %0\n\tfldcw %1" : : "m"(mxcsr), "m"(x87));
#else
    (void)mxcsr;
    (void)x87;
#endif
}

static void set_affinity(const char *text)
{
    const unsigned long mask = strtoul(text, NULL, 16);
    cpu_set_t set;
    CPU_ZERO(&set);
    for (unsigned i = 0; i < 8 * sizeof mask; i++) {
        if (mask >> i & 1) {
            CPU_SET(i, &set);
        }
    }
    /* A machine may have fewer processors than the world requests. */
    sched_setaffinity(0, sizeof set, &set);
}

static void set_limit(const char *text)
{
    static const struct {
        const char *name;
        int resource;
    } limits[] = {{"fsize", RLIMIT_FSIZE}, {"nofile", RLIMIT_NOFILE}, {"stack", RLIMIT_STACK},
                  {"core", RLIMIT_CORE},   {"nproc", RLIMIT_NPROC},   {"as", RLIMIT_AS}};
    const size_t length = strcspn(text, " ");
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        if (strlen(limits[i].name) == length && strncmp(limits[i].name, text, length) == 0) {
            struct rlimit limit;
            getrlimit((__rlimit_resource_t)limits[i].resource, &limit);
            limit.rlim_cur = strtoul(text + length, NULL, 10);
            setrlimit((__rlimit_resource_t)limits[i].resource, &limit);
            return;
        }
    }
    job_fail("no such limit", text);
}

/* The child continues with the job, and the parent ends with the child's status. */
static void go_on_in_child(void)
{
    const pid_t child = fork();
    must(child >= 0, "fork", strerror(errno));
    if (child > 0) {
        int status = 0;
        waitpid(child, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    }
}

/* Writes the file of a step "PATH\nCONTENT" in place, so that it keeps its inode number. Sets the
 * file's time to the time that all files have. */
static void write_file(const char *text)
{
    const char *end = strchr(text, '\n');
    must(end != NULL, "write", text);
    char *path = strndup(text, (size_t)(end - text));
    must(path != NULL, "write", "no memory");
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    const size_t size = strlen(end + 1);
    must(file >= 0 && write(file, end + 1, size) == (ssize_t)size, "write", path);
    const struct timespec times[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    futimens(file, times);
    close(file);
    free(path);
}

bool job_change_world(const job_step *step)
{
    if (job_is(step, "chdir")) {
        must(chdir(step->bytes) == 0, "chdir", step->bytes);
    } else if (job_is(step, "clock")) {
        world.clock = (time_t)strtol(step->bytes, NULL, 10);
    } else if (job_is(step, "mxcsr")) {
        world.mxcsr = (unsigned)strtoul(step->bytes, NULL, 16);
    } else if (job_is(step, "x87")) {
        world.x87 = (unsigned short)strtoul(step->bytes, NULL, 16);
    } else if (job_is(step, "locale")) {
        setlocale(LC_ALL, step->bytes);
    } else if (job_is(step, "affinity")) {
        set_affinity(step->bytes);
    } else if (job_is(step, "limit")) {
        set_limit(step->bytes);
    } else if (job_is(step, "thread")) {
        world.on_thread = step->bytes[0] == '1';
    } else if (job_is(step, "fork")) {
        go_on_in_child();
    } else if (job_is(step, "write")) {
        write_file(step->bytes);
    } else if (job_is(step, "unlink")) {
        unlink(step->bytes);
    } else if (job_is(step, "setenv")) {
        char *name = strndup(step->bytes, strcspn(step->bytes, "="));
        must(name && setenv(name, step->bytes + strlen(name) + 1, 1) == 0, "setenv", step->bytes);
        free(name);
    } else if (job_is(step, "keep")) {
        world.keep = step->bytes;
    } else {
        return false;
    }
    return true;
}

static void call_in_mode(void (*function)(void))
{
    set_floating_point(world.mxcsr, world.x87);
    function();
    set_floating_point(0x1f80, 0x37f);
}

static void *start_thread(void *function)
{
    call_in_mode(*(void (**)(void))function);
    return NULL;
}

void job_call(void (*function)(void))
{
    if (!world.on_thread) {
        call_in_mode(function);
        return;
    }
    pthread_t thread;
    must(pthread_create(&thread, NULL, start_thread, &function) == 0, "pthread_create", NULL);
    pthread_join(thread, NULL);
}

/* ---- results ---- */

static char line[1 << 16];
static size_t line_length;
static unsigned line_number;

static void add_to_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void add_to_line(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(line + line_length, sizeof line - line_length, format, arguments);
    va_end(arguments);
    must(length >= 0 && (size_t)length < sizeof line - line_length, "a line", "too long");
    line_length += (size_t)length;
}

void job_begin_line(void)
{
    line_length = 0;
    add_to_line("= %u", line_number);
}

void job_add_number(const char *name, long number)
{
    add_to_line(" %s=%ld", name, number);
}

/* Computes two 64-bit FNV-1a sums, which suffice because no input is made to collide. */
static void digest(const unsigned char *bytes, size_t size, uint64_t sums[2])
{
    sums[0] = 0xcbf29ce484222325;
    sums[1] = 0x84222325cbf29ce4;
    for (size_t i = 0; i < size; i++) {
        sums[0] = (sums[0] ^ bytes[i]) * 0x100000001b3;
        sums[1] = (sums[1] + bytes[i]) * 0x100000001b3 ^ sums[1] >> 29;
    }
}

static bool ends_with(const char *bytes, size_t size, const char *end)
{
    const size_t length = strlen(end);
    return size >= length && memcmp(bytes + size - length, end, length) == 0;
}

size_t job_normalize_log(char *log, size_t size)
{
    static const char temporary[] = "tempfile_";
    size_t kept = 0;
    for (size_t i = 0; i < size;) {
        const bool at_begin =
            i == 0 || log[i - 1] == '\n' || ends_with(log, kept, " included from ");
        const size_t digits = at_begin ? strspn(log + i, "0123456789") : 0;
        if (digits > 0 && log[i + digits] == ':' &&
            strspn(log + i + digits + 1, "0123456789") > 0) {
            i += digits;
        } else if (strncmp(log + i, temporary, sizeof temporary - 1) == 0) {
            i += sizeof temporary - 1;
            i += strcspn(log + i, "./");
        } else {
            log[kept++] = log[i++];
        }
    }
    return kept;
}

static void keep_bytes(const char *name, const void *bytes, size_t size)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%u.%s", world.keep, line_number, name);
    FILE *file = fopen(path, "w");
    must(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0, "keep", path);
}

void job_add_bytes(const char *name, const void *bytes, size_t size)
{
    uint64_t sums[2];
    digest(bytes, size, sums);
    add_to_line(" %s=%zu:%016llx%016llx", name, size, (unsigned long long)sums[0],
                (unsigned long long)sums[1]);
    if (world.keep) {
        keep_bytes(name, bytes, size);
    }
}

void job_end_line(void)
{
    add_to_line("\n");
    for (size_t done = 0; done < line_length;) {
        const ssize_t count = write(STDOUT_FILENO, line + done, line_length - done);
        must(count > 0 || errno == EINTR || errno == EAGAIN, "standard output", strerror(errno));
        done += count > 0 ? (size_t)count : 0;
    }
    line_number++;
}
