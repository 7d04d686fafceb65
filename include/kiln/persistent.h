/* SPDX-License-Identifier: Apache-2.0
 *
 * A persistent cache for a whole process, governed by a few settings: a directory, its capacity,
 * and an engine kind's switch. It serves the contexts of programs that were given
 * kiln_persistent_source, and whoever asks it by kiln_persistent_get and kiln_persistent_put.
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
 * Nothing is kept until a capacity is set. All settings may change at any time: what is under way
 * goes on with the store that it began with. A change of directory, policy or capacity closes the
 * store after what waits to be written; the next use opens it as it is set then. What is on the
 * disk stays, but for what a smaller capacity takes. The store is also closed when the last of
 * those contexts ends.
 *
 * Calls return KILN_E_INVALID where an argument is none of those named, and change nothing then.
 * Threads: any. The environment is not read: kiln/config.h has profile onednn for that.
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

/* Where entries are unless a directory is set: a directory of our own in the working directory, as
 * that is whenever the store is opened. Nothing beside it is touched. */
#define KILN_PERSISTENT_DEFAULT_DIR "./kiln_persistent_cache"

/* ---- settings ---- */

/* Which settings a call changes. */
enum {
    KILN_PERSISTENT_CPU = 1u,
    KILN_PERSISTENT_GPU = 2u,
    KILN_PERSISTENT_CAPACITY = 4u,
    KILN_PERSISTENT_DIR = 8u,
    KILN_PERSISTENT_POLICY = 16u,
    KILN_PERSISTENT_BACKEND = 32u,
    KILN_PERSISTENT_LOG = 64u
};

/* What governs the cache. */
typedef struct kiln_persistent_settings {
    size_t struct_size;
    uint32_t changed; /* KILN_PERSISTENT_…, at least one: the fields to take over */

    /* 0 or 1: the switch of each kind of engine. Both are 1 at first, so that the capacity alone
     * decides. Switching off deletes nothing. The store is closed once both are off. */
    int32_t cpu, gpu;

    /* What entries may occupy on disk, for all kinds together, in MiB. Less than before trims the
     * directory, by policy. 0, the default, disables the cache and deletes nothing. */
    int32_t capacity_mib;

    /* What happens when the capacity is reached: KILN_POLICY_FIFO, the default, removes the entries
     * that were created first; KILN_POLICY_NO_EVICT takes nothing new. */
    uint32_t policy;

    /* Taken literally, never as a URL. It is made with its first use; what is trusted is what
     * kiln_store_open trusts. A relative one begins at the working directory, as that is whenever
     * the store is opened. NULL or "": KILN_PERSISTENT_DEFAULT_DIR. */
    const char *dir;

    /* A folder inside the directory for the entries of one device backend: a letter, then letters,
     * digits, _ and -, at most 31, and not v1.
     * NULL or "", the default: none. */
    const char *backend;

    /* Where lines go that say why the store could not be opened, or what it skipped; zeroed, the
     * default: nowhere. Lines may come from the thread that writes. The callback may call all that
     * is declared here; a store that it closes on that thread is closed soon after it. Its user
     * pointer is borrowed until a different log was set, and what was under way then has ended. */
    kiln_log log;
} kiln_persistent_settings;

/* Takes over the fields that are named in @settings->changed, all or none. Texts are copied.
 *
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_NO_MEMORY; after a smaller capacity also what
 * kiln_store_open and kiln_store_trim return if the directory is there but can't be trimmed: the
 * settings hold nevertheless. Blocks: on what waits to be written, 60 s at most, and on trimming.
 */
KILN_API kiln_status kiln_persistent_set(const kiln_persistent_settings *settings);

/* What is set, all of it.
 *
 * @ret_settings  [in] its struct_size
 * @texts         room for the texts that @ret_settings points to; NULL: none is wanted, and they
 * are NULL. A relative directory has "./" before it
 * @size          [in] of @texts; [out] what is needed. NULL if @texts is NULL and it is not wanted
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_TOO_LARGE: @texts is too small, and nothing but @size was
 * written. Blocks: as a change of another thread does. */
KILN_API kiln_status kiln_persistent_get_settings(kiln_persistent_settings *ret_settings,
                                                  char *texts, size_t *size);

/* ---- use ---- */

/* For the store_source of a kiln_program_context_params: the context keeps its entries in this
 * cache while that is on for the kind.
 *
 * @kind  kiln_engine_kind
 * Returns a static object; NULL: no such kind. */
KILN_API const kiln_store_source *kiln_persistent_source(uint32_t kind);

/* Opens the store of a kind now, unless it is open, and says what is wrong with it. One that could
 * not be opened is not tried again by others before a setting changes; this call tries.
 *
 * @error  may be NULL
 * Returns KILN_OK: entries will be kept; KILN_MISS: off, by switch or capacity; KILN_E_INVALID;
 * what kiln_store_open returns. Blocks: on the file system. */
KILN_API kiln_status kiln_persistent_open(uint32_t kind, kiln_error *error);

/* As kiln_store_get. KILN_MISS too where the cache is off for that kind. Blocks: where a setting
 * changes meanwhile, and this is the last call that uses the store from before, also on what waits
 * to be written there, 60 s at most. */
KILN_API kiln_status kiln_persistent_get(uint32_t kind, const kiln_key *key,
                                         kiln_entry **ret_entry);

/* As kiln_store_put, which replaces an entry of the same key. KILN_MISS where the cache is off for
 * that kind: nothing was kept. Blocks: as kiln_persistent_get. */
KILN_API kiln_status kiln_persistent_put(uint32_t kind, const kiln_entry *entry);

#ifdef __cplusplus
}
#endif

#endif
