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
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kiln/config.h>
#include <kiln/opencl.h>

#include "key_patterns.h"
#include "output.h"
#include "tool.h"

/* No capture takes so long; a driver that hangs is ended. */
#define SECONDS_MAX 600

/* ---- starting one ---- */

struct variables {
    char **items; /* NULL-ended */
    size_t count;
};

static void add_variable(void *user, const char *name, const char *value)
{
    struct variables *variables = user;
    variables->items =
        must(realloc(variables->items, (variables->count + 2) * sizeof *variables->items));
    variables->items[variables->count++] = text_of("%s=%s", name, value);
    variables->items[variables->count] = NULL;
}

static void free_variables(struct variables *variables)
{
    for (size_t i = 0; i < variables->count; i++) {
        free(variables->items[i]);
    }
    free(variables->items);
}

/* A file without a name that holds the request, or -1. */
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
    char *parent = text_of("%ld", (long)getpid());
    char *directory_copy = must(strdup(directory));
    char name[] = "kiln", command[] = "capture", directory_option[] = "--dir",
         serve_option[] = "--serve";
    char *const arguments[] = {name,   command, directory_option, directory_copy, serve_option,
                               parent, NULL};
    posix_spawn_file_actions_t actions;
    must_succeed(posix_spawn_file_actions_init(&actions));
    must_succeed(posix_spawn_file_actions_adddup2(&actions, request_file, STDIN_FILENO));
    int error = posix_spawn(ret_worker, "/proc/self/exe", &actions, NULL, arguments, environment);
    posix_spawn_file_actions_destroy(&actions);
    free(directory_copy);
    free(parent);
    return error;
}

static enum capture_result result_of(int wait_status)
{
    if (!WIFEXITED(wait_status)) {
        return CAPTURE_FAILED;
    }
    switch (WEXITSTATUS(wait_status)) {
    case EXIT_OK:
        return CAPTURE_SERVED;
    case EXIT_NOTHING_FOUND:
        return CAPTURE_DROPPED;
    case EXIT_IO:
    case EXIT_CONFIGURATION:
        return CAPTURE_LEFT;
    default:
        return CAPTURE_FAILED;
    }
}

enum capture_result capture_in_worker(const char *directory, const kiln_entry *request)
{
    struct variables variables = {0};
    add_variable(&variables, "LC_ALL", "C");
    if (kiln_opencl_report_request(request, add_variable, &variables) != KILN_OK) {
        free_variables(&variables);
        return CAPTURE_DROPPED;
    }
    const char *max_size = getenv("KILN_MAX_SIZE");
    if (max_size != NULL) {
        add_variable(&variables, "KILN_MAX_SIZE", max_size);
    }
    pid_t worker = -1;
    int file = file_of(request);
    int error = file < 0 ? errno : spawn_worker(directory, file, variables.items, &worker);
    free_variables(&variables);
    if (file >= 0) {
        close(file);
    }
    if (error != 0) {
        complain("no process for a capture: %s", strerror(error));
        return CAPTURE_LEFT;
    }
    int wait_status = 0;
    while (waitpid(worker, &wait_status, 0) < 0 && errno == EINTR) {
    }
    return result_of(wait_status);
}

/* ---- being one ---- */

/* Returns true where this process will end with its parent. */
static bool end_with(const char *parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return strtol(parent, NULL, 10) == (long)getppid();
}

static kiln_entry *read_request(void)
{
    struct stat status;
    if (fstat(STDIN_FILENO, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0) {
        return NULL;
    }
    size_t size = (size_t)status.st_size;
    void *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, STDIN_FILENO, 0);
    kiln_entry *request = NULL;
    if (bytes != MAP_FAILED) {
        kiln_entry_decode(bytes, size, &request);
        munmap(bytes, size);
    }
    return request;
}

static int exit_code_of_service(kiln_status status)
{
    switch (status) {
    case KILN_OK:
        return EXIT_OK;
    case KILN_E_UNSUPPORTED:
    case KILN_E_CORRUPT:
        return EXIT_NOTHING_FOUND;
    case KILN_E_BUILD:
    case KILN_E_TOO_LARGE:
        return EXIT_DAMAGED;
    default:
        return EXIT_IO;
    }
}

int capture_worker(kiln_store *store, const char *parent)
{
    kiln_entry *request = end_with(parent) ? read_request() : NULL;
    if (request == NULL) {
        complain("--serve is what this command calls itself with");
        return EXIT_USAGE;
    }
    alarm(SECONDS_MAX);
    kiln_config *config = NULL;
    must_succeed(kiln_config_from_env(NULL, NULL, &config));
    const char **more = key_patterns(config);
    kiln_error error = {.struct_size = sizeof error};
    kiln_status status = kiln_opencl_serve_request(store, request, more, &error);
    if (status != KILN_OK) {
        complain("a request was not served: %s",
                 error.text[0] != '\0' ? error.text : kiln_status_text(status));
    }
    free(more);
    kiln_config_free(&config);
    kiln_entry_release(&request);
    return exit_code_of_service(status);
}
