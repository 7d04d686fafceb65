/* SPDX-License-Identifier: Apache-2.0 */
#include "program_key.h"

#include <stdlib.h>
#include <string.h>

#include "layer.h"

const char *program_key_obstacle(platform *known)
{
    if (!known) {
        return "a platform that can't be told";
    }
    if (known->traits->capture_cost != KILN_CAPTURE_CHEAP && !known->traits->own_cache_switch) {
        return "capturing is dear on this driver";
    }
    if (platform_is_seen_through(known)) {
        return "an extension function that sees programs is in use";
    }
    if (!platform_is_as_identified(known)) {
        return "a file of the driver's that changed since the program began";
    }
    if (session_is_forked()) {
        return "a forked child";
    }
    return session_requests() ? NULL : "no memory for a cache";
}

kiln_status program_key_code(const program_record *record, const char *options, char **ret_code,
                             kiln_program_source *ret_source)
{
    const cl_icd_dispatch *cl = layer_target();
    const int is_source = record->origin == ORIGIN_SOURCE;
    const cl_program_info what = is_source ? CL_PROGRAM_SOURCE : CL_PROGRAM_IL;
    size_t size = 0;
    if (cl->clGetProgramInfo(record->program, what, 0, NULL, &size) != CL_SUCCESS || size == 0) {
        return KILN_E_UNSUPPORTED;
    }
    *ret_code = malloc(size);
    if (!*ret_code) {
        return KILN_E_NO_MEMORY;
    }
    if (cl->clGetProgramInfo(record->program, what, size, *ret_code, NULL) != CL_SUCCESS) {
        return KILN_E_UNSUPPORTED;
    }
    const size_t text_size = is_source ? strnlen(*ret_code, size) : size;
    if (is_source && text_size + 1 < size) {
        return KILN_E_UNSUPPORTED; /* how much a driver reads beyond a zero byte isn't told */
    }
    *ret_source = (kiln_program_source){
        .struct_size = sizeof *ret_source,
        .form = is_source ? KILN_SOURCE_TEXT : KILN_SOURCE_IL,
        .code = {*ret_code, text_size},
        .options = options,
    };
    return KILN_OK;
}

static kiln_status get_site(platform *known, cl_device_id device, kilni_opencl_site *ret_site,
                            kiln_key **ret_identity, kiln_error *error)
{
    const kiln_status status = platform_get_identity(known, device, ret_identity, error);
    if (status == KILN_OK) {
        *ret_site = (kilni_opencl_site){
            .identity = *ret_identity,
            .platform_name = known->name,
            .environment = layer_key_environment(),
        };
    }
    return status;
}

kiln_status program_key_begin(platform *known, cl_device_id device, kiln_key_builder **ret_builder,
                              kiln_error *error)
{
    kilni_opencl_site site;
    kiln_key *identity = NULL;
    kiln_status status = get_site(known, device, &site, &identity, error);
    if (status == KILN_OK) {
        status = kilni_opencl_begin_key(&site, ret_builder, error);
    }
    kiln_key_release(&identity);
    return status;
}

kiln_status program_key_of_build(platform *known, cl_device_id device,
                                 const kiln_program_source *source,
                                 const kilni_opencl_constants *constants, kiln_key **ret_key,
                                 kiln_error *error)
{
    kilni_opencl_site site;
    kiln_key *identity = NULL;
    kiln_status status = get_site(known, device, &site, &identity, error);
    if (status == KILN_OK) {
        status = kilni_opencl_build_key(&site, source, constants, ret_key, error);
    }
    kiln_key_release(&identity);
    return status;
}

void program_keys_free(kiln_key **keys, cl_uint count)
{
    for (cl_uint i = 0; keys && i < count; i++) {
        kiln_key_release(&keys[i]);
    }
    free(keys);
}

/* ---- devices ---- */

kiln_status program_devices_copy(cl_uint count, const cl_device_id *devices,
                                 cl_device_id **ret_devices)
{
    cl_device_id *copied = malloc(count * sizeof *copied);
    if (!copied) {
        return KILN_E_NO_MEMORY;
    }
    memcpy(copied, devices, count * sizeof *copied);
    *ret_devices = copied;
    return KILN_OK;
}

kiln_status program_devices_of(cl_program program, cl_device_id **ret_devices, cl_uint *ret_count)
{
    const cl_icd_dispatch *cl = layer_target();
    size_t size = 0;
    if (cl->clGetProgramInfo(program, CL_PROGRAM_DEVICES, 0, NULL, &size) != CL_SUCCESS) {
        return KILN_E_UNSUPPORTED;
    }
    cl_device_id *devices = malloc(size + 1);
    if (!devices) {
        return KILN_E_NO_MEMORY;
    }
    if (cl->clGetProgramInfo(program, CL_PROGRAM_DEVICES, size, devices, NULL) != CL_SUCCESS) {
        free(devices);
        return KILN_E_UNSUPPORTED;
    }
    *ret_devices = devices;
    *ret_count = (cl_uint)(size / sizeof *devices);
    return KILN_OK;
}

kiln_status program_devices_of_context(cl_context context, cl_device_id **ret_devices,
                                       cl_uint *ret_count)
{
    const cl_icd_dispatch *cl = layer_target();
    size_t size = 0;
    if (cl->clGetContextInfo(context, CL_CONTEXT_DEVICES, 0, NULL, &size) != CL_SUCCESS) {
        return KILN_E_UNSUPPORTED;
    }
    cl_device_id *devices = malloc(size + 1);
    if (!devices) {
        return KILN_E_NO_MEMORY;
    }
    if (cl->clGetContextInfo(context, CL_CONTEXT_DEVICES, size, devices, NULL) != CL_SUCCESS) {
        free(devices);
        return KILN_E_UNSUPPORTED;
    }
    *ret_devices = devices;
    *ret_count = (cl_uint)(size / sizeof *devices);
    return KILN_OK;
}

int program_has_devices(cl_program program, cl_uint count, const cl_device_id *devices)
{
    cl_device_id *of_program = NULL;
    cl_uint of_program_count = 0;
    int all = program_devices_of(program, &of_program, &of_program_count) == KILN_OK;
    for (cl_uint i = 0; all && i < count; i++) {
        cl_uint place = 0;
        while (place < of_program_count && of_program[place] != devices[i]) {
            place++;
        }
        all = place < of_program_count;
    }
    free(of_program);
    return all;
}
