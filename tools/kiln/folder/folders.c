/* SPDX-License-Identifier: Apache-2.0 */
#include "folders.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "../text/json.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "helper.h"
#include "place.h"
#include "setting.h"

/* How long the start of a program waits for folders that have no trigger, and how long its end
 * waits until their last states are kept. */
#define START_MS 5000
#define END_MS 60000

struct folder_run {
    folder_setting setting;
    helper_order order;
    helper_count *counts; /* NULL: not known */
    int end, report;      /* this process's ends of the helper's pipes; -1: none */
};

/* ---- start ---- */

static void choose_folders(folder_run *run, int place, bool is_watched)
{
    const folder_setting *setting = &run->setting;
    run->order.folders = must(calloc(setting->count, sizeof *run->order.folders));
    for (size_t i = 0; i < setting->count; i++) {
        const folder_cache *cache = &setting->caches[i];
        owned char *reason = folder_reason_against(cache);
        if (reason == NULL && (is_watched || cache->triggers == NULL)) {
            run->order.folders[run->order.count++] =
                (kept_folder){.cache = cache,
                              .path = folder_path(setting, cache),
                              .place = place,
                              .folder = -1,
                              .own = -1};
        }
    }
}

static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (made >= 0 && (bind(made, (const struct sockaddr *)&address, sizeof address) != 0 ||
                      listen(made, SOMAXCONN) != 0)) {
        close(made);
        return -1;
    }
    return made;
}

/* Sets the variables of the caches, and the one in which the audit library finds the socket and the
 * beginnings of the libraries' names for which it asks. */
static bool set_variables(const helper_order *order)
{
    bool has_untriggered = false;
    owned char *ask = must(strdup(order->socket_path));
    for (size_t i = 0; i < order->count; i++) {
        const folder_cache *cache = order->folders[i].cache;
        for (size_t n = 0; n < FOLDER_NAMES_MAX && cache->variables[n] != NULL; n++) {
            must_succeed(setenv(cache->variables[n], order->folders[i].path, 1));
        }
        if (cache->triggers == NULL) {
            has_untriggered = true;
        } else {
            owned char *before = ask;
            ask = text_of("%s:%s", before, cache->triggers);
        }
    }
    if (has_untriggered) {
        owned char *before = ask;
        ask = text_of("%s:%s", before, HELPER_BYE);
    }
    must_succeed(setenv("KILN_FOLDERS_ASK", ask, 1));
    return has_untriggered;
}

static bool can_start(folder_run *run, bool is_watched, bool is_awaited)
{
    return !run->setting.is_off && (is_watched || is_awaited) && getauxval(AT_SECURE) == 0;
}

static void free_run(folder_run *run)
{
    for (size_t i = 0; i < run->order.count; i++) {
        free(run->order.folders[i].path);
    }
    free(run->order.folders);
    free(run->order.socket_path);
    folder_setting_free(&run->setting);
    free(run);
}

/* Makes a pipe of which the helper gets one end: 0 to read from, 1 to write to. */
static bool make_pipe(int end_of_helper, int *ret_of_helper, int *ret_own)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return false;
    }
    *ret_of_helper = ends[end_of_helper];
    *ret_own = ends[1 - end_of_helper];
    return true;
}

static bool start_helper(folder_run *run, bool is_awaited)
{
    helper_order *order = &run->order;
    int ready = -1;
    order->program = getpid();
    order->program_handle = (int)syscall(SYS_pidfd_open, order->program, 0);
    order->requests = listen_at(order->socket_path);
    bool is_started =
        order->program_handle >= 0 && order->requests >= 0 && make_pipe(1, &order->ready, &ready) &&
        (!is_awaited ||
         (make_pipe(0, &order->end, &run->end) && make_pipe(1, &order->report, &run->report)));
    is_started = is_started && helper_start(order);
    const bool waits = is_started && set_variables(order);
    if (!is_started) {
        unlink(order->socket_path);
    }
    const int of_helper[] = {order->program_handle, order->requests, order->ready, order->end,
                             order->report};
    for (size_t i = 0; i < sizeof of_helper / sizeof of_helper[0]; i++) {
        if (of_helper[i] >= 0) {
            close(of_helper[i]);
        }
    }
    if (is_started && waits) {
        struct pollfd done = {.fd = ready, .events = POLLIN};
        poll(&done, 1, START_MS);
    }
    if (ready >= 0) {
        close(ready);
    }
    return is_started;
}

