/* SPDX-License-Identifier: Apache-2.0 */
#include "capture_worker.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kiln/config.h>
#include <kiln/opencl.h>

#include "../command/directory.h"
#include "../text/exit_code.h"
#include "../text/memory.h"
#include "../text/output.h"

/* No capture takes this much processor time. A worker that has used it is killed, because its
 * driver must be in an endless loop. */
#define PROCESSOR_SECONDS_MAX 600

/* A worker that uses little processor time is given hours of real time, because other processes
 * might keep it from running. After that time it is killed too, because its driver might wait
 * forever. */
#define SECONDS_MAX (6 * 3600)

/* The worker's exit codes. These numbers are unusual because drivers and their libraries also call
 * exit. Any other exit code means that the request has failed. */
enum { ANSWER_SERVED = 40, ANSWER_DROPPED, ANSWER_LEFT };

/* ---- starting a worker ---- */

typedef struct capture_variables {
    char **items; /* the last item is NULL */
    size_t count;
} capture_variables;

static void add_variable(void *user, const char *name, const char *value)
{
    capture_variables *variables = user;
    variables->items =
        must(realloc(variables->items, (variables->count + 2) * sizeof *variables->items));
    variables->items[variables->count++] = text_of("%s=%s", name, value);
    variables->items[variables->count] = NULL;
}

static void pass_on(capture_variables *variables, const char *name)
{
    const char *value = getenv(name);
    if (value != NULL) {
        add_variable(variables, name, value);
    }
}

static void free_variables(capture_variables *variables)
{
    for (size_t i = 0; i < variables->count; i++) {
        free(variables->items[i]);
    }
    free(variables->items);
}

/* Returns an unnamed file that contains the request, or -1. */
static int file_of(const kiln_entry *request)
{
    kiln_bytes bytes = kiln_entry_encoding(request);
    int file = memfd_create("kiln-request", MFD_CLOEXEC);
    const char *at = bytes.data;
    while (file >= 0 && bytes.size > 0) {
        ssize_t written = write(file, at, bytes.size);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            close(file);
            return -1;
        }
        at += written;
        bytes.size -= (size_t)written;
    }
    if (file >= 0) {
        lseek(file, 0, SEEK_SET);
    }
    return file;
}

static int spawn_worker(const char *directory, int request_file, char **environment,
                        pid_t *ret_worker)
{
    owned char *parent = text_of("%ld", (long)getpid());
    owned char *directory_copy = must(strdup(directory));
    char name[] = "kiln", command[] = "capture", directory_option[] = "--dir",
         serve_option[] = "--serve";
    char *const arguments[] = {name,   command, directory_option, directory_copy, serve_option,
                               parent, NULL};
    posix_spawn_file_actions_t actions;
    must_succeed(posix_spawn_file_actions_init(&actions));
    must_succeed(posix_spawn_file_actions_adddup2(&actions, request_file, STDIN_FILENO));
    int error = posix_spawn(ret_worker, "/proc/self/exe", &actions, NULL, arguments, environment);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* The system sends SIGKILL to a process that reaches its hard limit of processor time. Other
 * reasons for a SIGKILL are that memory ran out, or that a service manager stops a service. */
static bool has_used_all_time(const struct rusage *used)
{
    return used->ru_utime.tv_sec + used->ru_stime.tv_sec + 1 >= PROCESSOR_SECONDS_MAX;
}

static capture_result result_of_signal(int number, const struct rusage *used)
{
    switch (number) {
    case SIGSEGV:
    case SIGBUS:
    case SIGILL:
    case SIGFPE:
    case SIGABRT:
        return CAPTURE_FAILED;
    case SIGALRM:
        return CAPTURE_ENDLESS;
    default:
        return has_used_all_time(used) ? CAPTURE_ENDLESS : CAPTURE_INTERRUPTED;
    }
}

static capture_result result_of(int wait_status, const struct rusage *used)
{
    if (!WIFEXITED(wait_status)) {
        return result_of_signal(WTERMSIG(wait_status), used);
    }
    switch (WEXITSTATUS(wait_status)) {
    case ANSWER_SERVED:
        return CAPTURE_SERVED;
    case ANSWER_DROPPED:
        return CAPTURE_DROPPED;
    case ANSWER_LEFT:
        return CAPTURE_LEFT;
    default:
        return CAPTURE_FAILED;
    }
}

/* The variables that decide how results are stored come from this process. The variables that
 * influence the build come from the request. If two variables have the same name, the first is
 * used. */
static void pass_on_settings(capture_variables *variables)
{
    static const char *const passed_on[] = {"KILN_MAX_SIZE",
                                            "KILN_STATS",
                                            "KILN_SIGNING_KEY_FILE",
                                            "KILN_KEY_FILE",
                                            "KILN_HTTP_TOKEN_FILE",
                                            "REDISCLI_AUTH",
                                            "KILN_SECRET_KEY_FILE",
                                            "XDG_CONFIG_HOME",
                                            "AWS_ACCESS_KEY_ID",
                                            "AWS_SECRET_ACCESS_KEY",
                                            "AWS_SESSION_TOKEN",
                                            "AWS_SHARED_CREDENTIALS_FILE",
                                            "AWS_REGION",
                                            "AWS_DEFAULT_REGION"};
    for (size_t i = 0; i < sizeof passed_on / sizeof passed_on[0]; i++) {
        pass_on(variables, passed_on[i]);
    }
}

capture_result capture_in_worker(const char *directory, const kiln_entry *request)
{
    capture_variables variables = {.items = must(calloc(1, sizeof *variables.items))};
    pass_on_settings(&variables);
    const kiln_status status = kiln_opencl_report_request(request, add_variable, &variables);
    if (status != KILN_OK) {
        free_variables(&variables);
        return status == KILN_E_CORRUPT ? CAPTURE_DROPPED : CAPTURE_LEFT;
    }
    /* Sets the default action, because there would be no exit status if this process had inherited
     * SIG_IGN. */
    signal(SIGCHLD, SIG_DFL);
    pid_t worker = -1;
    int file = file_of(request);
    int error = file < 0 ? errno : spawn_worker(directory, file, variables.items, &worker);
    free_variables(&variables);
    if (file >= 0) {
        close(file);
    }
    if (error != 0) {
        complain("can't start a process for a capture: %s", strerror(error));
        return CAPTURE_LEFT;
    }
    int wait_status = 0;
    struct rusage used = {0};
    pid_t ended;
    do {
        ended = wait4(worker, &wait_status, 0, &used);
    } while (ended < 0 && errno == EINTR);
    return ended == worker ? result_of(wait_status, &used) : CAPTURE_LEFT;
}

/* ---- in the worker ---- */

/* Makes the system end this process when its parent ends. Returns false if the parent is not
 * @parent. */
static bool end_with(const char *parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return strtol(parent, NULL, 10) == (long)getppid();
}

/* If this process ends before a driver is loaded, the request is not the cause. */
static bool is_preparing;

static void exit_while_preparing(void)
{
    if (is_preparing) {
        _exit(ANSWER_LEFT);
    }
}

/* Sets the hard limit, because a driver cannot catch the signal that is sent at this limit. */
static void limit_time(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_CPU, &limit) == 0) {
        if (limit.rlim_max > PROCESSOR_SECONDS_MAX) {
            limit.rlim_max = PROCESSOR_SECONDS_MAX;
        }
        if (limit.rlim_cur > limit.rlim_max) {
            limit.rlim_cur = limit.rlim_max;
        }
        setrlimit(RLIMIT_CPU, &limit);
    }
    signal(SIGALRM, SIG_DFL);
    alarm(SECONDS_MAX);
}

