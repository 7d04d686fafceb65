/* SPDX-License-Identifier: Apache-2.0
 *
 * The public part of OpenCL's device ops.
 */
#include <stdlib.h>
#include <string.h>

#include <kiln/opencl.h>

#include "base/error.h"
#include "base/sized_struct.h"
#include "device/opencl/binary.h"
#include "device/opencl/device_ops.h"
#include "device/opencl/loader.h"
#include "device/opencl/traits.h"

struct kiln_opencl_device {
    kilni_opencl_device device; /* first, since the ops take a pointer to it */
    cl_icd_dispatch cl;
    kilni_opencl_environment environment;
    char **variables; /* NULL-terminated; NULL: none */
};

static kiln_status copy_variables(kiln_opencl_device *made, const char *const *more)
{
    size_t count = 0;
    while (more && more[count]) {
        count++;
    }
    made->variables = calloc(count + 1, sizeof *made->variables);
    if (!made->variables) {
        return KILN_E_NO_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        made->variables[i] = strdup(more[i]);
        if (!made->variables[i]) {
            return KILN_E_NO_MEMORY;
        }
    }
    made->environment.variables = (const char *const *)made->variables;
    made->device.environment = &made->environment;
    return KILN_OK;
}

/* Retains the context and the device. Stores each of them only after retaining it, because
 * kiln_opencl_device_free releases what is stored. */
static kiln_status hold(kiln_opencl_device *made, cl_context context, cl_device_id device,
                        kiln_error *error)
{
    if (made->cl.clRetainContext(context) != CL_SUCCESS) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "the context cannot be retained");
    }
    made->device.context = context;
    if (made->cl.clRetainDevice(device) != CL_SUCCESS) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "the device cannot be retained");
    }
    made->device.device = device;
    return KILN_OK;
}

static kiln_status fill(kiln_opencl_device *made, cl_context context, cl_device_id device,
                        const kiln_opencl_device_params *params, kiln_error *error)
{
    kiln_status status =
        params->function ? kilni_opencl_look_up(params->function, params->user, &made->cl, error)
                         : kilni_opencl_open_loader(&made->cl, error);
    made->device.cl = &made->cl;
    if (status == KILN_OK) {
        status = copy_variables(made, params->more);
    }
    if (status == KILN_OK) {
        status = hold(made, context, device, error);
    }
    return status == KILN_OK ? kilni_opencl_device_begin(&made->device, error) : status;
}

kiln_status kiln_opencl_device_new(void *context, void *device,
                                   const kiln_opencl_device_params *params,
                                   kiln_opencl_device **ret_device, kiln_error *error)
{
    kiln_opencl_device_params known;
    if (!context || !device || !ret_device ||
        kilni_sized_struct_copy(params, &known, sizeof known) != KILN_OK) {
        return kilni_error_set(error, KILN_E_INVALID, 0,
                               "OpenCL's device ops need a context and one of its devices");
    }
    kiln_opencl_device *made = calloc(1, sizeof *made);
    kiln_status status = made ? fill(made, context, device, &known, error) : KILN_E_NO_MEMORY;
    if (status == KILN_E_NO_MEMORY) {
        kilni_error_set(error, status, 0, "%s", kiln_status_text(status));
    }
    if (status != KILN_OK) {
        kiln_opencl_device_free(&made);
        return status;
    }
    *ret_device = made;
    return KILN_OK;
}

void kiln_opencl_device_free(kiln_opencl_device **device)
{
    if (!device || !*device) {
        return;
    }
    kiln_opencl_device *ending = *device;
    *device = NULL;
    if (ending->device.device) {
        ending->cl.clReleaseDevice(ending->device.device);
    }
    if (ending->device.context) {
        ending->cl.clReleaseContext(ending->device.context);
    }
    for (size_t i = 0; ending->variables && ending->variables[i]; i++) {
        free(ending->variables[i]);
    }
    free(ending->variables);
    kilni_opencl_device_end(&ending->device);
    free(ending);
}

const kiln_device_ops *kiln_opencl_ops(const kiln_opencl_device *device)
{
    return device ? kilni_opencl_ops(device->device.traits->capture_cost) : NULL;
}
