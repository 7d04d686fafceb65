/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/persistent.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "face/onednn/governed_store.h"

#define MIB_SHIFT 20u
#define KIND_COUNT 2u

/* What was set, and the store that follows from it. Guarded by settings_lock, which is held while
 * the store is opened, so that it is opened once; never while one is trimmed or closed. */
static struct {
    bool is_disabled[KIND_COUNT];
    int32_t capacity_mib;
    uint32_t policy;
    char *dir; /* NULL: the default */
    kiln_log log;

    kilni_governed_store *store; /* NULL: not open */
    bool is_parents;             /* opened before a fork: its writer's thread is the parent's */
    bool has_failed;             /* to open as set: not to be tried at each request */
    size_t contexts;             /* that are governed */
} settings = {.policy = KILN_POLICY_FIFO};

static pthread_mutex_t settings_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the lock. A forked child gets settings that nobody is in the midst of changing. ---- */

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

/* Writers too, which are made with the lock held: where the C library keeps its list of these
 * locked while it calls one that waits for ours, adding to the list then would wait for ever. */
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

/* Takes the store out of the settings, so that the next use opens another. The caller releases it
 * once the lock is free: that may take as long as the disk does. */
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

/* NULL: no such kind. */
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

/* @dir stays the settings': with the lock free it has to be a copy. */
static kilni_governed_params params_locked(void)
{
    return (kilni_governed_params){
        .dir = dir_locked(),
        .policy = settings.policy == KILN_POLICY_FIFO ? KILN_STORE_POLICY_FIFO
                                                      : KILN_STORE_POLICY_NO_EVICT,
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

/* Outside the lock: a log callback may call us. */
static void log_failure(kiln_log log, const kiln_error *error)
{
    if (log.write) {
        log.write(log.user, KILN_LOG_ERROR, error->text);
    }
}

/* ---- the source of stores ---- */

/* The store of a kind at this moment, opened if need be and if that is allowed: one reference.
 * NULL: off, not open, or it can't be opened. */
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

/* When the last context ends the store is closed, after what waits to be written. */
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

kiln_status kiln_persistent_set_enabled(uint32_t kind, int enable)
{
    if (!switch_of(kind) || (enable != 0 && enable != 1)) {
        return KILN_E_INVALID;
    }
    lock();
    *switch_of(kind) = !enable;
    const bool is_none_on = settings.is_disabled[0] && settings.is_disabled[1];
    unlock_and_release(is_none_on ? detach_locked() : NULL);
    return KILN_OK;
}

kiln_status kiln_persistent_get_enabled(uint32_t kind, int *ret_enabled)
{
    if (!switch_of(kind) || !ret_enabled) {
        return KILN_E_INVALID;
    }
    lock();
    *ret_enabled = !*switch_of(kind);
    unlock();
    return KILN_OK;
}

/* Trims to the capacity that is set now. Other threads may change it meanwhile: the last one to
 * make it smaller trims last. */
static kiln_status trim(void)
{
    lock();
    kilni_governed_params params = params_locked();
    char *dir = strdup(params.dir);
    unlock();
    if (!dir) {
        return KILN_E_NO_MEMORY;
    }
    params.dir = dir;
    const kiln_status status = params.max_bytes > 0 ? kilni_governed_trim(&params) : KILN_OK;
    free(dir);
    return status;
}

kiln_status kiln_persistent_set_capacity(int32_t capacity_mib)
{
    if (capacity_mib < 0) {
        return KILN_E_INVALID;
    }
    lock();
    const bool is_smaller = capacity_mib < settings.capacity_mib;
    const bool is_same = capacity_mib == settings.capacity_mib;
    settings.capacity_mib = capacity_mib;
    unlock_and_release(is_same ? NULL : detach_locked());
    return is_smaller ? trim() : KILN_OK;
}

kiln_status kiln_persistent_get_capacity(int32_t *ret_capacity_mib)
{
    if (!ret_capacity_mib) {
        return KILN_E_INVALID;
    }
    lock();
    *ret_capacity_mib = settings.capacity_mib;
    unlock();
    return KILN_OK;
}

/* A path that no one takes for a URL: a relative one begins with "./". */
static kiln_status copy_dir(const char *dir, char **ret_copy)
{
    const bool is_complete = dir[0] == '/' || (dir[0] == '.' && dir[1] == '/');
    const size_t size = strlen(dir) + 1;
    char *copy = malloc(size + 2);
    if (!copy) {
        return KILN_E_NO_MEMORY;
    }
    memcpy(copy, "./", 2);
    memcpy(copy + (is_complete ? 0 : 2), dir, size);
    *ret_copy = copy;
    return KILN_OK;
}

kiln_status kiln_persistent_set_dir(const char *dir)
{
    char *copy = NULL;
    if (dir && *dir && copy_dir(dir, &copy) != KILN_OK) {
        return KILN_E_NO_MEMORY;
    }
    lock();
    char *last = settings.dir;
    const bool is_same = strcmp(copy ? copy : KILN_PERSISTENT_DEFAULT_DIR, dir_locked()) == 0;
    settings.dir = copy;
    unlock_and_release(is_same ? NULL : detach_locked());
    free(last);
    return KILN_OK;
}

kiln_status kiln_persistent_get_dir(char *dir, size_t *size)
{
    if (!size) {
        return KILN_E_INVALID;
    }
    lock();
    const size_t needed = strlen(dir_locked()) + 1;
    const bool fits = dir && *size >= needed;
    if (fits) {
        memcpy(dir, dir_locked(), needed);
    }
    unlock();
    *size = needed;
    return fits || !dir ? KILN_OK : KILN_E_TOO_LARGE;
}

kiln_status kiln_persistent_set_policy(uint32_t policy)
{
    if (policy != KILN_POLICY_FIFO && policy != KILN_POLICY_NO_EVICT) {
        return KILN_E_INVALID;
    }
    lock();
    const bool is_same = policy == settings.policy;
    settings.policy = policy;
    unlock_and_release(is_same ? NULL : detach_locked());
    return KILN_OK;
}

kiln_status kiln_persistent_get_policy(uint32_t *ret_policy)
{
    if (!ret_policy) {
        return KILN_E_INVALID;
    }
    lock();
    *ret_policy = settings.policy;
    unlock();
    return KILN_OK;
}

kiln_status kiln_persistent_set_log(const kiln_log *log)
{
    lock();
    settings.log = log ? *log : (kiln_log){0};
    unlock_and_release(detach_locked());
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