static kiln_status read_request(kiln_entry **ret_request)
{
    struct stat status;
    if (fstat(STDIN_FILENO, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0) {
        return KILN_E_IO;
    }
    size_t size = (size_t)status.st_size;
    void *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, STDIN_FILENO, 0);
    if (bytes == MAP_FAILED) {
        return KILN_E_IO;
    }
    const kiln_status decoded = kiln_entry_decode(bytes, size, ret_request);
    munmap(bytes, size);
    return decoded;
}

static int answer_of(kiln_status status)
{
    switch (status) {
    case KILN_OK:
        return ANSWER_SERVED;
    case KILN_E_UNSUPPORTED:
    case KILN_E_CORRUPT:
        return ANSWER_DROPPED;
    case KILN_E_BUILD:
    case KILN_E_TOO_LARGE:
        return EXIT_DAMAGED;
    default:
        return ANSWER_LEFT;
    }
}

/* Counts a result for which there was no room. Its request stays. */
static void count_dropped(kiln_store *store, const kiln_config *config)
{
    const kiln_stats dropped = {.dropped = 1};
    kiln_store_add_stats(store, &dropped);
    if (config->stats != NULL) {
        kiln_stats_add_to_file(config->stats, &dropped);
    }
}

static kiln_status serve(kiln_store *store, kiln_error *error)
{
    kiln_config *config = NULL;
    kiln_entry *request = NULL;
    must_succeed(kiln_config_from_env(NULL, NULL, &config));
    kiln_status status = read_request(&request);
    is_preparing = false;
    if (status == KILN_OK) {
        status = kiln_opencl_serve_request(store, request, config->key_variables, error);
    }
    if (status == KILN_E_FULL) {
        count_dropped(store, config);
    }
    kiln_config_free(&config);
    kiln_entry_release(&request);
    return status;
}

int capture_worker(const char *directory_option, const char *parent)
{
    if (!end_with(parent)) {
        /* kiln capture was killed, and nobody waits; or a user has tried an internal option. */
        return EXIT_USAGE;
    }
    is_preparing = true;
    must_succeed(atexit(exit_while_preparing));
    limit_time();
    cache_directory directory;
    if (directory_try_open(directory_option, KILN_STORE_NO_CREATE, &directory) != EXIT_OK ||
        directory.store == NULL) {
        _exit(ANSWER_LEFT);
    }
    kiln_error error = {.struct_size = sizeof error};
    const kiln_status status = serve(directory.store, &error);
    if (status != KILN_OK) {
        complain("a request was not served: %s", error_text(&error, status));
    }
    directory_close(&directory);
    fflush(NULL);
    /* This does not call exit, because a driver's exit handlers might crash after the result was
     * stored. */
    _exit(answer_of(status));
}
