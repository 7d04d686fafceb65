/* SPDX-License-Identifier: Apache-2.0
 *
 * A persistent cache for a whole process, controlled by a few settings: a directory, its capacity,
 * and a switch for each engine kind. It serves program contexts that were created with
 * kiln_persistent_source, and callers of kiln_persistent_get and kiln_persistent_put.
 *
 *     kiln_persistent_settings on = {.struct_size = sizeof on,
 *                                    .changed = KILN_PERSISTENT_DIR | KILN_PERSISTENT_CAPACITY,
 *                                    .dir = directory, .capacity_mib = 512};
 *     kiln_persistent_set(&on);
 *
 *     if (kiln_persistent_get(KILN_ENGINE_GPU, key, &entry) == KILN_MISS) {
 *         kiln_persistent_put(KILN_ENGINE_GPU, built);
 *     }
 *
 * Nothing is kept until a capacity is set. All settings can change at any time; operations that are
 * under way continue with the store that they began with. A change of directory, backend, policy,
 * capacity or log closes the store after its queued entries have been written, and the next use
 * opens it with the new settings. What is on disk stays, except for entries that a smaller capacity
 * removes. The store is also closed when the last of these program contexts is freed.
 *
 * All calls: KILN_E_INVALID means that an argument is not one of the named values; the call has
 * then changed nothing. Any thread may make any call. These calls do not read the environment;
 * kiln/config.h does, with the profile onednn.
 *
 * Source: oneDNN's persistent cache, option 1 (docs/seeds.md, P4 to P33).
 */
#ifndef KILN_PERSISTENT_H
#define KILN_PERSISTENT_H

#include <stddef.h>
#include <stdint.h>

#include <kiln/cache.h>
#include <kiln/engine.h>
#include <kiln/entry.h>
#include <kiln/key.h>
#include <kiln/log.h>
#include <kiln/program.h>
#include <kiln/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The directory of the entries if none is set: a separate directory inside the working directory at
 * the time when the store is opened. Nothing else in the working directory is touched. */
#define KILN_PERSISTENT_DEFAULT_DIR "./kiln_persistent_cache"

/* ---- settings ---- */

/* Flags that name settings. */
enum {
    KILN_PERSISTENT_CPU = 1u,
    KILN_PERSISTENT_GPU = 2u,
    KILN_PERSISTENT_CAPACITY = 4u,
    KILN_PERSISTENT_DIR = 8u,
    KILN_PERSISTENT_POLICY = 16u,
    KILN_PERSISTENT_BACKEND = 32u,
    KILN_PERSISTENT_LOG = 64u
};

/* The settings of the cache. */
typedef struct kiln_persistent_settings {
    size_t struct_size;
    uint32_t changed; /* the settings to change: KILN_PERSISTENT_… or-ed, at least one */

    /* 0 or 1: whether the cache is on for each engine kind. Both are 1 by default, so the capacity
     * alone decides. Switching off deletes nothing. The store is closed once both are off. */
    int32_t cpu, gpu;

    /* How much disk space the entries of all kinds together may occupy, in MiB. Reducing it trims
     * the directory, in the order of the policy. 0, the default, disables the cache and deletes
     * nothing. */
    int32_t capacity_mib;

    /* What happens when the capacity is reached: KILN_POLICY_FIFO, the default, removes the entries
     * that were created first; KILN_POLICY_NO_EVICT keeps nothing new. */
    uint32_t policy;

    /* The directory, taken literally and never as a URL. It is created at its first use and must be
     * trusted, as for kiln_store_open. A relative path starts at the working directory at the time
     * when the store is opened. NULL or "": KILN_PERSISTENT_DEFAULT_DIR. */
    const char *dir;

    /* A folder inside the directory for the entries of one device backend. Its name is a letter,
     * then letters, digits, _ and -. The name has at most 31 characters, and is not v1. NULL or "",
     * the default: none. */
    const char *backend;

    /* Receives lines that report why the store could not be opened, or what it skipped. If the log
     * is all zeros, the default, the lines are dropped. The function can also be called on the
     * thread that writes entries. The function may make all calls of this header. If such a call
     * closes the store on the thread that writes, the store is closed soon afterwards. The user
     * pointer must stay valid until a different log has been set and all operations that were
     * running at that time have ended. */
    kiln_log log;
} kiln_persistent_settings;

/* Changes the settings that @settings->changed names: all of them, or none. Texts are copied.
 *
 * @settings  read during the call
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_NO_MEMORY; after a smaller capacity also what
 * kiln_store_open and kiln_store_trim return, if the directory exists but can't be trimmed (the
 * settings are in effect nevertheless). Blocks: on queued entries, for at most 60 s, and on
 * trimming. */
KILN_API kiln_status kiln_persistent_set(const kiln_persistent_settings *settings);

/* Reads all settings.
 *
 * @ret_settings  [in, out] the caller sets its struct_size
 * @texts         [out] room for the texts that @ret_settings points to; NULL: the caller does not
 *                need the texts, and they are NULL in @ret_settings. A relative directory begins
 *                with "./"
 * @size          [in] the size of @texts in bytes; [out] the size that is needed; may be NULL only
 *                if @texts is NULL
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_TOO_LARGE: @texts is too small, and only @size was
 * written. Blocks: while another thread changes settings or opens the store. */
KILN_API kiln_status kiln_persistent_get_settings(kiln_persistent_settings *ret_settings,
                                                  char *texts, size_t *size);

/* ---- use ---- */

/* Returns a static object for the field store_source of kiln_program_context_params. A context with
 * this object keeps its entries in this cache, as long as the cache is on for the kind.
 *
 * @kind  a kiln_engine_kind
 * Returns NULL if there is no such kind. */
KILN_API const kiln_store_source *kiln_persistent_source(uint32_t kind);

/* Opens the store of a kind now, unless it is open, and reports why it can't be opened. After a
 * failure, other calls do not try to open the store again before a setting changes; this call does.
 *
 * @kind   a kiln_engine_kind
 * @error  may be NULL
 * Returns KILN_OK: entries will be kept; KILN_MISS: the cache is off, because of its switch or its
 * capacity; KILN_E_INVALID; what kiln_store_open returns. Blocks: on the file system. */
KILN_API kiln_status kiln_persistent_open(uint32_t kind, kiln_error *error);

/* Looks up an entry, as kiln_store_get does. Also returns KILN_MISS if the cache is off for the
 * kind, or if its store can't be opened. Blocks: on reading. If a setting changes meanwhile, and
 * this is the last call that uses the earlier store, the call also waits until the entries that are
 * queued for that store are written, for at most 60 s. */
KILN_API kiln_status kiln_persistent_get(uint32_t kind, const kiln_key *key,
                                         kiln_entry **ret_entry);

/* Stores an entry, as kiln_store_put does. It replaces an existing entry of the same key. Returns
 * KILN_MISS, and stores nothing, if the cache is off for the kind, or if its store can't be opened.
 * Blocks: as kiln_persistent_get does. */
KILN_API kiln_status kiln_persistent_put(uint32_t kind, const kiln_entry *entry);

#ifdef __cplusplus
}
#endif

#endif
