/* SPDX-License-Identifier: Apache-2.0 */
#include "face/onednn/governed_store.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/file_url.h"

#define LAYOUT "onednn"
#define QUEUE_BYTES (UINT64_C(64) << 20)
#define DRAIN_NS (UINT64_C(60) * 1000000000)

static kiln_status open_store(const kilni_governed_params *params, uint32_t flags,
                              kiln_store **ret_store, kiln_error *error)
{
    const kiln_store_params opening = {
        .struct_size = sizeof opening,
        .max_bytes = params->max_bytes,
        .flags = flags,
        .log = params->log,
        .layout = LAYOUT,
        .policy = params->policy,
    };
    kilni_text location = {0};
    kiln_status status = kilni_file_url_append(&location, params->dir);
    if (params->backend) {
        status = kilni_text_printf(&location, "?backend=%s", params->backend);
    }
    status = status == KILN_OK ? kiln_store_open(location.bytes, &opening, ret_store, error)
                               : kilni_error_set(error, status, 0, "out of memory");
    kilni_text_done(&location);
    return status;
}

kiln_status kilni_governed_open(const kilni_governed_params *params,
                                kilni_governed_store **ret_store, kiln_error *error)
{
    kilni_governed_store *governed = calloc(1, sizeof *governed);
    if (!governed) {
        return kilni_error_set(error, KILN_E_NO_MEMORY, 0, "out of memory");
    }
    kiln_status status = open_store(params, 0, &governed->held.store, error);
    if (status == KILN_OK) {
        status = kilni_writer_new(governed->held.store, QUEUE_BYTES, &governed->held.writer);
        if (status != KILN_OK) {
            kilni_error_set(error, status, 0, "out of memory");
        }
    }
    if (status != KILN_OK) {
        kiln_store_close(&governed->held.store);
        free(governed);
        return status;
    }
    atomic_init(&governed->references, 1);
    *ret_store = governed;
    return KILN_OK;
}

kiln_status kilni_governed_trim(const kilni_governed_params *params)
{
    kiln_store *store = NULL;
    kiln_status status = open_store(params, KILN_STORE_NO_CREATE, &store, NULL);
    if (status == KILN_OK) {
        const kiln_trim_params to_size = {.struct_size = sizeof to_size,
                                          .flags = KILN_TRIM_BY_SIZE,
                                          .max_bytes = params->max_bytes};
        status = kiln_store_trim(store, &to_size, NULL);
    }
    kiln_store_close(&store);
    return status == KILN_MISS || status == KILN_BUSY ? KILN_OK : status;
}

kilni_governed_store *kilni_governed_retain(kilni_governed_store *governed)
{
    atomic_fetch_add_explicit(&governed->references, 1, memory_order_relaxed);
    return governed;
}

void kilni_governed_release(kilni_governed_store **governed)
{
    if (!governed || !*governed) {
        return;
    }
    kilni_governed_store *released = *governed;
    *governed = NULL;
    if (atomic_fetch_sub_explicit(&released->references, 1, memory_order_acq_rel) == 1) {
        kilni_writer_close(&released->held.writer, DRAIN_NS);
        free(released);
    }
}
