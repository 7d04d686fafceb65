/* SPDX-License-Identifier: Apache-2.0 */
#include "helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <kiln/config.h>

#include "place.h"

/* Between two looks at a folder: the time is doubled as long as nothing changes. */
#define PERIOD_MIN_MS 500
#define PERIOD_MAX_MS 30000

/* How long the helper works after the program has ended. */
#define LATE_MS 30000

/* How long a program has for writing its request. */
#define REQUEST_MS 1000

typedef struct helper {
    const helper_order *order;
    kiln_config *config;
    kiln_store *store;
    bool is_orderly; /* the program, which need not use a folder, has announced its end */
    bool has_ended;
    int64_t deadline_ms; /* valid once the program has ended */
} helper;

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool is_ready(int file, int wait_ms)
{
    struct pollfd ready = {.fd = file, .events = POLLIN};
    return poll(&ready, 1, wait_ms) > 0;
}

static bool has_program_ended(const helper_order *order)
{
    return is_ready(order->end >= 0 ? order->end : order->program_handle, 0);
}

/* Returns whether to stop filling: that only serves the program. */
static bool is_fill_due(void *user)
{
    const helper *self = user;
    return has_program_ended(self->order);
}

/* ---- requests ---- */

/* Opens the store when the first folder is opened, since most programs need none. */
static void open_store(helper *self)
{
    if (self->config != NULL || kiln_config_from_env(NULL, NULL, &self->config) != KILN_OK ||
        self->config->location == NULL) {
        return;
    }
    kiln_store_params params = {.struct_size = sizeof params};
    kiln_config_get_store(self->config, &params);
    kiln_store_open(self->config->location, &params, &self->store, NULL);
}

/* Returns whether the list of beginnings, which are separated by ':', has one of @library. */
static bool is_triggered(const char *beginnings, const char *library)
{
    while (beginnings != NULL && *beginnings != '\0') {
        const size_t length = strcspn(beginnings, ":");
        if (strncmp(library, beginnings, length) == 0) {
            return true;
        }
        beginnings += length + (beginnings[length] == ':');
    }
    return false;
}

static void open_untriggered(helper *self)
{
    for (size_t i = 0; i < self->order->count; i++) {
        kept_folder *kept = &self->order->folders[i];
        if (kept->cache->triggers == NULL) {
            open_store(self);
            kept_folder_open(kept, self->store, (snapshot_stop){is_fill_due, self});
        }
    }
}

static void open_triggered(helper *self, const char *library, pid_t user)
{
    for (size_t i = 0; i < self->order->count; i++) {
        kept_folder *kept = &self->order->folders[i];
        if (is_triggered(kept->cache->triggers, library)) {
            open_store(self);
            kept_folder_open(kept, self->store, (snapshot_stop){is_fill_due, self});
            kept_folder_add_user(kept, user);
        }
    }
}

static void note_end(helper *self, pid_t user)
{
    for (size_t i = 0; i < self->order->count; i++) {
        kept_folder_remove_user(&self->order->folders[i], user);
    }
    self->is_orderly |= user == self->order->program;
}

static void answer(helper *self)
{
    char request[256];
    struct ucred sender = {0};
    socklen_t size = sizeof sender;
    const int opened = accept4(self->order->requests, NULL, NULL, SOCK_CLOEXEC);
    if (opened < 0) {
        return;
    }
    const ssize_t length =
        is_ready(opened, REQUEST_MS) ? read(opened, request, sizeof request - 1) : -1;
    if (length > 0 && getsockopt(opened, SOL_SOCKET, SO_PEERCRED, &sender, &size) == 0 &&
        sender.uid == geteuid()) {
        request[length] = '\0';
        if (strcmp(request, HELPER_BYE) == 0) {
            note_end(self, sender.pid);
        } else {
            open_triggered(self, request, sender.pid);
        }
    }
    close(opened); /* the process waits for this */
}

static void answer_all(helper *self)
{
    while (is_ready(self->order->requests, 0)) {
        answer(self);
    }
}

/* ---- the process ---- */

/* Returns whether to stop keeping. Processes that ask for folders meanwhile are answered. */
static bool is_keep_due(void *user)
{
    helper *self = user;
    if (!self->has_ended) {
        answer_all(self);
    }
    return self->has_ended ? now_ms() > self->deadline_ms : has_program_ended(self->order);
}

static kept_state keep(helper *self, kept_folder *kept)
{
    return self->store == NULL || self->config->readonly
               ? KEPT_UNCHANGED
               : kept_folder_keep(kept, self->store, self->has_ended,
                                  (snapshot_stop){is_keep_due, self});
}

/* Returns whether a process that used a folder was killed. */
static bool has_lost_user(helper *self, const kept_folder *kept)
{
    if (!kept_folder_lost_user(kept)) {
        return false;
    }
    answer_all(self); /* it may have announced its end before it ended */
    return kept_folder_lost_user(kept);
}

