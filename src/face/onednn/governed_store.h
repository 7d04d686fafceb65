/* SPDX-License-Identifier: Apache-2.0
 *
 * A reference-counted store with its writer. A thread that uses the store keeps it open, even if
 * the settings change to a different store meanwhile.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include <kiln/store.h>

#include "program/store_source.h"

/* Any thread may use it. The store and the writer exist as long as there is a reference. */
typedef struct kilni_governed_store {
    kilni_held_store held; /* the first member, so that it has the address of the structure. When
                              the writer is closed, it closes the store */
    /* Decremented with acquire and release, so that the thread that releases the last reference
     * sees everything that other threads did with the store before they released theirs. */
    _Atomic uint32_t references;
} kilni_governed_store;

typedef struct kilni_governed_params {
    const char *dir;     /* begins with '/' or "./" */
    const char *backend; /* NULL: none */
    uint32_t policy;     /* a kiln_policy */
    uint64_t max_bytes;  /* greater than 0 */
    kiln_log log;
} kilni_governed_params;

/* Opens a store.
 *
 * @ret_store  [out] one reference
 * Returns KILN_E_NO_MEMORY, or what kiln_store_open returns. */
kiln_status kilni_governed_open(const kilni_governed_params *params,
                                kilni_governed_store **ret_store, kiln_error *error);

/* Trims an existing directory to @params->max_bytes. Does not create a directory. Returns KILN_OK,
 * also if there is no directory or if another process is trimming it; otherwise what
 * kiln_store_open and kiln_store_trim return. */
kiln_status kilni_governed_trim(const kilni_governed_params *params);

/* Adds a reference and returns its argument. */
kilni_governed_store *kilni_governed_retain(kilni_governed_store *governed);

/* Releases a reference and sets the pointer to NULL. NULL and a pointer to NULL are allowed. The
 * last release writes queued entries, for at most 60 s, and closes the store. If a log callback
 * calls this on the writer's own thread, the entries are written and the store is closed later. */
void kilni_governed_release(kilni_governed_store **governed);
