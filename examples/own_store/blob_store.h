/* SPDX-License-Identifier: Apache-2.0
 *
 * An application's own cache: blobs in one file, with a policy and a limit that Kiln does not know.
 * Nothing here uses Kiln: in this file, IDs and blobs are plain bytes.
 *
 * Between open and close the whole cache is in memory. Closing writes the file as a whole, and the
 * next process reads it. If several processes close at the same time, the file of the last process
 * is kept. No process reads part of a file.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct blob_store blob_store;

/* Reads a file. A file that is missing or of a different format is an empty store.
 *
 * @max_bytes  of all IDs and blobs together
 * @trace      gets a line for each event; NULL: none
 * NULL: out of memory. */
blob_store *blob_store_open(const char *path, uint64_t max_bytes, FILE *trace);

/* The blob of an ID, or NULL; valid until the next call. Counts as a use. */
const uint8_t *blob_store_find(blob_store *store, const uint8_t *id, size_t id_size,
                               size_t *ret_size);

/* Keeps a copy of a blob under an ID, and replaces any earlier one. If there is no room, the blobs
 * used least often are evicted. A blob larger than the limit is not kept. Returns 0 if the blob is
 * kept, otherwise -1. */
int blob_store_keep(blob_store *store, const uint8_t *id, size_t id_size, const uint8_t *blob,
                    size_t size);

/* Writes the file if anything changed, and frees the store. Returns 0 if that worked, otherwise -1.
 * */
int blob_store_close(blob_store *store);
