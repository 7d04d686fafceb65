/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes that repeat builds, several at a time.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include <kiln/store.h>

#include "build.h"
#include "work_list.h"

typedef struct pool_terms {
    kiln_store *from, *to;
    char *cache;           /* the folder of the first store of @to; NULL: it has none */
    char *included_beside; /* the folder of the first store of @from; NULL: it has none */
    build_terms build;
    unsigned jobs;
    uint64_t budget_ns; /* after this time, builds that have not ended are stopped; 0: no limit */
} pool_terms;

/* Called for each item, once.
 *
 * @result  an object with "result", "why", "log" and, if the store now has the entry, "entry", its
 *          digest; "result" is "built", "present", "failed", "impossible" or "left" */
typedef void pool_report(void *user, const work_item *item, json_t *result);

/* Repeats the builds of all items, in order. */
void pool_run(const pool_terms *terms, const work_list *list, pool_report *report, void *user);
