/* SPDX-License-Identifier: Apache-2.0 */
#include "program_entry.h"

#include <stdlib.h>
#include <string.h>

#include "../shared/session.h"
#include "device/opencl/binary.h"
#include "device/opencl/stored.h"
#include "target.h"

static kiln_status find_stored(const platform *owner, const kiln_entry *entry, int may_read,
                               kilni_opencl_answers **ret_answers, kiln_bytes *ret_binary,
                               const char **ret_changed)
{
    kilni_opencl_stored found;
    kiln_status status =
        kilni_opencl_stored_find(entry, may_read, owner->traits, &found, ret_changed);
    if (status == KILN_OK) {
        *ret_binary = found.binary;
        status = kilni_opencl_answers_decode(found.answers, found.log, ret_answers);
    }
    return status;
}

kiln_status program_load(const platform *owner, cl_context context, cl_uint device_count,
                         const cl_device_id *devices, const kiln_entry *const *entries,
                         int may_read, const char *options, loaded_program **ret_loaded,
                         const char **ret_changed)
{
    kilni_opencl_answers **answers = calloc(device_count, sizeof(kilni_opencl_answers *));
    kiln_bytes *binaries = calloc(device_count, sizeof *binaries);
    cl_program program = NULL;
    kiln_status status = answers && binaries ? KILN_OK : KILN_E_NO_MEMORY;
    for (cl_uint i = 0; status == KILN_OK && i < device_count; i++) {
        status = find_stored(owner, entries[i], may_read, &answers[i], &binaries[i], ret_changed);
    }
    if (status == KILN_OK) {
        status = kilni_opencl_load(layer_target(), context, device_count, devices, binaries,
                                   options, &program);
    }
    free(binaries);
    if (status == KILN_OK) {
        status = loaded_program_new(program, options, device_count, devices, answers, ret_loaded);
        if (status == KILN_OK) {
            return KILN_OK;
        }
        layer_target()->clReleaseProgram(program);
    }
    for (cl_uint i = 0; answers && i < device_count; i++) {
        kilni_opencl_answers_free(&answers[i]);
    }
    free(answers);
    return status == KILN_E_CORRUPT ? KILN_E_REFUSED : status;
}

kiln_status program_capture(platform *known, cl_program program, cl_device_id device,
                            const kiln_key *key, uint64_t build_ns, const kilni_text *reads,
                            const kiln_entry *replaced, kiln_entry **ret_entry)
{
    kiln_capture taken = {0};
    kiln_status status = kilni_opencl_capture(layer_target(), program, device, &taken);
    if (status == KILN_OK && reads->length > 0) {
        status = kilni_opencl_stored_add_reads(&taken, (kiln_bytes){reads->bytes, reads->length},
                                               replaced);
    }
    if (status == KILN_OK) {
        const kiln_entry_params params = {
            .struct_size = sizeof params,
            .key = key,
            .kind = KILN_ENTRY_PROGRAM,
            .provenance = {.struct_size = sizeof params.provenance,
                           .tool = session_tool(),
                           .device = taken.device,
                           .name = taken.name,
                           .build_ns = build_ns},
            .answers = {taken.answers, taken.answers_size},
            .log = {taken.log, strlen(taken.log)},
            .payload = {taken.payload, taken.payload_size},
        };
        /* If the driver's files changed during the build, the result does not match the key. */
        status =
            platform_is_unchanged(known) ? kiln_entry_new(&params, ret_entry) : KILN_E_UNSUPPORTED;
    }
    kiln_capture_done(&taken);
    return status;
}

kiln_status program_status(cl_program program, cl_uint device_count, const cl_device_id *devices)
{
    for (cl_uint i = 0; i < device_count; i++) {
        cl_build_status status = CL_BUILD_NONE;
        if (layer_target()->clGetProgramBuildInfo(program, devices[i], CL_PROGRAM_BUILD_STATUS,
                                                  sizeof status, &status, NULL) != CL_SUCCESS ||
            status == CL_BUILD_IN_PROGRESS) {
            return KILN_E_UNSUPPORTED;
        }
        if (status != CL_BUILD_SUCCESS) {
            return KILN_E_BUILD;
        }
    }
    return KILN_OK;
}
