/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs of one device that all callers in a context share: each is built once, kept in memory
 * while there is room, and found in the store by the next process.
 */
#pragma once

#include <kiln/device.h>

#include "program/request.h"

/* Any thread. Programs may outlive it; device and ops must outlive the programs. */
typedef struct kilni_program_context kilni_program_context;

/* One hold on a live program. */
typedef struct kilni_program kilni_program;

typedef struct kilni_program_context_params {
    const kiln_device_ops *ops;      /* not NULL; borrowed */
    void *device;                    /* the backend's; borrowed */
    kiln_store *store;               /* NULL: see engine_kind; borrowed */
    kilni_writer *writer;            /* of that store, or of none; not NULL; borrowed */
    const kiln_cache_params *memory; /* bounds and policy; NULL: defaults. destroy, user: unused */

    /* kiln_engine_kind: without a store of its own the context has the process's persistent cache
     * (kiln/persistent.h), as far as that is on for this kind; its requests are counted there. 0:
     * without a store it keeps programs in memory only. */
    uint32_t engine_kind;

    /* Programs whose code is smaller, or larger, are not kept in a store. 0 and 0: all are. */
    uint64_t min_stored_bytes, max_stored_bytes;
} kilni_program_context_params;

/* Returns KILN_OK; KILN_E_INVALID; KILN_E_NO_MEMORY. Blocks: as ops->identity does. */
kiln_status kilni_program_context_new(const kilni_program_context_params *params,
                                      kilni_program_context **ret_context);

/* The last context that the process's persistent cache governs waits for what is to be written
 * there, 60 s at most. */
void kilni_program_context_free(kilni_program_context **context);

/* Finds the program in memory, or in the store, or builds it, once.
 *
 * @ret_program  [out] to be given back with kilni_program_release
 * @ret_result   [out] may be NULL; its pin is NULL
 * @error        may be NULL; for KILN_E_BUILD the build log's beginning
 * Returns KILN_OK; KILN_E_BUILD, to the builder and to those who waited; KILN_E_INVALID;
 * KILN_E_CYCLE; KILN_E_RESOURCES; KILN_E_NO_MEMORY. Where the key can't be told the program is
 * built for this caller alone. */
kiln_status kilni_program_obtain(kilni_program_context *context, const kiln_program_source *source,
                                 kilni_program **ret_program, kilni_request_result *ret_result,
                                 kiln_error *error);

/* The backend's handle; lives as long as the hold. */
void *kilni_program_handle(const kilni_program *program);

/* Sets the pointer to NULL; takes NULL and a pointer to NULL. */
void kilni_program_release(kilni_program **program);
