/* SPDX-License-Identifier: Apache-2.0 */
#include "calls.h"

#include <stdlib.h>

#include "capture_on_query.h"
#include "platforms.h"
#include "records.h"
#include "target.h"

/* ---- binaries: the loaded program has a binary for each of its devices, in its own order ---- */

typedef struct binary_query {
    cl_program program;
    const loaded_program *loaded;
    cl_device_id *devices; /* the program's devices */
    size_t device_count;
    size_t *sizes;            /* the sizes of the loaded program's binaries */
    unsigned char **binaries; /* the application's buffers for them */
} binary_query;

static cl_int start_query(binary_query *query)
{
    const cl_icd_dispatch *cl = layer_target();
    size_t size = 0;
    cl_int error = cl->clGetProgramInfo(query->program, CL_PROGRAM_DEVICES, 0, NULL, &size);
    if (error != CL_SUCCESS) {
        return error;
    }
    query->device_count = size / sizeof *query->devices;
    query->devices = malloc(size + 1);
    query->sizes = calloc(query->loaded->device_count, sizeof *query->sizes);
    query->binaries = calloc(query->loaded->device_count, sizeof *query->binaries);
    if (!query->devices || !query->sizes || !query->binaries) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    error = cl->clGetProgramInfo(query->program, CL_PROGRAM_DEVICES, size, query->devices, NULL);
    return error == CL_SUCCESS
               ? cl->clGetProgramInfo(query->loaded->program, CL_PROGRAM_BINARY_SIZES,
                                      query->loaded->device_count * sizeof *query->sizes,
                                      query->sizes, NULL)
               : error;
}

static void end_query(binary_query *query)
{
    free(query->devices);
    free(query->sizes);
    free(query->binaries);
}

static cl_int reply_sizes(const binary_query *query, size_t room, void *ret_value, size_t *ret_size)
{
    size_t *sizes = calloc(query->device_count, sizeof *sizes);
    if (!sizes) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    for (size_t i = 0; i < query->device_count; i++) {
        const cl_uint place = loaded_program_find_device(query->loaded, query->devices[i]);
        sizes[i] = place < query->loaded->device_count ? query->sizes[place] : 0;
    }
    const cl_int error = kilni_opencl_return_info(sizes, query->device_count * sizeof *sizes, room,
                                                  ret_value, ret_size);
    free(sizes);
    return error;
}

static cl_int reply_binaries(const binary_query *query, size_t room, void *ret_value,
                             size_t *ret_size)
{
    const size_t needed = query->device_count * sizeof(unsigned char *);
    if (ret_value) {
        if (room < needed) {
            return CL_INVALID_VALUE;
        }
        unsigned char *const *places = ret_value;
        for (size_t i = 0; i < query->device_count; i++) {
            const cl_uint place = loaded_program_find_device(query->loaded, query->devices[i]);
            if (place < query->loaded->device_count) {
                query->binaries[place] = places[i];
            }
        }
        const cl_int error = layer_target()->clGetProgramInfo(
            query->loaded->program, CL_PROGRAM_BINARIES,
            query->loaded->device_count * sizeof *query->binaries, query->binaries, NULL);
        if (error != CL_SUCCESS) {
            return error;
        }
    }
    if (ret_size) {
        *ret_size = needed;
    }
    return CL_SUCCESS;
}

static cl_int query_binaries(cl_program program, const loaded_program *loaded, cl_program_info what,
                             size_t room, void *ret_value, size_t *ret_size)
{
    binary_query query = {.program = program, .loaded = loaded};
    cl_int error = start_query(&query);
    if (error == CL_SUCCESS) {
        error = what == CL_PROGRAM_BINARIES ? reply_binaries(&query, room, ret_value, ret_size)
                                            : reply_sizes(&query, room, ret_value, ret_size);
    }
    end_query(&query);
    return error;
}

/* ---- programs ---- */

/* Answers with the driver's reference count minus the layer's own references. */
static cl_int query_references(cl_program program, size_t room, void *ret_value, size_t *ret_size)
{
    const cl_int error = layer_target()->clGetProgramInfo(program, CL_PROGRAM_REFERENCE_COUNT, room,
                                                          ret_value, ret_size);
    if (error == CL_SUCCESS && ret_value) {
        const cl_uint driver_count = *(const cl_uint *)ret_value;
        *(cl_uint *)ret_value = records_visible_references(program, driver_count);
    }
    return error;
}

