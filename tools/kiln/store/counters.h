/* SPDX-License-Identifier: Apache-2.0
 *
 * What caching has done, for `kiln stats` and `kiln run --summary`, with the same JSON for both.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include <kiln/stats.h>
#include <kiln/store_tools.h>

typedef struct counter_values {
    kiln_stats stats;
    uint64_t entries, bytes; /* in the store now */
    uint64_t max_bytes;      /* the limit of its directories; 0: the store has no directory, but is
                                on a server */
    uint64_t requests;       /* builds that wait in the store to be captured */
} counter_values;

/* Reads a store's contents and totals. @store may be NULL: all are zero. */
kiln_status counters_read(kiln_store *store, counter_values *ret_counters);

json_t *counters_to_json(const counter_values *counters);
