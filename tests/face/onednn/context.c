/* SPDX-License-Identifier: Apache-2.0
 *
 * Gets one program twice, on the first device of each OpenCL platform, in a context that uses the
 * process's persistent cache. Prints where it came from: "NAME: build memory".
 *
 *     context CAPACITY_MIB DIRECTORY
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/persistent.h>

#include "device/opencl/device_ops.h"
#include "device/opencl/traits.h"
#include "program/context.h"
#include "support/get_program.h"
#include "support/opencl_platforms.h"
#include "support/persistent_settings.h"

static const char source_text[] = "kernel void fill(global int *out) { out[0] = 42; }\n";

static const char *const sources[] = {
    [KILN_PROGRAM_FROM_MEMORY] = "memory",
    [KILN_PROGRAM_FROM_STORE] = "store",
    [KILN_PROGRAM_FROM_BUILD] = "build",
    [KILN_PROGRAM_FROM_PRIVATE_BUILD] = "private",
};

/* Returns whether a program computes what its source says. */
static bool is_right(const cl_icd_dispatch *cl, const opencl_platform *platform, cl_program program)
{
    cl_int error = CL_SUCCESS;
    const size_t items = 1;
    int result = 0;
    cl_kernel kernel = cl->clCreateKernel(program, "fill", &error);
    cl_mem out =
        cl->clCreateBuffer(platform->context, CL_MEM_WRITE_ONLY, sizeof result, NULL, &error);
    const bool has_run =
        kernel && out && cl->clSetKernelArg(kernel, 0, sizeof out, &out) == CL_SUCCESS &&
        cl->clEnqueueNDRangeKernel(platform->queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL) ==
            CL_SUCCESS &&
        cl->clEnqueueReadBuffer(platform->queue, out, CL_TRUE, 0, sizeof result, &result, 0, NULL,
                                NULL) == CL_SUCCESS;
    cl->clReleaseMemObject(out);
    cl->clReleaseKernel(kernel);
    return has_run && result == 42;
}

static bool obtain(const cl_icd_dispatch *cl, const opencl_platform *platform,
                   kiln_program_context *context)
{
    const kiln_program_source source = {.struct_size = sizeof source,
                                        .form = KILN_SOURCE_TEXT,
                                        .code = {source_text, sizeof source_text - 1}};
    kiln_program *program = NULL;
    kiln_program_result result = {.struct_size = sizeof result};
    kiln_error error = {.struct_size = sizeof error};
    if (get_program(context, &source, &program, &result, &error) != KILN_OK) {
        fprintf(stderr, "%s\n", error.text);
        return false;
    }
    const bool right = is_right(cl, platform, kiln_program_handle(program));
    printf(" %s", right ? sources[result.from] : "WRONG");
    kiln_program_release(&program);
    return true;
}

static bool show(const cl_icd_dispatch *cl, const opencl_platform *platform)
{
    kilni_opencl_device device = {
        .cl = cl, .context = platform->context, .device = platform->device};
    void *const devices[] = {&device};
    const kiln_program_context_params params = {
        .struct_size = sizeof params,
        .ops = kilni_opencl_ops(kilni_opencl_traits_of(platform->name)->capture_cost),
        .devices = devices,
        .device_count = 1,
        .store_source = kiln_persistent_source(KILN_ENGINE_CPU),
    };
    kiln_program_context *context = NULL;
    if (kilni_opencl_device_begin(&device, NULL) != KILN_OK ||
        kiln_program_context_new(&params, &context) != KILN_OK) {
        return false;
    }
    printf("%s:", platform->name);
    const bool done = obtain(cl, platform, context) && obtain(cl, platform, context);
    printf("\n");
    kiln_program_context_free(&context);
    kilni_opencl_device_end(&device);
    return done;
}

int main(int count, char **arguments)
{
    opencl_platforms found;
    if (count != 3 || persistent_set_capacity(atoi(arguments[1])) != KILN_OK ||
        persistent_set_dir(arguments[2]) != KILN_OK) {
        return 2;
    }
    opencl_open(&found);
    bool done = found.count > 0;
    for (size_t i = 0; i < found.count; i++) {
        done = show(&found.cl, &found.platforms[i]) && done;
    }
    opencl_close(&found);
    return done ? 0 : 1;
}