/* Returns true if a build does not change the answer to this query. */
static int is_of_unbuilt(cl_program_info what)
{
    switch (what) {
    case CL_PROGRAM_CONTEXT:
    case CL_PROGRAM_NUM_DEVICES:
    case CL_PROGRAM_DEVICES:
    case CL_PROGRAM_SOURCE:
    case CL_PROGRAM_IL:
        return 1;
    default:
        return 0;
    }
}

static cl_int query_loaded(cl_program program, const loaded_program *loaded, cl_program_info what,
                           size_t room, void *ret_value, size_t *ret_size)
{
    switch (what) {
    case CL_PROGRAM_BINARY_SIZES:
    case CL_PROGRAM_BINARIES:
        return query_binaries(program, loaded, what, room, ret_value, ret_size);
    default:
        return layer_target()->clGetProgramInfo(loaded->program, what, room, ret_value, ret_size);
    }
}

static cl_int query_at_driver(cl_program program, cl_program_info what, size_t room,
                              void *ret_value, size_t *ret_size)
{
    const cl_int error = layer_target()->clGetProgramInfo(program, what, room, ret_value, ret_size);
    if (error == CL_SUCCESS && what == CL_PROGRAM_BINARIES && ret_value) {
        capture_queried_binaries(program, ret_value);
    }
    return error;
}

cl_int CL_API_CALL layer_get_program_info(cl_program program, cl_program_info what, size_t room,
                                          void *ret_value, size_t *ret_size)
{
    if (records_is_released(program)) {
        return CL_INVALID_PROGRAM;
    }
    if (what == CL_PROGRAM_REFERENCE_COUNT) {
        return query_references(program, room, ret_value, ret_size);
    }
    if (is_of_unbuilt(what)) {
        return layer_target()->clGetProgramInfo(program, what, room, ret_value, ret_size);
    }
    loaded_program *loaded = records_hold_loaded_of(program);
    if (!loaded) {
        return query_at_driver(program, what, room, ret_value, ret_size);
    }
    const cl_int error = query_loaded(program, loaded, what, room, ret_value, ret_size);
    loaded_program_release(loaded);
    return error;
}

/* ---- builds ---- */

static cl_int query_loaded_build(const loaded_program *loaded, cl_uint place,
                                 cl_program_build_info what, size_t room, void *ret_value,
                                 size_t *ret_size)
{
    if (what == CL_PROGRAM_BUILD_LOG) {
        const kilni_opencl_answer log = kilni_opencl_answers_log(loaded->answers[place]);
        return kilni_opencl_return_info(log.value.data, log.value.size, room, ret_value, ret_size);
    }
    return layer_target()->clGetProgramBuildInfo(loaded->program, loaded->devices[place], what,
                                                 room, ret_value, ret_size);
}

static cl_uint find_built_device(const loaded_program *loaded, cl_device_id device)
{
    const cl_uint place = loaded_program_find_device(loaded, device);
    return place < loaded->device_count
               ? place
               : loaded_program_find_device(loaded, platform_built_device(device));
}

cl_int CL_API_CALL layer_get_program_build_info(cl_program program, cl_device_id device,
                                                cl_program_build_info what, size_t room,
                                                void *ret_value, size_t *ret_size)
{
    if (records_is_released(program)) {
        return CL_INVALID_PROGRAM;
    }
    loaded_program *loaded = records_hold_loaded_of(program);
    const cl_uint place = loaded ? find_built_device(loaded, device) : 0;
    const cl_int error = loaded && place < loaded->device_count
                             ? query_loaded_build(loaded, place, what, room, ret_value, ret_size)
                             : layer_target()->clGetProgramBuildInfo(program, device, what, room,
                                                                     ret_value, ret_size);
    loaded_program_release(loaded);
    return error;
}

/* ---- contexts: a loaded program is an additional program in its context ---- */

cl_int CL_API_CALL layer_get_context_info(cl_context context, cl_context_info what, size_t room,
                                          void *ret_value, size_t *ret_size)
{
    const cl_int error = layer_target()->clGetContextInfo(context, what, room, ret_value, ret_size);
    if (error == CL_SUCCESS && what == CL_CONTEXT_REFERENCE_COUNT && ret_value) {
        *(cl_uint *)ret_value -= records_hidden_context_references(context);
    }
    return error;
}
