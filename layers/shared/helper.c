/* SPDX-License-Identifier: Apache-2.0 */
#include "helper.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "os/clock.h"
#include "os/os.h"
#include "os/trust.h"
#include "session.h"
#include "spawn.h"
#include "store/dir/dir.h"
#include "trace.h"

#define QUIET_NS (UINT64_C(5) * 1000000000)

/* How long a helper waits for another helper to end. It must wait because the other helper might
 * already have made its last search for requests. */
#define HELPER_WAIT_MS "2000"

/* What is needed to start the helper. Written once, by the function that once_prepared runs, before
 * any request is pending. */
static pthread_once_t once_prepared = PTHREAD_ONCE_INIT;
static char *tool; /* NULL: none was found */
static char *arguments[8];
static char **environment;

/* 1 if requests wait for a helper that has not been started yet. helper_expect sets this only after
 * once_prepared has run. The thread whose exchange changes this from 1 to 0 starts the helper. */
static _Atomic int is_pending;

/* 1 while there is a thread that waits for a pause between builds.
 *
 * helper_expect stores is_pending, then exchanges has_thread. When that thread ends, it stores
 * has_thread, then exchanges is_pending. These four operations are sequentially consistent, so at
 * least one of the two threads sees what the other has stored. Otherwise it would be possible that
 * a request is pending, but no thread starts the helper. */
static _Atomic int has_thread;

/* The number of builds in flight, and the time when the last build ended. Accessed with relaxed
 * order, because only the waiting thread reads these values, and no other data depends on them. */
static _Atomic unsigned builds_in_flight;
static _Atomic uint64_t last_build_ns;

/* ---- where the tool is ---- */

/* Returns true if the layer is allowed to run a tool. The tool runs as this user, so other users
 * must not be able to write to it. */
static int may_be_run(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 && kilni_is_trusted(&found, S_IFREG, geteuid(), true) &&
           access(path, X_OK) == 0;
}

/* Returns true if no other user can replace what is in this folder, or any folder above it.
 *
 * @is_given  the user has named it: then its group may write to it, as to the folders above it */
static int is_trusted_folder(const char *path, bool is_given)
{
    const kilni_path_rules entrance = {
        .start = -1, .user = geteuid(), .is_readonly = true, .is_ancestor = is_given};
    int directory = -1;
    bool made;
    if (kilni_dir_enter(path, &entrance, &directory, &made, NULL) != KILN_OK) {
        return 0;
    }
    kilni_os()->close(directory);
    return 1;
}

/* Returns the tool's path in a folder, which is given relative to the layer's folder. The caller
 * frees it. NULL if the tool is not there or must not be run. */
static char *tool_in(const char *layer_folder, const char *relative_path)
{
    kilni_text folder = {0}, path = {0};
    char *found = NULL;
    if (kilni_text_printf(&folder, "%s%s", layer_folder, relative_path) == KILN_OK &&
        kilni_text_printf(&path, "%s/kiln", folder.bytes) == KILN_OK &&
        is_trusted_folder(folder.bytes, false) && may_be_run(path.bytes)) {
        found = realpath(path.bytes, NULL);
    }
    kilni_text_done(&folder);
    kilni_text_done(&path);
    return found;
}

/* Returns the real path of the tool that KILN_TOOL names. The caller frees it. NULL if the tool is
 * not there or must not be run. */
static char *tool_given(const char *path)
{
    char *found = path[0] == '/' ? realpath(path, NULL) : NULL;
    kilni_text folder = {0};
    const bool may_run =
        found &&
        kilni_text_printf(&folder, "%.*s/", (int)(strrchr(found, '/') - found), found) == KILN_OK &&
        is_trusted_folder(folder.bytes, true) && may_be_run(found);
    kilni_text_done(&folder);
    if (!may_run) {
        free(found);
        found = NULL;
    }
    return found;
}

/* Finds the tool even if the whole prefix was moved. The layer is in the folder lib/kiln or
 * lib/FOLDER/kiln below the prefix. */
static char *tool_beside_layer(void)
{
    static const char *const relative_paths[] = {"/../../bin", "/../../../bin"};
    Dl_info info;
    char folder[PATH_MAX];
    if (!dladdr(&is_pending, &info) || !info.dli_fname || !realpath(info.dli_fname, folder)) {
        return NULL;
    }
    *strrchr(folder, '/') = '\0';
    char *found = NULL;
    for (size_t i = 0; !found && i < sizeof relative_paths / sizeof relative_paths[0]; i++) {
        found = tool_in(folder, relative_paths[i]);
    }
    return found;
}

static char *find_tool(void)
{
    const char *given = session_config()->tool;
    return given ? tool_given(given) : tool_beside_layer();
}

/* ---- how it is started ---- */

/* Copies the variables that the tool itself needs. The variables that a build needs are in the
 * request for that build. Returns NULL if there is no memory. */