/* If this process was started without standard descriptors, makes the helper's descriptors others
 * than these, which the helper replaces. The program is started without them, too. */
static void occupy_standard_descriptors(void)
{
    int opened;
    do {
        opened = open("/dev/null", O_RDWR | O_CLOEXEC);
    } while (opened >= 0 && opened <= STDERR_FILENO);
    if (opened >= 0) {
        close(opened);
    }
}

folder_run *folder_run_start(bool is_watched, bool is_awaited)
{
    folder_run *run = must(calloc(1, sizeof *run));
    run->setting = folder_setting_read();
    run->end = run->report = -1;
    occupy_standard_descriptors();
    run->order =
        (helper_order){.program_handle = -1, .requests = -1, .ready = -1, .end = -1, .report = -1};
    run->order.socket_path = place_socket_path(run->setting.place);
    const int place = can_start(run, is_watched, is_awaited) ? place_open(run->setting.place) : -1;
    if (place >= 0) {
        choose_folders(run, place, is_watched);
    }
    const bool is_started = run->order.count > 0 && start_helper(run, is_awaited);
    if (place >= 0) {
        close(place);
    }
    if (!is_started) {
        free_run(run);
        return NULL;
    }
    return run;
}

/* ---- end ---- */

static void read_counts(folder_run *run)
{
    const size_t size = run->order.count * sizeof *run->counts;
    size_t done = 0;
    run->counts = must(calloc(run->order.count, sizeof *run->counts));
    while (done < size) {
        struct pollfd report = {.fd = run->report, .events = POLLIN};
        const ssize_t count = poll(&report, 1, END_MS) == 1
                                  ? read(run->report, (char *)run->counts + done, size - done)
                                  : 0;
        if (count <= 0) {
            free(run->counts);
            run->counts = NULL;
            return;
        }
        done += (size_t)count;
    }
}

void folder_run_end(folder_run *run, bool is_orderly)
{
    if (run == NULL || run->end < 0) {
        return;
    }
    const char word = HELPER_ORDERLY;
    signal(SIGPIPE, SIG_IGN);
    const ssize_t written = is_orderly ? write(run->end, &word, 1) : 0;
    (void)written; /* if the helper has ended, there is nothing to tell it */
    close(run->end);
    read_counts(run);
    close(run->report);
}

/* Returns the count of a folder; NULL if nothing was done there, or that is not known. */
static const helper_count *count_of(const folder_run *run, size_t i)
{
    const helper_count *count = run->counts == NULL ? NULL : &run->counts[i];
    return count != NULL && count->files_filled + count->files_kept > 0 ? count : NULL;
}

bool folder_run_print(const folder_run *run)
{
    bool has_printed = false;
    for (size_t i = 0; run != NULL && i < run->order.count; i++) {
        const helper_count *count = count_of(run, i);
        if (count != NULL) {
            fprintf(stderr, "kiln: folder of %s: %" PRIu64 " %s from the store, %" PRIu64 " kept\n",
                    run->order.folders[i].cache->name, count->files_filled,
                    noun_of(count->files_filled, "file", "files"), count->files_kept);
            has_printed = true;
        }
    }
    return has_printed;
}

void folder_run_add_json(const folder_run *run, json_t *summary)
{
    json_t *all = must(json_object());
    for (size_t i = 0; run != NULL && i < run->order.count; i++) {
        const helper_count *count = count_of(run, i);
        if (count != NULL) {
            json_t *one = must(json_object());
            json_add(one, "files_from_store", json_number(count->files_filled));
            json_add(one, "files_kept", json_number(count->files_kept));
            json_add(all, run->order.folders[i].cache->name, one);
        }
    }
    if (json_object_size(all) > 0) {
        json_add(summary, "folders", all);
    } else {
        json_decref(all);
    }
}
