/* SPDX-License-Identifier: Apache-2.0
 *
 * A scratch directory for each test, and a cache in it that the test opens.
 */
#pragma once

#include "support/store_scene.h"

static char scratch[SCRATCH_DIRECTORY_SIZE];
static char cache[SCRATCH_DIRECTORY_SIZE + 8];

static inline int cache_set_up(void **state)
{
    (void)state;
    scratch_make(scratch);
    snprintf(cache, sizeof cache, "%s/cache", scratch);
    return 0;
}

static inline int cache_tear_down(void **state)
{
    (void)state;
    scratch_remove(scratch);
    return 0;
}

/* Opens the cache in the layout of the test. Returns NULL if that fails. */
static inline kiln_store *cache_open(uint64_t max_bytes)
{
    const kiln_store_params params = {
        .struct_size = sizeof params, .max_bytes = max_bytes, .layout = scratch_layout};
    kiln_store *store = NULL;
    return kiln_store_open(cache, &params, &store, NULL) == KILN_OK ? store : NULL;
}