static char **copy_environment(void)
{
    static const char *const names[] = {
        "HOME",
        "PATH",
        "TMPDIR",
        "XDG_CACHE_HOME",
        "LANG",
        "LC_ALL",
        "KILN_MAX_SIZE",
        "KILN_INCLUDED_MAX_SIZE",
        "KILN_KEY_ENV",
        "LD_LIBRARY_PATH",
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
        "AWS_DEFAULT_REGION",
    };
    const size_t count = sizeof names / sizeof names[0];
    char **copied = calloc(count + 1, sizeof *copied);
    size_t used = 0;
    for (size_t i = 0; copied && i < count; i++) {
        const char *value = getenv(names[i]);
        kilni_text setting = {0};
        if (!value) {
            continue;
        }
        if (kilni_text_printf(&setting, "%s=%s", names[i], value) != KILN_OK) {
            return NULL; /* A helper that lacks a setting might store what nobody wants. */
        }
        copied[used++] = setting.bytes;
    }
    return copied;
}

static void prepare(void)
{
    static char command[] = "capture", directory_option[] = "--dir", idle_option[] = "--idle",
                wait_option[] = "--wait-ms", wait[] = HELPER_WAIT_MS;
    environment = copy_environment();
    char *directory = strdup(session_config()->dir);
    char *found = find_tool();
    if (!environment || !directory || !found) {
        trace_note(
            "the kiln tool was not found (KILN_TOOL names one): requests wait for `kiln capture`");
        free(directory);
        free(found);
        return;
    }
    char *const line[] = {found, command, directory_option, directory, idle_option, wait_option,
                          wait,  NULL};
    memcpy(arguments, line, sizeof line);
    tool = found;
}

static void start_if_pending(void)
{
    if (atomic_exchange_explicit(&is_pending, 0, memory_order_seq_cst) && tool &&
        !spawn_detached(tool, arguments, environment)) {
        trace_note("the helper could not be started: requests wait for `kiln capture`");
    }
}

/* ---- when it is started ---- */

void helper_build_starts(void)
{
    atomic_fetch_add_explicit(&builds_in_flight, 1, memory_order_relaxed);
}

void helper_build_ends(void)
{
    atomic_store_explicit(&last_build_ns, kilni_clock_ns(), memory_order_relaxed);
    atomic_fetch_sub_explicit(&builds_in_flight, 1, memory_order_relaxed);
}

/* Returns 0 if no build has run for QUIET_NS; otherwise the minimum number of nanoseconds until
 * that can be the case. */
static uint64_t time_to_quiet(void)
{
    if (atomic_load_explicit(&builds_in_flight, memory_order_relaxed) > 0) {
        return QUIET_NS;
    }
    const uint64_t end_ns = atomic_load_explicit(&last_build_ns, memory_order_relaxed) + QUIET_NS;
    const uint64_t now_ns = kilni_clock_ns();
    return now_ns < end_ns ? end_ns - now_ns : 0;
}

static void *wait_for_quiet(void *unused)
{
    (void)unused;
    pthread_setname_np(pthread_self(), "kiln-helper");
    for (uint64_t left_ns; (left_ns = time_to_quiet()) > 0;) {
        kilni_sleep_ns(left_ns);
    }
    /* This store must come before the exchange below, so that a request that arrives between them
     * starts a new thread. */
    atomic_store_explicit(&has_thread, 0, memory_order_seq_cst);
    start_if_pending();
    return NULL;
}

static void start_thread(void)
{
    if (atomic_exchange_explicit(&has_thread, 1, memory_order_seq_cst)) {
        return;
    }
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    if (pthread_create(&thread, NULL, wait_for_quiet, NULL) == 0) {
        pthread_detach(thread);
    } else {
        atomic_store_explicit(&has_thread, 0, memory_order_release);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void helper_process_ends(void)
{
    start_if_pending();
}

void helper_forget(void)
{
    atomic_store_explicit(&is_pending, 0, memory_order_relaxed);
    atomic_store_explicit(&has_thread, 0, memory_order_relaxed);
    atomic_store_explicit(&builds_in_flight, 0, memory_order_relaxed);
}

void helper_expect(void)
{
    if (!session_config()->helper) {
        return;
    }
    pthread_once(&once_prepared, prepare);
    if (tool) {
        atomic_store_explicit(&is_pending, 1, memory_order_seq_cst);
        start_thread();
    }
}

void helper_start(void)
{
    if (!session_config()->helper) {
        return;
    }
    pthread_once(&once_prepared, prepare);
    atomic_store_explicit(&is_pending, 1, memory_order_seq_cst);
    start_if_pending();
}

/* ---- requests that other processes left ---- */

/* The search ends after this many requests. If all of them have been given up, it ends as if no
 * request were waiting. */
#define CHECKED_MAX 64u

typedef struct request_search {
    unsigned checked;
    int has_found;
} request_search;

static int check_request(void *user, kiln_item *item)
{
    request_search *search = user;
    kiln_item_info info = {.struct_size = sizeof info};
    search->has_found = kiln_item_get_info(item, &info) == KILN_OK && info.state == KILN_OK &&
                        info.kind == KILN_ENTRY_REQUEST && info.bytes > 0;
    search->checked++;
    return search->has_found || search->checked == CHECKED_MAX;
}

static void look_for_requests(void)
{
    request_search search = {0};
    if (session_can_store()) {
        kiln_store_each_request(session_requests()->store, check_request, &search);
    }
    if (search.has_found) {
        helper_expect();
    }
}

void helper_look_for_requests(void)
{
    static pthread_once_t once_looked = PTHREAD_ONCE_INIT;
    pthread_once(&once_looked, look_for_requests);
}
