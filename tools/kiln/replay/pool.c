/* SPDX-License-Identifier: Apache-2.0 */
#include "pool.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../text/json.h"
#include "../text/memory.h"
#include "sandbox.h"
#include "worker.h"

extern char **environ;

/* A build may take this long, or a hundred times what it has cost before. Other work of the machine
 * may keep a process of low priority from running. */
#define WAIT_NS_MIN (UINT64_C(1800) * 1000000000)

typedef struct pool_worker {
    pid_t process; /* 0: free */
    const work_item *item;
    kiln_entry *entry; /* that the worker repeats */
    int report_file, entry_file;
    bool is_building;
    uint64_t end_ns; /* when it is killed */
} pool_worker;

/* While a third of the workers build, the others are prepared: a process that starts and makes its
 * sandbox waits for the kernel much of the time, and would leave a processor idle. */
typedef struct pool {
    const pool_terms *terms;
    pool_report *report;
    void *user;
    bool sandboxed;
    pool_worker *workers;
    size_t worker_count;
    uint64_t end_ns; /* of the budget; UINT64_MAX: none */
} pool;

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ---- results ---- */

static json_t *result_of(const char *result, const char *why)
{
    json_t *object = must(json_object());
    json_add(object, "result", json_text_or_null(result));
    json_add(object, "why", json_text_or_null(why));
    json_add(object, "log", json_null());
    return object;
}

/* Passes a result on, and frees it. */
static void tell(const pool *p, const work_item *item, json_t *result)
{
    p->report(p->user, item, result);
    json_decref(result);
}

static const char *text_in(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text == NULL ? "" : text;
}

/* What a worker has written to WORKER_ENTRY_FILE. */
typedef struct made_entries {
    char *bytes;
    size_t size, at;
} made_entries;

static made_entries map_entries(int file)
{
    struct stat status;
    if (fstat(file, &status) != 0 || status.st_size == 0) {
        return (made_entries){0};
    }
    const size_t size = (size_t)status.st_size;
    void *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0);
    return bytes == MAP_FAILED ? (made_entries){0} : (made_entries){.bytes = bytes, .size = size};
}

static void made_entries_done(const made_entries *made)
{
    if (made->bytes != NULL) {
        munmap(made->bytes, made->size);
    }
}

/* Returns the next entry; NULL: there is none, or it is damaged. */
static kiln_entry *next_entry(made_entries *made)
{
    kiln_entry *entry = NULL;
    uint64_t size = 0;
    if (made->size - made->at < sizeof size) {
        return NULL;
    }
    memcpy(&size, made->bytes + made->at, sizeof size);
    made->at += sizeof size;
    if (size > made->size - made->at ||
        kiln_entry_decode(made->bytes + made->at, (size_t)size, &entry) != KILN_OK) {
        made->at = made->size;
        return NULL;
    }
    made->at += (size_t)size;
    return entry;
}

/* Stores an entry with the cost of the entry that was repeated, since a build of low priority takes
 * longer than that of a program. */
static kiln_status put(const pool *p, const pool_worker *w, const kiln_entry *made)
{
    kiln_entry *entry = NULL;
    kiln_entry_params params = {.struct_size = sizeof params,
                                .key = kiln_entry_key(made),
                                .kind = KILN_ENTRY_PROGRAM,
                                .provenance = kiln_entry_provenance(made),
                                .answers = kiln_entry_answers(made),
                                .log = kiln_entry_log(made),
                                .payload = kiln_entry_payload(made)};
    params.provenance.build_ns = w->item->build_ns;
    kiln_status status = kiln_entry_new(&params, &entry);
    if (status == KILN_OK) {
        status = kiln_store_put(p->terms->to, entry);
    }
    kiln_entry_release(&entry);
    return status;
}

/* Stores the steps of a link. Without them, a program would not find the link. */
static kiln_status put_steps(const pool *p, const pool_worker *w, made_entries *all,
                             const kiln_entry *link)
{
    kiln_status status = KILN_OK;
    for (kiln_entry *step; status == KILN_OK && (step = next_entry(all)) != NULL;) {
        const bool is_step = kiln_entry_kind_of(step) == KILN_ENTRY_PROGRAM &&
                             recipe_is_step(kiln_entry_key(link), kiln_entry_key(step));
        status = is_step ? put(p, w, step) : KILN_E_INVALID;
        kiln_entry_release(&step);
    }
    return status;
}

/* Stores what a worker has made. The worker is not trusted: its compiler has read what others
 * wrote. So the entry must be one of the build that the worker was asked to repeat. */
