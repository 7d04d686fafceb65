/* SPDX-License-Identifier: Apache-2.0
 *
 * A persistent cache for a whole process, governed by a few calls: a directory, its capacity, and
 * an engine kind's switch. It serves the contexts of programs that were given
 * kiln_persistent_source, and whoever asks it by kiln_persistent_get and kiln_persistent_put.
 *
 *     kiln_persistent_set_dir("/var/cache/mine");
 *     kiln_persistent_set_capacity(512);
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

/* Switches the cache for one kind of engine. Both are on at first, so that the capacity alone
 * decides. Switching off deletes nothing; where no kind is on any more the store is closed.
 *
 * @kind    kiln_engine_kind
 * @enable  0 or 1
 * Returns KILN_OK; KILN_E_INVALID. Blocks: on what waits to be written, 60 s at most. */
KILN_API kiln_status kiln_persistent_set_enabled(uint32_t kind, int enable);

/* The switch alone: 1 also where the capacity is 0. Blocks: as a change of another thread does. */
KILN_API kiln_status kiln_persistent_get_enabled(uint32_t kind, int *ret_enabled);

/* Sets what the entries may occupy on the disk, for all kinds together. Less than before trims the
 * directory, by policy; 0, the default, disables and deletes nothing.
 *
 * @capacity_mib  in MiB, not negative
 * Returns KILN_OK; KILN_E_INVALID; what kiln_store_open and kiln_store_trim return, where the
 * directory is there but can't be trimmed: the capacity is set nevertheless. Blocks: as above, and
 * on trimming. */
KILN_API kiln_status kiln_persistent_set_capacity(int32_t capacity_mib);

/* What was set. Returns KILN_OK; KILN_E_INVALID. Blocks: as a change of another thread does. */
KILN_API kiln_status kiln_persistent_get_capacity(int32_t *ret_capacity_mib);

/* Sets the directory. It is made where it is missing, with its first use; what is trusted is what
 * kiln_store_open trusts. A relative one begins at the working directory, as that is whenever
 * the store is opened.
 *
 * @dir  copied; taken literally, never as a URL; NULL or "": KILN_PERSISTENT_DEFAULT_DIR
 * Returns KILN_OK; KILN_E_NO_MEMORY. Blocks: on what waits to be written, 60 s at most. */
KILN_API kiln_status kiln_persistent_set_dir(const char *dir);

/* Copies the directory with its closing zero: as it was set, a relative one with "./" before it.
 *
 * @dir   NULL: only the size is wanted
 * @size  [in] of @dir; [out] what is needed, with the closing zero
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_TOO_LARGE: @dir is too small, and was not written. */
KILN_API kiln_status kiln_persistent_get_dir(char *dir, size_t *size);

/* What happens when the capacity is reached: KILN_POLICY_FIFO, the default, removes the entries
 * that were created first; KILN_POLICY_NO_EVICT takes nothing new.
 *
 * Returns KILN_OK; KILN_E_INVALID: another policy. Blocks: as kiln_persistent_set_dir. */
KILN_API kiln_status kiln_persistent_set_policy(uint32_t policy);

/* What was set. Returns KILN_OK; KILN_E_INVALID. */
KILN_API kiln_status kiln_persistent_get_policy(uint32_t *ret_policy);

/* Where lines go that say why the store could not be opened, or what it skipped: a zeroed one, the
 * default, is silent. Lines may come from the thread that writes. The callback may call all that is
 * declared here; a store that it closes on that thread is closed soon after it.
 *
 * @log  NULL: a zeroed one. Its user pointer is borrowed until another one was set, and what was
 *       under way then has ended
 * Returns KILN_OK. Blocks: as kiln_persistent_set_dir. */
KILN_API kiln_status kiln_persistent_set_log(const kiln_log *log);

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
