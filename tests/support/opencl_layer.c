/* SPDX-License-Identifier: Apache-2.0 */
#include "support/opencl_layer.h"

#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

cl_icd_dispatch layer_below;
int layer_is_started;

static cl_icd_dispatch own;

EXPORTED cl_int CL_API_CALL clGetLayerInfo(cl_layer_info param, size_t size, void *value,
                                           size_t *ret_size)
{
    static const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    const void *answer = param == CL_LAYER_NAME ? (const void *)layer_name : &version;
    size_t needed = param == CL_LAYER_NAME ? strlen(layer_name) + 1 : sizeof version;
    if (param != CL_LAYER_NAME && param != CL_LAYER_API_VERSION) {
        return CL_INVALID_VALUE;
    }
    if (value != NULL && size < needed) {
        return CL_INVALID_VALUE;
    }
    if (value != NULL) {
        memcpy(value, answer, needed);
    }
    if (ret_size != NULL) {
        *ret_size = needed;
    }
    return CL_SUCCESS;
}

/* The tables of different loaders have different lengths. */
static void copy_table(cl_uint entry_count, const cl_icd_dispatch *target)
{
    size_t offered = entry_count * sizeof(void *);
    memset(&layer_below, 0, sizeof layer_below);
    memcpy(&layer_below, target, offered < sizeof layer_below ? offered : sizeof layer_below);
    own = layer_below;
}

EXPORTED cl_int CL_API_CALL clInitLayer(cl_uint entry_count, const cl_icd_dispatch *target,
                                        cl_uint *ret_entry_count,
                                        const cl_icd_dispatch **ret_dispatch)
{
    if (target == NULL || ret_entry_count == NULL || ret_dispatch == NULL) {
        return CL_INVALID_VALUE;
    }
    if (layer_is_started) {
        return CL_INVALID_OPERATION;
    }
    layer_is_started = 1;
    copy_table(entry_count, target);
    layer_interpose(&own);
    *ret_dispatch = &own;
    *ret_entry_count = sizeof own / sizeof(void *);
    return CL_SUCCESS;
}

/* Functions that newer loaders call. The headers of newer loaders declare them; those of Debian 12
 * do not. */
EXPORTED cl_int CL_API_CALL clInitLayerWithProperties(cl_uint entry_count,
                                                      const cl_icd_dispatch *target,
                                                      cl_uint *ret_entry_count,
                                                      const cl_icd_dispatch **ret_dispatch,
                                                      const cl_properties *properties);
EXPORTED cl_int CL_API_CALL clDeinitLayer(void);

cl_int CL_API_CALL clInitLayerWithProperties(cl_uint entry_count, const cl_icd_dispatch *target,
                                             cl_uint *ret_entry_count,
                                             const cl_icd_dispatch **ret_dispatch,
                                             const cl_properties *properties)
{
    (void)properties;
    return clInitLayer(entry_count, target, ret_entry_count, ret_dispatch);
}

cl_int CL_API_CALL clDeinitLayer(void)
{
    return CL_SUCCESS;
}
