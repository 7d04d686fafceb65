/* SPDX-License-Identifier: Apache-2.0
 *
 * A cache that an application has of its own: blobs in one file, with a policy and a limit that
 * Kiln doesn't know. Nothing here uses Kiln: to this file IDs and blobs are bytes.
 *
 * All of it is in memory between open and close, and written as a whole: who starts next reads one
 * file. Of processes that close at the same time the last one wins; none sees half a file.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct blob_store blob_store;

/* Reads a file; one that is not there, or is none of this kind, is an empty store.
 *
 * @max_bytes  of all IDs and blobs together
 * @trace      gets a line for each thing that happens; NULL: none
 * NULL: out of memory. */
blob_store *blob_store_open(const char *path, uint64_t max_bytes, FILE *trace);

/* What was kept under an ID, or NULL; valid until the next call. Counts as a use. */
const uint8_t *blob_store_find(blob_store *store, const uint8_t *id, size_t id_size,
                               size_t *ret_size);

/* Keeps a copy under an ID, in place of what was there. What was used least often goes where there
 * is no room; what is larger than all of it is not kept. 0: it is kept; else -1. */
int blob_store_keep(blob_store *store, const uint8_t *id, size_t id_size, const uint8_t *blob,
                    size_t size);

/* Writes the file, where anything changed, and frees the store. 0: it is written; else -1. */
int blob_store_close(blob_store *store);