/* Keeps all folders that are in use. Returns whether any is changing. */
static bool keep_folders(helper *self)
{
    bool has_changed = false;
    for (size_t i = 0; i < self->order->count; i++) {
        kept_folder *kept = &self->order->folders[i];
        if (kept->key != NULL && !has_lost_user(self, kept)) {
            const kept_state state = keep(self, kept);
            has_changed |= state == KEPT_NOW || state == KEPT_LATER;
        }
    }
    return has_changed;
}

/* Returns whether any folder is in use. */
static bool has_work(const helper *self)
{
    for (size_t i = 0; i < self->order->count; i++) {
        if (self->order->folders[i].key != NULL) {
            return true;
        }
    }
    return false;
}

static void follow_program(helper *self)
{
    const helper_order *order = self->order;
    int period_ms = PERIOD_MIN_MS;
    while (!has_program_ended(order)) {
        struct pollfd files[] = {
            {.fd = order->end >= 0 ? order->end : order->program_handle, .events = POLLIN},
            {.fd = order->requests, .events = POLLIN}};
        const int ready = poll(files, 2, has_work(self) ? period_ms : -1);
        if (ready > 0 && files[1].revents != 0) {
            answer(self);
            period_ms = PERIOD_MIN_MS;
        } else if (ready == 0) {
            const bool has_changed = keep_folders(self);
            period_ms = has_changed                     ? PERIOD_MIN_MS
                        : period_ms * 2 < PERIOD_MAX_MS ? period_ms * 2
                                                        : PERIOD_MAX_MS;
        }
    }
}

static void end(helper *self)
{
    const helper_order *order = self->order;
    char word = '\0';
    answer_all(self);
    self->has_ended = true;
    self->deadline_ms = now_ms() + LATE_MS;
    if (order->end >= 0) {
        self->is_orderly = read(order->end, &word, 1) == 1 && word == HELPER_ORDERLY;
    }
    unlink(order->socket_path);
    for (size_t i = 0; i < order->count; i++) {
        kept_folder *kept = &order->folders[i];
        const bool is_orderly =
            kept->cache->triggers != NULL ? kept->user_count == 0 : self->is_orderly;
        if (is_orderly) {
            keep(self, kept);
            kept_folder_leave(kept, true);
        }
    }
    kiln_store_close(&self->store);
    for (size_t i = 0; i < order->count && order->report >= 0; i++) {
        const helper_count count = {order->folders[i].files_filled, order->folders[i].files_kept};
        if (write(order->report, &count, sizeof count) != sizeof count) {
            break;
        }
    }
    place_remove_sockets(order->folders[0].place);
    /* Processes may outlive the program. As long as this one holds the folders that they use, no
     * other program empties these. */
    for (size_t i = 0; i < order->count; i++) {
        kept_folder_await_users(&order->folders[i]);
        kept_folder_leave(&order->folders[i], false);
    }
}

/* Keeps only the descriptors that the helper needs, since a pipe that the program was given must
 * end with the program. */
static void close_others(const helper_order *order)
{
    const int kept[] = {order->program_handle, order->requests,        order->ready, order->end,
                        order->report,         order->folders[0].place};
    const int limit = (int)(sizeof kept / sizeof kept[0]);
    int next = 3;
    for (;;) {
        int lowest = -1;
        for (int i = 0; i < limit; i++) {
            if (kept[i] >= next && (lowest < 0 || kept[i] < lowest)) {
                lowest = kept[i];
            }
        }
        const unsigned last = lowest < 0 ? ~0u : (unsigned)lowest - 1;
        if (lowest != next) {
            syscall(SYS_close_range, (unsigned)next, last, 0);
        }
        if (lowest < 0) {
            return;
        }
        next = lowest + 1;
    }
}

static void detach(const helper_order *order)
{
    const int nothing = open("/dev/null", O_RDWR);
    setsid();
    for (int i = 0; i < 3 && nothing >= 0; i++) {
        dup2(nothing, i);
    }
    close_others(order);
    if (chdir("/") != 0) {
        _exit(0);
    }
    prctl(PR_SET_NAME, "kiln folders");
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGIO, SIG_IGN); /* which tells a process that its lease on a file is wanted back */
}

static _Noreturn void run(const helper_order *order)
{
    helper self = {.order = order};
    detach(order);
    open_untriggered(&self);
    close(order->ready);
    follow_program(&self);
    end(&self);
    _exit(0);
}

bool helper_start(const helper_order *order)
{
    int status = 0;
    const pid_t between = fork();
    if (between == 0) {
        const pid_t made = fork();
        if (made == 0) {
            run(order);
        }
        _exit(made > 0 ? 0 : 1);
    }
    /* If this process has inherited that SIGCHLD is ignored, there is no status to wait for, and
     * the helper counts as started. */
    return between > 0 && (waitpid(between, &status, 0) == between ? status == 0 : errno == ECHILD);
}
