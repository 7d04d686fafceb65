/* SPDX-License-Identifier: Apache-2.0
 *
 * The OpenCL layer, which the ICD loader loads. It copies the loader's table of functions. In this
 * copy, the layer's own functions replace those that create, build and query programs and kernels.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <CL/cl_layer.h>

#include "../shared/cancellation_guard.h"
#include "../shared/helper.h"
#include "../shared/included_files.h"
#include "../shared/session.h"
#include "calls.h"
#include "duplicate_layer.h"
#include "keep_loaded.h"
#include "platforms.h"
#include "records.h"
#include "target.h"

#define LAYER_NAME "Kiln"
#define EXPORTED __attribute__((visibility("default")))

typedef cl_properties layer_properties;

EXPORTED cl_int CL_API_CALL clInitLayerWithProperties(cl_uint entry_count,
                                                      const cl_icd_dispatch *target,
                                                      cl_uint *ret_entry_count,
                                                      const cl_icd_dispatch **ret_dispatch,
                                                      const layer_properties *properties);
EXPORTED cl_int CL_API_CALL clDeinitLayer(void);

/* The first clInitLayer writes both variables, before the application can call the layer. They are
 * never written again. */
static cl_icd_dispatch layer_functions;
static int is_started;

/* ---- fork: no lock is held in the child, which builds without the cache ---- */

static void before_fork(void)
{
    records_lock();
    platforms_lock();
}

static void after_fork_in_parent(void)
{
    platforms_unlock();
    records_unlock();
}

static void after_fork_in_child(void)
{
    helper_forget();
    platforms_unlock();
    records_unlock();
}

static kiln_status start_session(void)
{
    const kiln_status status = session_start();
    return status == KILN_OK &&
                   pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) != 0
               ? KILN_E_NO_MEMORY
               : status;
}

/* ---- the loader's table ---- */

/* Replaces functions in the table. If an older loader lacks a function, its entry stays NULL. */
static void interpose(void)
{
#define INTERPOSE(name, own) layer_functions.name = layer_functions.name ? (own) : NULL;
    INTERCEPTED_CALLS(INTERPOSE)
#undef INTERPOSE
}

/* Starts a second instance of the layer, which only forwards calls. So the layer handles each call
 * only once, even if it is named twice or under different names. The loader keeps the table until
 * the process ends. */
static cl_int pass_on(cl_uint entry_count, const cl_icd_dispatch *target, cl_uint *ret_entry_count,
                      const cl_icd_dispatch **ret_dispatch)
{
    cl_icd_dispatch *passing = malloc(sizeof *passing);
    if (!passing) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    layer_copy_functions(passing, target, entry_count);
    *ret_dispatch = passing;
    *ret_entry_count = sizeof *passing / sizeof(void *);
    return CL_SUCCESS;
}

static cl_int start(cl_uint entry_count, const cl_icd_dispatch *target, cl_uint *ret_entry_count,
                    const cl_icd_dispatch **ret_dispatch, const void *caller)
{
    if (!target || !ret_entry_count || !ret_dispatch) {
        return CL_INVALID_VALUE;
    }
    if (is_started || duplicate_layer_is_started()) {
        return pass_on(entry_count, target, ret_entry_count, ret_dispatch);
    }
    is_started = 1;
    keep_loaded(caller);
    layer_set_target(target, entry_count);
    layer_functions = *layer_target();
    if (start_session() == KILN_OK) {
        interpose();
    }
    *ret_dispatch = &layer_functions;
    *ret_entry_count = sizeof layer_functions / sizeof(void *);
    return CL_SUCCESS;
}

EXPORTED cl_int CL_API_CALL clInitLayer(cl_uint entry_count, const cl_icd_dispatch *target,
                                        cl_uint *ret_entry_count,
                                        const cl_icd_dispatch **ret_dispatch)
{
    return start(entry_count, target, ret_entry_count, ret_dispatch, __builtin_return_address(0));
}

EXPORTED cl_int CL_API_CALL clInitLayerWithProperties(cl_uint entry_count,
                                                      const cl_icd_dispatch *target,
                                                      cl_uint *ret_entry_count,
                                                      const cl_icd_dispatch **ret_dispatch,
                                                      const layer_properties *properties)
{
    return properties && *properties ? CL_INVALID_PROPERTY
                                     : start(entry_count, target, ret_entry_count, ret_dispatch,
                                             __builtin_return_address(0));
}

EXPORTED cl_int CL_API_CALL clDeinitLayer(void)
{
    session_drain();
    return CL_SUCCESS;
}

static cl_int answer(const void *value, size_t size, size_t room, void *ret_value, size_t *ret_size)
{
    if (ret_value && room < size) {
        return CL_INVALID_VALUE;
    }
    if (ret_value) {
        memcpy(ret_value, value, size);
    }
    if (ret_size) {
        *ret_size = size;
    }
    return CL_SUCCESS;
}

EXPORTED cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what, size_t room, void *ret_value,
                                           size_t *ret_size)
{
    const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    const cl_uint started = is_started ? 1 : 0;
    switch (what) {
    case CL_LAYER_API_VERSION:
        return answer(&version, sizeof version, room, ret_value, ret_size);
    case CL_LAYER_NAME:
        return answer(LAYER_NAME, sizeof LAYER_NAME, room, ret_value, ret_size);
    case LAYER_IS_STARTED:
        return answer(&started, sizeof started, room, ret_value, ret_size);
    default:
        return CL_INVALID_VALUE;
    }
}

static void drain(void *unused)
{
    (void)unused;
    included_files_drain();
    session_end();
    helper_process_ends();
}

/* When the process ends, writes queued entries, and starts the helper for pending requests. This
 * function must not call OpenCL. */
__attribute__((destructor)) static void finish(void)
{
    run_without_cancellation(drain, NULL);
}
