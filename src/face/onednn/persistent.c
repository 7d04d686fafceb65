/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/persistent.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/sized_struct.h"
#include "face/onednn/governed_store.h"
#include "store/location.h"

#define MIB_SHIFT 20u
#define KIND_COUNT 2u
#define ALL_SETTINGS (2 * KILN_PERSISTENT_LOG - 1)

/* The settings, and the store that was opened according to them. Guarded by settings_lock. A thread
 * holds the lock while it opens the store, so that the store is opened only once. No thread holds
 * the lock while it trims or closes a store. */
static struct {
    bool is_disabled[KIND_COUNT];
    int32_t capacity_mib;
    uint32_t policy;
    char *dir;     /* NULL: the default */
    char *backend; /* NULL: none */
    kiln_log log;

    kilni_governed_store *store; /* NULL: not open */
    bool is_parents; /* the store was opened before a fork, so the thread of its writer is in the
                        parent */
    bool has_failed; /* the store could not be opened with the present settings, so requests do not
                        try again */
    size_t contexts; /* number of contexts that use the source */
} settings = {.policy = KILN_POLICY_FIFO};

static pthread_mutex_t settings_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the lock: a forked child must not inherit settings that a thread is changing ---- */

static void before_fork(void)
{
    pthread_mutex_lock(&settings_lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&settings_lock);
}

static void after_fork_in_child(void)
{
    settings.is_parents = settings.store != NULL;
    pthread_mutex_unlock(&settings_lock);
}

/* The writers' fork handlers are registered first, because writers are made under settings_lock.
 * The C library can hold the lock of its list of handlers while a handler waits for settings_lock.
 * If a thread then added a handler under settings_lock, the two threads would wait forever. */