static json_t *take(const pool *p, const pool_worker *w, json_t *result)
{
    made_entries all = map_entries(w->entry_file);
    kiln_entry *made = next_entry(&all);
    json_t *refusal = NULL;
    if (made == NULL) {
        refusal = result_of("left", "the result could not be passed on");
    } else if (kiln_entry_kind_of(made) != KILN_ENTRY_PROGRAM ||
               !recipe_has_same_inputs(kiln_entry_key(w->entry), kiln_entry_key(made))) {
        refusal = result_of("impossible", "Kiln's layers make a key with different inputs for it");
    } else if (!recipe_has_same_math(kiln_entry_key(w->entry), kiln_entry_key(made))) {
        refusal = result_of("impossible", "its program has math functions that differ from those "
                                          "here");
    } else if (strcmp(text_in(result, "result"), "built") == 0) {
        kiln_status status = put(p, w, made);
        if (status == KILN_OK) {
            status = put_steps(p, w, &all, made);
        }
        refusal = status == KILN_OK ? NULL : result_of("left", kiln_status_text(status));
    }
    if (refusal == NULL) {
        char digest[KILN_DIGEST_TEXT_SIZE];
        const kiln_digest found = kiln_key_digest(kiln_entry_key(made));
        kiln_digest_format(&found, digest);
        json_add(result, "entry", json_text_or_null(digest));
    }
    kiln_entry_release(&made);
    made_entries_done(&all);
    if (refusal != NULL) {
        json_decref(result);
    }
    return refusal != NULL ? refusal : result;
}

static json_t *result_of_worker(const pool *p, const pool_worker *w)
{
    lseek(w->report_file, 0, SEEK_SET);
    json_t *result = json_loadfd(w->report_file, JSON_DISABLE_EOF_CHECK, NULL);
    const char *name = text_in(result, "result");
    if (*name == '\0') {
        json_decref(result);
        return result_of("left",
                         now_ns() < w->end_ns ? "its process ended early" : "the time is over");
    }
    return strcmp(name, "built") == 0 || strcmp(name, "present") == 0 ? take(p, w, result) : result;
}

/* ---- processes ---- */

static int file_of(kiln_bytes bytes)
{
    const int file = memfd_create("kiln-replay", MFD_CLOEXEC);
    const char *at = bytes.data;
    for (size_t left = bytes.size; file >= 0 && left > 0;) {
        const ssize_t written = write(file, at, left);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            close(file);
            return -1;
        }
        at += written;
        left -= (size_t)written;
    }
    if (file >= 0) {
        lseek(file, 0, SEEK_SET);
    }
    return file;
}

