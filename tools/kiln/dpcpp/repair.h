/* SPDX-License-Identifier: Apache-2.0
 *
 * Repairs a cache, under the runtime's own locks, so that programs can use it meanwhile.
 */
#pragma once

#include "item_lock.h"

typedef struct repair_counts {
    uint64_t removed;       /* items */
    uint64_t removed_bytes; /* sum of the sizes of their .bin and .src files */
} repair_counts;

/* Locks a directory, examines it again and does what the plan says. Removes the directory if it is
 * empty after that. Adds what was repaired to @repaired. */
outcome repair_directory(const cache_tree *tree, const item_directory *directory,
                         const inspection_rules *rules, repair_counts *repaired);

/* Removes an empty directory, and all directories above it that become empty. */
outcome repair_empty_directory(const cache_tree *tree, const char *path);

/* Removes one of the locks at the root, if it is stale. */
outcome repair_root_lock(const cache_tree *tree, int which, const inspection_rules *rules);

/* Writes the size of all items to cache_size.txt, if that file exists and contains a different
 * number. */
outcome repair_size(const cache_tree *tree, const inspection_rules *rules);