static void watch_forks(void)
{
    kilni_writer_watch_forks();
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

static void lock(void)
{
    static pthread_once_t watching = PTHREAD_ONCE_INIT;
    pthread_once(&watching, watch_forks);
    pthread_mutex_lock(&settings_lock);
}

static void unlock(void)
{
    pthread_mutex_unlock(&settings_lock);
}

/* Removes the store from the settings, so that the next use opens a new one. The caller releases
 * the store after unlocking, because the release can wait for the disk. */
static kilni_governed_store *detach_locked(void)
{
    kilni_governed_store *detached = settings.store;
    settings.store = NULL;
    settings.has_failed = false;
    settings.is_parents = false;
    return detached;
}

static void unlock_and_release(kilni_governed_store *detached)
{
    unlock();
    kilni_governed_release(&detached);
}

/* ---- the store ---- */

/* Returns NULL if there is no such kind. */
static bool *switch_of(uint32_t kind)
{
    return kind == KILN_ENGINE_CPU || kind == KILN_ENGINE_GPU
               ? &settings.is_disabled[kind == KILN_ENGINE_CPU ? 0 : 1]
               : NULL;
}

static const char *dir_locked(void)
{
    return settings.dir ? settings.dir : KILN_PERSISTENT_DEFAULT_DIR;
}

static bool is_on_locked(const bool *is_disabled)
{
    return settings.capacity_mib > 0 && !*is_disabled;
}

/* The texts belong to the settings, so a caller must copy them before it unlocks. */
static kilni_governed_params params_locked(void)
{
    return (kilni_governed_params){
        .dir = dir_locked(),
        .backend = settings.backend,
        .policy = settings.policy,
        .max_bytes = (uint64_t)settings.capacity_mib << MIB_SHIFT,
        .log = settings.log,
    };
}

static kiln_status open_locked(kiln_error *error)
{
    const kilni_governed_params params = params_locked();
    const kiln_status status = kilni_governed_open(&params, &settings.store, error);
    settings.has_failed = status != KILN_OK;
    return status;
}

/* Called without the lock, because a log callback may call the public functions. */
static void log_failure(kiln_log log, const kiln_error *error)
{
    if (log.write) {
        log.write(log.user, KILN_LOG_ERROR, error->text);
    }
}

/* ---- the source of stores ---- */

/* Returns one reference to the present store of a kind. If the store is not open and @may_open is
 * true, opens it. Returns NULL if the kind is off, or if the store is not open or can't be opened.
 */
static kilni_governed_store *hold(const bool *is_disabled, bool may_open)
{
    kilni_governed_store *held = NULL, *stale = NULL;
    kiln_error error = {.struct_size = sizeof error};
    lock();
    if (settings.is_parents && may_open) {
        stale = detach_locked();
    }
    const bool is_on = is_on_locked(is_disabled);
    const bool has_to_open = is_on && may_open && !settings.store && !settings.has_failed;
    const bool has_failed = has_to_open && open_locked(&error) != KILN_OK;
    if (is_on && settings.store && !settings.is_parents) {
        held = kilni_governed_retain(settings.store);
    }
    const kiln_log log = settings.log;
    unlock_and_release(stale);
    if (has_failed) {
        log_failure(log, &error);
    }
    return held;
}

static kilni_held_store *hold_for_context(void *is_disabled, bool may_open)
{
    return (kilni_held_store *)hold(is_disabled, may_open);
}

static void release_of_context(kilni_held_store *held)
{
    kilni_governed_store *governed = (kilni_governed_store *)held;
    kilni_governed_release(&governed);
}

static void enter(void *user)
{
    (void)user;
    lock();
    settings.contexts++;
    unlock();
}

/* When the last context ends, the store is closed after its queued entries have been written. */
static void leave(void *user)
{
    (void)user;
    lock();
    settings.contexts--;
    unlock_and_release(settings.contexts == 0 ? detach_locked() : NULL);
}

const kiln_store_source *kiln_persistent_source(uint32_t kind)
{
    static const kiln_store_source sources[KIND_COUNT] = {
        {&settings.is_disabled[0], hold_for_context, release_of_context, enter, leave},
        {&settings.is_disabled[1], hold_for_context, release_of_context, enter, leave},
    };
    const bool *is_disabled = switch_of(kind);
    return is_disabled ? &sources[is_disabled - settings.is_disabled] : NULL;
}

/* ---- the public calls: settings ---- */

static bool is_switch(int32_t value)
{
    return value == 0 || value == 1;
}

/* Fields that given->changed does not name may have any value. */
static bool are_usable(const kiln_persistent_settings *given)
{
    const uint32_t changed = given->changed;
    return changed && !(changed & ~ALL_SETTINGS) &&
           (!(changed & KILN_PERSISTENT_CPU) || is_switch(given->cpu)) &&
           (!(changed & KILN_PERSISTENT_GPU) || is_switch(given->gpu)) &&
           (!(changed & KILN_PERSISTENT_CAPACITY) || given->capacity_mib >= 0) &&
           (!(changed & KILN_PERSISTENT_POLICY) || given->policy == KILN_POLICY_FIFO ||
            given->policy == KILN_POLICY_NO_EVICT) &&
           (!(changed & KILN_PERSISTENT_BACKEND) || !given->backend || !*given->backend ||
            kilni_location_is_backend_name(given->backend));
}

/* @is_path  true if a relative path must begin with "./", so that it is not taken for a URL */
static kiln_status copy_text(const char *text, bool is_path, char **ret_copy)
{
    if (!text || !*text) {
        return KILN_OK;
    }
    const bool is_complete = !is_path || text[0] == '/' || (text[0] == '.' && text[1] == '/');
    const size_t size = strlen(text) + 1;
    char *copy = malloc(size + 2);
    if (!copy) {
        return KILN_E_NO_MEMORY;
    }
    memcpy(copy, "./", 2);
    memcpy(copy + (is_complete ? 0 : 2), text, size);
    *ret_copy = copy;
    return KILN_OK;
}

static bool is_same(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

static void swap_texts(char **a, char **b)
{
    char *const swapped = *a;
    *a = *b;
    *b = swapped;
}

/* Changes the settings that given->changed names. Returns true if the open store no longer matches
 * the settings.
 *
 * @dir, @backend  [in] copies of the new values; [out] the values that they replaced, if any */
static bool change_locked(const kiln_persistent_settings *given, char **dir, char **backend)
{
    bool is_other = given->changed & KILN_PERSISTENT_LOG;
    if (given->changed & KILN_PERSISTENT_CPU) {
        settings.is_disabled[0] = !given->cpu;
    }
    if (given->changed & KILN_PERSISTENT_GPU) {
        settings.is_disabled[1] = !given->gpu;
    }
    if (given->changed & KILN_PERSISTENT_CAPACITY) {
        is_other |= settings.capacity_mib != given->capacity_mib;
        settings.capacity_mib = given->capacity_mib;
    }
    if (given->changed & KILN_PERSISTENT_POLICY) {
        is_other |= settings.policy != given->policy;
        settings.policy = given->policy;
    }
    if (given->changed & KILN_PERSISTENT_DIR) {
        is_other |= !is_same(*dir ? *dir : KILN_PERSISTENT_DEFAULT_DIR, dir_locked());
        swap_texts(&settings.dir, dir);
    }
    if (given->changed & KILN_PERSISTENT_BACKEND) {
        is_other |= !is_same(*backend, settings.backend);
        swap_texts(&settings.backend, backend);
    }
    if (given->changed & KILN_PERSISTENT_LOG) {
        settings.log = given->log;
    }
    return is_other || (settings.is_disabled[0] && settings.is_disabled[1]);
}

/* Trims the directory to the present capacity. Other threads may change the capacity meanwhile;
 * each thread that reduces it trims afterwards. */
static kiln_status trim(void)
{
    lock();
    kilni_governed_params params = params_locked();
    char *dir = NULL, *backend = NULL;
    kiln_status status = copy_text(params.dir, true, &dir);
    if (status == KILN_OK) {
        status = copy_text(params.backend, false, &backend);
    }
    unlock();
    params.dir = dir;
    params.backend = backend;
    if (status == KILN_OK && params.max_bytes > 0) {
        status = kilni_governed_trim(&params);
    }
    free(dir);
    free(backend);
    return status;
}

kiln_status kiln_persistent_set(const kiln_persistent_settings *given)
{
    kiln_persistent_settings known;
    if (!given || kilni_sized_struct_copy(given, &known, sizeof known) != KILN_OK ||
        !are_usable(&known)) {
        return KILN_E_INVALID;
    }
    char *dir = NULL, *backend = NULL;
    const bool is_copied =
        (!(known.changed & KILN_PERSISTENT_DIR) || copy_text(known.dir, true, &dir) == KILN_OK) &&
        (!(known.changed & KILN_PERSISTENT_BACKEND) ||
         copy_text(known.backend, false, &backend) == KILN_OK);
    bool is_smaller = false;
    if (is_copied) {
        lock();
        const int32_t before_mib = settings.capacity_mib;
        const bool is_other = change_locked(&known, &dir, &backend);
        is_smaller = settings.capacity_mib < before_mib;
        unlock_and_release(is_other ? detach_locked() : NULL);
    }
    free(dir);
    free(backend);
    if (!is_copied) {
        return KILN_E_NO_MEMORY;
    }
    return is_smaller ? trim() : KILN_OK;
}

static kiln_persistent_settings get_locked(void)
{
    return (kiln_persistent_settings){
        .struct_size = sizeof(kiln_persistent_settings),
        .changed = ALL_SETTINGS,
        .cpu = !settings.is_disabled[0],
        .gpu = !settings.is_disabled[1],
        .capacity_mib = settings.capacity_mib,
        .policy = settings.policy,
        .log = settings.log,
    };
}

kiln_status kiln_persistent_get_settings(kiln_persistent_settings *ret_settings, char *texts,
                                         size_t *size)
{
    if (!ret_settings || !kilni_sized_struct_is_valid(ret_settings) || (texts && !size)) {
        return KILN_E_INVALID;
    }
    lock();
    const size_t dir_size = strlen(dir_locked()) + 1;
    const size_t backend_size = settings.backend ? strlen(settings.backend) + 1 : 0;
    const size_t needed = dir_size + backend_size;
    const bool fits = texts && *size >= needed;
    kiln_persistent_settings got = get_locked();
    if (fits) {
        memcpy(texts, dir_locked(), dir_size);
        got.dir = texts;
    }
    if (fits && settings.backend) {
        memcpy(texts + dir_size, settings.backend, backend_size);
        got.backend = texts + dir_size;
    }
    unlock();
    if (size) {
        *size = needed;
    }
    if (texts && !fits) {
        return KILN_E_TOO_LARGE;
    }
    kilni_sized_struct_copy_out(ret_settings, &got, sizeof got);
    return KILN_OK;
}

/* ---- the public calls: use ---- */

kiln_status kiln_persistent_open(uint32_t kind, kiln_error *error)
{
    if (!switch_of(kind)) {
        return KILN_E_INVALID;
    }
    lock();
    kilni_governed_store *stale = settings.is_parents ? detach_locked() : NULL;
    kiln_status status = is_on_locked(switch_of(kind)) ? KILN_OK : KILN_MISS;
    if (status == KILN_OK && !settings.store) {
        status = open_locked(error);
    }
    unlock_and_release(stale);
    return status;
}

kiln_status kiln_persistent_get(uint32_t kind, const kiln_key *key, kiln_entry **ret_entry)
{
    if (!switch_of(kind) || !key || !ret_entry) {
        return KILN_E_INVALID;
    }
    kilni_governed_store *held = hold(switch_of(kind), true);
    if (!held) {
        return KILN_MISS;
    }
    const kiln_status status = kiln_store_get(held->held.store, key, ret_entry);
    kilni_governed_release(&held);
    return status;
}

kiln_status kiln_persistent_put(uint32_t kind, const kiln_entry *entry)
{
    if (!switch_of(kind) || !entry) {
        return KILN_E_INVALID;
    }
    kilni_governed_store *held = hold(switch_of(kind), true);
    if (!held) {
        return KILN_MISS;
    }
    const kiln_status status = kiln_store_put(held->held.store, entry);
    kilni_governed_release(&held);
    return status;
}
