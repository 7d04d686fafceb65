/* SPDX-License-Identifier: Apache-2.0
 *
 * A store with its writer, reference-counted: a thread that uses it keeps it open, even after the
 * settings have changed to a different store.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include <kiln/store.h>

#include "program/store_source.h"

/* Any thread may use it. Store and writer live as long as a reference. */
typedef struct kilni_governed_store {
    kilni_held_store held; /* first, so that it has the store's address. The writer closes the store
                              at its end */
    /* The last release (acquire) sees everything that all earlier ones (release) did with the
     * store. */
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
 * Returns KILN_OK; KILN_E_NO_MEMORY; what kiln_store_open returns. */
kiln_status kilni_governed_open(const kilni_governed_params *params,
                                kilni_governed_store **ret_store, kiln_error *error);

/* Trims an existing directory to its size, and creates none. Returns KILN_OK, also if there is none
 * or another process is trimming; what kiln_store_open and kiln_store_trim return. */
kiln_status kilni_governed_trim(const kilni_governed_params *params);

/* Adds a reference and returns its argument. */
kilni_governed_store *kilni_governed_retain(kilni_governed_store *governed);

/* Releases a reference and sets the pointer to NULL. NULL and a pointer to NULL are allowed. The
 * last release writes queued entries, for at most 60 s, and closes the store. On the writer's own
 * thread, which may come here through a log callback, that is done later. */
void kilni_governed_release(kilni_governed_store **governed);
