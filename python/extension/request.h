/* SPDX-License-Identifier: Apache-2.0
 *
 * The path of a request: memory, store, lease, build.
 */
#ifndef KILN_PYTHON_REQUEST_H
#define KILN_PYTHON_REQUEST_H

#include <kiln/cache.h>
#include <kiln/entry.h>
#include <kiln/stats.h>

#include "python.h"
#include "store_handle.h"

/* What is requested, and where. The caller fills the first block, and sets all other members to
 * zero. */
typedef struct request {
    kiln_cache *memory;
    store_handle *handle; /* NULL: there is no store */
    const kiln_key *key;
    PyObject *build;        /* called without arguments */
    const char *name;       /* the name of the entry, if build returns bytes */
    uint64_t lease_wait_ns; /* how long to wait for other processes */

    kiln_stats counted;     /* what the request adds to the totals of the store */
    uint64_t puts, corrupt; /* counted by the store itself */

    /* While the request runs. */
    kiln_ticket *ticket;
    kiln_lease *lease;
    kiln_entry *entry;
} request;

/* Finds the entry, or makes it by calling build. No Python code runs inside a call of libkiln, so a
 * thread that Python ends when the interpreter exits holds no lock of libkiln. Returns a reference
 * to the entry; NULL: an exception is set. */
kiln_entry *request_run(request *wanted);

/* Returns the approximate cost of a miss in memory once a store has the entry: the cost of reading
 * it. */
uint64_t request_reload_cost(const kiln_entry *entry);

#endif
