/* SPDX-License-Identifier: Apache-2.0
 *
 * Altering a cache: under the runtime's own locks, so that programs may use it meanwhile.
 */
#pragma once

#include "inspect.h"

typedef enum mend_result { MEND_DONE, MEND_IN_USE, MEND_FAILED /* with errno */ } mend_result;

typedef struct mend_counts {
    uint64_t removed;       /* items */
    uint64_t removed_bytes; /* of their .bin and .src */
} mend_counts;

/* Takes the locks of a directory, judges it again and does what its plan says. A directory that
 * is empty then goes. Adds to @mended. */
mend_result mend_directory(const cache_tree *tree, const item_directory *directory,
                           const inspection_rules *rules, mend_counts *mended);

/* Removes a directory that is empty, and those above that are empty then. */
mend_result mend_empty_directory(const cache_tree *tree, const char *path);

/* Removes one of the locks beside all items, if it is stale. */
mend_result mend_root_lock(const cache_tree *tree, int which, const inspection_rules *rules);

/* Writes into cache_size.txt what the items have now, where there is such a file and it says
 * something else. */
mend_result mend_size(const cache_tree *tree, const inspection_rules *rules);
