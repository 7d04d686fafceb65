/* SPDX-License-Identifier: Apache-2.0
 *
 * A folder's state in a store: an entry with the list of its files, under the key of the folder's
 * identity, and an entry for each content, under the key of its digest.
 */
#pragma once

#include <stdbool.h>

#include <kiln/store.h>

#include "cache_table.h"
#include "file_list.h"

/* Returns true once the work is no longer of use. */
typedef struct snapshot_stop {
    bool (*is_due)(void *user);
    void *user;
} snapshot_stop;

/* Reads the list under a key. Returns false if there is none, or it is not sound, or too large for
 * the cache. */
bool snapshot_read(kiln_store *store, const kiln_key *key, const folder_cache *cache,
                   file_list *ret_list);

/* Writes all files of a list into a folder. Each content is verified before it is written. Returns
 * false if one cannot be written. Some files may then have been written. */
bool snapshot_fill(kiln_store *store, const file_list *list, int folder, snapshot_stop stop);

/* Puts the contents of all listed files that have no digest yet, and sets their digests. Counts
 * them in @ret_count. Returns KILN_OK; KILN_BUSY: a file is no longer as listed, or is open for
 * writing; otherwise what kiln_store_put returns. */
kiln_status snapshot_put_contents(kiln_store *store, const folder_cache *cache, int folder,
                                  file_list *list, snapshot_stop stop, uint64_t *ret_count);

/* Puts a list. Its contents must have been put before. Returns what kiln_store_put returns. */
kiln_status snapshot_put_list(kiln_store *store, const kiln_key *key, const folder_cache *cache,
                              const file_list *list);
