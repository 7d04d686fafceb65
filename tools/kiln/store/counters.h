/* SPDX-License-Identifier: Apache-2.0
 *
 * What caching did, for `kiln stats` and `kiln run --summary`: one shape of JSON for both.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include <kiln/stats.h>
#include <kiln/store_tools.h>

typedef struct counter_values {
    kiln_stats stats;
    uint64_t entries, bytes; /* that the store holds now */
    uint64_t requests;       /* builds that wait there to be captured */
} counter_values;

/* Reads what a store holds and counted. @store may be NULL: all zeros. */
kiln_status counters_read(kiln_store *store, counter_values *ret_counters);

json_t *counters_to_json(const counter_values *counters);
