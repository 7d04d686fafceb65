/* SPDX-License-Identifier: Apache-2.0
 *
 * A store with its writer, counted: whoever is at work with it keeps it open, also when the
 * settings have turned to another one.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include <kiln/store.h>

#include "program/store_source.h"

/* Any thread. Store and writer live as long as a reference. */
typedef struct kilni_governed_store {
    kilni_held_store held; /* first, so that its address is the store's. The writer closes the store
                              in the end */
    /* The last release (acquire) sees what all before it (release) did with the store. */
    _Atomic uint32_t references;
} kilni_governed_store;

typedef struct kilni_governed_params {
    const char *dir;     /* begins with '/' or "./" */
    const char *backend; /* NULL: none */
    uint32_t policy;     /* KILN_POLICY_… */
    uint64_t max_bytes;  /* more than 0 */
    kiln_log log;
} kilni_governed_params;

/* @ret_store  [out] one reference
 * Returns KILN_OK; KILN_E_NO_MEMORY; what kiln_store_open returns. */
kiln_status kilni_governed_open(const kilni_governed_params *params,
                                kilni_governed_store **ret_store, kiln_error *error);

/* Trims a directory that is there to its size, and makes none. Returns KILN_OK: also where there is
 * none, or another process trims; what kiln_store_open and kiln_store_trim return. */
kiln_status kilni_governed_trim(const kilni_governed_params *params);

/* Returns its argument. */
kilni_governed_store *kilni_governed_retain(kilni_governed_store *governed);

/* Sets the pointer to NULL; takes NULL and a pointer to NULL. The last one writes what is waiting,
 * for 60 s at most, and closes the store; on the writer's own thread, which may come here by a log
 * callback, that is done later. */
void kilni_governed_release(kilni_governed_store **governed);