static int spawn(const pool *p, int entry_file, pool_worker *w)
{
    owned char *parent = text_of("%ld", (long)getpid());
    const pool_terms *terms = p->terms;
    const char *arguments[20] = {"kiln", "replay", "--serve", parent};
    size_t count = 4;
    const char *const given[][2] = {{"--nvrtc", terms->build.nvrtc},
                                    {"--hiprtc", terms->build.hiprtc},
                                    {"--nvjitlink", terms->build.nvjitlink},
                                    {"--arch", terms->build.architecture},
                                    {"--to", terms->cache},
                                    {"--from", terms->included_beside},
                                    {"--jobs", p->sandboxed ? "1" : NULL}};
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
        if (given[i][1] != NULL) {
            arguments[count++] = given[i][0];
            arguments[count++] = given[i][1];
        }
    }
    posix_spawn_file_actions_t actions;
    must_succeed(posix_spawn_file_actions_init(&actions));
    must_succeed(posix_spawn_file_actions_adddup2(&actions, entry_file, STDIN_FILENO));
    must_succeed(posix_spawn_file_actions_adddup2(&actions, w->report_file, STDOUT_FILENO));
    must_succeed(posix_spawn_file_actions_adddup2(&actions, w->entry_file, WORKER_ENTRY_FILE));
    const int error = posix_spawn(&w->process, "/proc/self/exe", &actions, NULL,
                                  (char *const *)(uintptr_t)arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

static void free_worker(pool_worker *w)
{
    close(w->report_file);
    close(w->entry_file);
    kiln_entry_release(&w->entry);
    *w = (pool_worker){0};
}

static void start(const pool *p, pool_worker *w, const work_item *item)
{
    kiln_entry *entry = NULL;
    const kiln_status status = kiln_store_get(p->terms->from, item->key, &entry);
    if (status != KILN_OK) {
        tell(p, item, result_of("left", kiln_status_text(status)));
        return;
    }
    recipe of;
    owned char *why = recipe_read(entry, &of);
    if (why != NULL) {
        tell(p, item, result_of("impossible", why));
        kiln_entry_release(&entry);
        return;
    }
    const int file = file_of(kiln_entry_encoding(entry));
    *w = (pool_worker){.item = item,
                       .entry = entry,
                       .report_file = memfd_create("kiln-report", MFD_CLOEXEC),
                       .entry_file = memfd_create("kiln-entry", MFD_CLOEXEC),
                       .end_ns = p->end_ns};
    const int error =
        file < 0 || w->report_file < 0 || w->entry_file < 0 ? errno : spawn(p, file, w);
    if (file >= 0) {
        close(file);
    }
    if (error != 0) {
        tell(p, item, result_of("left", strerror(error)));
        free_worker(w);
    }
}

/* ---- the pool ---- */

/* Lets the first of the prepared workers build, if fewer than allowed do. */
static void let_build(const pool *p)
{
    unsigned building = 0;
    pool_worker *next = NULL;
    for (size_t i = 0; i < p->worker_count; i++) {
        pool_worker *w = &p->workers[i];
        building += w->is_building;
        if (w->process != 0 && !w->is_building && (next == NULL || w->item < next->item)) {
            next = w;
        }
    }
    if (next != NULL && building < p->terms->jobs) {
        const uint64_t end_ns = now_ns() + WAIT_NS_MIN + 100 * next->item->build_ns;
        next->is_building = true;
        next->end_ns = end_ns < p->end_ns ? end_ns : p->end_ns;
        kill(next->process, WORKER_GO);
    }
}

static void end_worker(const pool *p, pid_t process)
{
    for (size_t i = 0; i < p->worker_count; i++) {
        pool_worker *w = &p->workers[i];
        if (w->process == process) {
            w->process = 0;
            w->is_building = false;
            let_build(p);
            tell(p, w->item, result_of_worker(p, w));
            free_worker(w);
        }
    }
}

/* Kills workers whose time has passed. Returns when the next one must be killed. */
static uint64_t kill_late(const pool *p)
{
    uint64_t next_ns = UINT64_MAX;
    for (size_t i = 0; i < p->worker_count; i++) {
        const pool_worker *w = &p->workers[i];
        if (w->process != 0 && w->end_ns <= now_ns()) {
            kill(w->process, SIGKILL);
        } else if (w->process != 0 && w->end_ns < next_ns) {
            next_ns = w->end_ns;
        }
    }
    return next_ns;
}

/* Waits until a worker ends. SIGCHLD is blocked, so that none is missed. */
static void wait_for_one(const pool *p)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    for (;;) {
        pid_t ended = waitpid(-1, NULL, WNOHANG);
        if (ended != 0) {
            end_worker(p, ended);
            return;
        }
        const uint64_t next_ns = kill_late(p), time_ns = now_ns();
        const uint64_t left_ns = next_ns > time_ns ? next_ns - time_ns : 1000000;
        const struct timespec left = {.tv_sec = (time_t)(left_ns / 1000000000 % 3600),
                                      .tv_nsec = (long)(left_ns % 1000000000)};
        sigtimedwait(&signals, NULL, &left);
    }
}

static pool_worker *free_place(const pool *p)
{
    for (size_t i = 0; i < p->worker_count; i++) {
        if (p->workers[i].process == 0) {
            return &p->workers[i];
        }
    }
    return NULL;
}

static bool is_working(const pool *p)
{
    for (size_t i = 0; i < p->worker_count; i++) {
        if (p->workers[i].process != 0) {
            return true;
        }
    }
    return false;
}

void pool_run(const pool_terms *terms, const work_list *list, pool_report *report, void *user)
{
    sigset_t signals, mask;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, WORKER_GO); /* workers inherit this */
    /* Sets the default action, because there would be no exit status if this process had inherited
     * SIG_IGN. */
    signal(SIGCHLD, SIG_DFL);
    sigprocmask(SIG_BLOCK, &signals, &mask);
    const pool p = {.terms = terms,
                    .report = report,
                    .user = user,
                    .sandboxed = sandbox_is_possible(),
                    .workers = must(calloc(terms->jobs, 3 * sizeof(pool_worker))),
                    .worker_count = 3 * (size_t)terms->jobs,
                    .end_ns = terms->budget_ns == 0 ? UINT64_MAX : now_ns() + terms->budget_ns};
    for (size_t i = 0; i < list->count; i++) {
        pool_worker *w;
        while ((w = free_place(&p)) == NULL) {
            wait_for_one(&p);
        }
        if (now_ns() < p.end_ns) {
            start(&p, w, &list->items[i]);
            let_build(&p);
        } else {
            tell(&p, &list->items[i], result_of("left", "the time is over"));
        }
    }
    while (is_working(&p)) {
        wait_for_one(&p);
    }
    free(p.workers);
    sigprocmask(SIG_SETMASK, &mask, NULL);
}
