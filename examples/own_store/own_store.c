/* SPDX-License-Identifier: Apache-2.0
 *
 *     own_store FILE MAX_BYTES NAME…
 *
 * An application that keeps compiled programs in its own cache. Kiln gives it an ID
 * that identifies a program (its blob ID) and the binary (its blob), and makes a program from a
 * blob. blob_store.c decides where blobs are kept, how many, and which are evicted first. Each NAME
 * is the name of a program: square, cube or root.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <kiln/opencl.h>
#include <kiln/program.h>

#include "blob_store.h"

enum { ITEMS = 256 };

typedef struct application {
    cl_context opencl;
    cl_device_id id;
    cl_command_queue queue;
    kiln_opencl_device *device;
    kiln_program_context *programs;
    blob_store *store;
} application;

static const struct {
    const char *name, *source;
    double power;
} known[] = {
    {"square", "kernel void f(global float *x) { int i = get_global_id(0); x[i] *= x[i]; }", 2},
    {"cube", "kernel void f(global float *x) { int i = get_global_id(0); x[i] *= x[i] * x[i]; }",
     3},
    {"root", "kernel void f(global float *x) { int i = get_global_id(0); x[i] = sqrt(x[i]); }",
     0.5},
};

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static void require(kiln_status status, const char *what, const kiln_error *error)
{
    if (status != KILN_OK) {
        fail(what, error && error->status == status ? error->text : kiln_status_text(status));
    }
}

static void require_cl(cl_int code, const char *what)
{
    if (code != CL_SUCCESS) {
        fail(what, "OpenCL refuses");
    }
}

/* ---- the program that is cached ---- */

static kiln_program_desc *describe(const application *in, size_t which)
{
    const char *source = known[which].source;
    const kiln_program_desc_params params = {
        .struct_size = sizeof params,
        .form = KILN_SOURCE_TEXT,
        .code = {source, strlen(source)},
        .name = known[which].name,
    };
    kiln_error error = {.struct_size = sizeof error};
    kiln_program_desc *desc = NULL;
    require(kiln_program_desc_new(in->programs, &params, &desc, &error), "description", &error);
    return desc;
}

/* A blob that cannot be used, for whatever reason, is treated as missing. */
static kiln_program *make_of_blob(const application *in, const kiln_program_desc *desc)
{
    const uint8_t *id = NULL, *blob = NULL;
    size_t id_size = 0, size = 0;
    kiln_program *made = NULL;
    require(kiln_program_desc_cache_blob_id(desc, &id_size, &id), "ID", NULL);
    blob = id_size ? blob_store_find(in->store, id, id_size, &size) : NULL;
    if (blob) {
        kiln_error error = {.struct_size = sizeof error};
        if (kiln_program_create_from_cache_blob(desc, size, blob, &made, NULL, &error) != KILN_OK) {
            printf("blob refused: %s\n", error.text);
        }
    }
    return made;
}

/* If a device has no blobs, there is nothing to keep. */
static void keep_blob(const application *in, const kiln_program_desc *desc,
                      const kiln_program *built)
{
    const uint8_t *id = NULL;
    size_t id_size = 0, size = 0;
    if (kiln_program_desc_cache_blob_id(desc, &id_size, &id) != KILN_OK || id_size == 0 ||
        kiln_program_get_cache_blob(built, &size, NULL) != KILN_OK || size == 0) {
        return;
    }
    uint8_t *blob = malloc(size);
    if (blob && kiln_program_get_cache_blob(built, &size, blob) == KILN_OK) {
        blob_store_keep(in->store, id, id_size, blob, size);
    }
    free(blob);
}

/* ---- what it is for ---- */

static int computes(const application *in, const kiln_program *made, double power)
{
    float x[ITEMS];
    for (int i = 0; i < ITEMS; i++) {
        x[i] = (float)i;
    }
    cl_int code = CL_SUCCESS;
    cl_kernel kernel = clCreateKernel(kiln_program_handle(made), "f", &code);
    require_cl(code, "kernel");
    cl_mem buffer =
        clCreateBuffer(in->opencl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof x, x, &code);
    require_cl(code, "buffer");
    const size_t items = ITEMS;
    require_cl(clSetKernelArg(kernel, 0, sizeof buffer, &buffer), "argument");
    require_cl(clEnqueueNDRangeKernel(in->queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL),
               "launch");
    require_cl(clEnqueueReadBuffer(in->queue, buffer, CL_TRUE, 0, sizeof x, x, 0, NULL, NULL),
               "result");
    clReleaseMemObject(buffer);
    clReleaseKernel(kernel);
    for (int i = 0; i < ITEMS; i++) {
        const double right = pow(i, power);
        if (fabs(x[i] - right) > right * 1e-5) {
            return 0;
        }
    }
    return 1;
}

static void use(const application *in, size_t which)
{
    kiln_error error = {.struct_size = sizeof error};
    kiln_program_desc *desc = describe(in, which);
    kiln_program *made = make_of_blob(in, desc);
    const int is_of_blob = made != NULL;
    if (!made) {
        require(kiln_program_get(desc, &made, NULL, &error), known[which].name, &error);
    }
    const int is_right = computes(in, made, known[which].power);
    printf("%s: %s, computes %s\n", known[which].name, is_of_blob ? "made from its blob" : "built",
           is_right ? "right" : "WRONG");
    if (!is_of_blob) {
        keep_blob(in, desc, made);
    }
    kiln_program_release(&made);
    kiln_program_desc_release(&desc);
}

static void open_device(application *in)
{
    cl_platform_id platform;
    cl_int code = CL_SUCCESS;
    kiln_error error = {.struct_size = sizeof error};
    require_cl(clGetPlatformIDs(1, &platform, NULL), "platform");
    require_cl(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &in->id, NULL), "device");
    in->opencl = clCreateContext(NULL, 1, &in->id, NULL, NULL, &code);
    require_cl(code, "context");
    in->queue = clCreateCommandQueue(in->opencl, in->id, 0, &code);
    require_cl(code, "queue");
    require(kiln_opencl_device_new(in->opencl, in->id, NULL, &in->device, &error), "device",
            &error);
    void *devices[] = {in->device};
    const kiln_program_context_params params = {
        .struct_size = sizeof params,
        .ops = kiln_opencl_ops(in->device),
        .devices = devices,
        .device_count = 1,
    };
    require(kiln_program_context_new(&params, &in->programs), "context", NULL);
}

static void close_device(application *in)
{
    kiln_program_context_free(&in->programs);
    kiln_opencl_device_free(&in->device);
    clReleaseCommandQueue(in->queue);
    clReleaseContext(in->opencl);
}

int main(int count, char **arguments)
{
    application mine = {0};
    if (count < 4) {
        fail(arguments[0], "usage: own_store FILE MAX_BYTES NAME...");
    }
    mine.store = blob_store_open(arguments[1], strtoull(arguments[2], NULL, 10), stdout);
    if (!mine.store) {
        fail(arguments[1], "out of memory");
    }
    open_device(&mine);
    for (int i = 3; i < count; i++) {
        for (size_t which = 0; which < sizeof known / sizeof *known; which++) {
            if (strcmp(arguments[i], known[which].name) == 0) {
                use(&mine, which);
            }
        }
    }
    close_device(&mine);
    if (blob_store_close(mine.store) != 0) {
        fail(arguments[1], "can't be written");
    }
    return 0;
}
