/* SPDX-License-Identifier: Apache-2.0
 *
 * Altering a cache: under the runtime's own locks, so that programs may use it meanwhile.
 */
#pragma once

#include "inspect.h"

enum mend_result { MEND_DONE, MEND_IN_USE, MEND_FAILED /* with errno */ };

struct mended {
    uint64_t removed;       /* items */
    uint64_t removed_bytes; /* of their .bin and .src */
};

/* Takes the locks of a directory, judges it again and does what its plan says. A directory that
 * is empty then goes. Adds to @mended. */
enum mend_result mend_directory(const struct tree *tree, const struct item_directory *directory,
                                const struct rules *rules, struct mended *mended);

/* Removes a directory that is empty, and those above that are empty then. */
enum mend_result mend_empty_directory(const struct tree *tree, const char *path);

/* Removes one of the locks beside all items, if it is stale. */
enum mend_result mend_root_lock(const struct tree *tree, int which, const struct rules *rules);

/* Writes into cache_size.txt what the items have now, where there is such a file and it says
 * something else. */
enum mend_result mend_size(const struct tree *tree, const struct rules *rules);
