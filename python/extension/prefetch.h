/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads the entries of several keys from the store into memory.
 */
#ifndef KILN_PYTHON_PREFETCH_H
#define KILN_PYTHON_PREFETCH_H

#include <kiln/cache.h>
#include <kiln/stats.h>

#include "key_list.h"
#include "store_handle.h"

/* The caller fills the first block, and sets all other members to zero. */
typedef struct prefetch {
    kiln_cache *memory;
    store_handle *handle;
    key_list *wanted;

    kiln_stats counted; /* what the prefetch adds to the totals of the store */
    uint64_t corrupt;   /* counted by the store itself */
} prefetch;

/* Looks up the keys that memory lacks and that no thread is building. Takes no leases.
 * Returns 1; 0: an exception is set. */
int prefetch_run(prefetch *work);

#endif
