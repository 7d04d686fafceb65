/* SPDX-License-Identifier: Apache-2.0 */
#include "backend.h"

#include <stdio.h>
#include <stdlib.h>

enum { BACKEND_ID = 1 };

static const char source[] =
    "#define BLOCK 8\n"
    "kernel void reorder(global const float *plain, global float *blocks, uint columns)\n"
    "{\n"
    "    uint row = get_global_id(0), column = get_global_id(1);\n"
    "    blocks[(row / BLOCK * columns + column) * BLOCK + row % BLOCK] =\n"
    "        plain[row * columns + column];\n"
    "}\n"
    "kernel void multiply(global const float *blocks, global const float *vector,\n"
    "                     global float *result, uint columns)\n"
    "{\n"
    "    uint row = get_global_id(0);\n"
    "    float sum = 0;\n"
    "    for (uint column = 0; column < columns; column++) {\n"
    "        sum += blocks[(row / BLOCK * columns + column) * BLOCK + row % BLOCK] *\n"
    "               vector[column];\n"
    "    }\n"
    "    result[row] = sum;\n"
    "}\n";

void require(int holds, const char *call, int code)
{
    if (!holds) {
        fprintf(stderr, "opencl_constants: %s returned %d\n", call, code);
        exit(1);
    }
}

static void require_cl(cl_int status, const char *call)
{
    require(status == CL_SUCCESS, call, status);
}

static void require_kiln(kiln_status status, const char *call)
{
    require(status == KILN_OK, call, status);
}

/* ---- memory: what Kiln calls ---- */

static void *allocate_buffer(size_t size, void *engine, void *allocator)
{
    (void)allocator;
    const backend *self = engine;
    return clCreateBuffer(self->context, CL_MEM_READ_WRITE, size, NULL, NULL);
}

/* The buffer has a reference to its context, because it may outlive the backend. */
static void free_buffer(void *data, void *engine, void *allocator)
{
    (void)engine;
    (void)allocator;
    clReleaseMemObject(data);
}

static void retain_context(void *engine, void *allocator)
{
    (void)engine;
    clRetainContext(allocator);
}

static void release_context(void *engine, void *allocator)
{
    (void)engine;
    clReleaseContext(allocator);
}

static void wait_for_event(void *event)
{
    cl_event done = event;
    clWaitForEvents(1, &done);
}

static void release_event(void *event)
{
    clReleaseEvent(event);
}

/* ---- backends ---- */

void backend_open(backend *self, cl_device_id device)
{
    *self = (backend){.device = device, .context_number = kiln_constant_unique_number()};
    cl_int status;
    self->context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    require_cl(status, "clCreateContext");
    const char *text = source;
    self->program = clCreateProgramWithSource(self->context, 1, &text, NULL, &status);
    require_cl(status, "clCreateProgramWithSource");
    require_cl(clBuildProgram(self->program, 1, &device, "", NULL, NULL), "clBuildProgram");
    cl_device_type type;
    require_cl(clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, NULL),
               "clGetDeviceInfo");
    kiln_engine_kind kind = type & CL_DEVICE_TYPE_GPU ? KILN_ENGINE_GPU : KILN_ENGINE_CPU;
    require_kiln(kiln_constant_cache_of(kind, 0, &self->cache), "kiln_constant_cache_of");
    require_kiln(kiln_constant_bind_device(device, kind, 0), "kiln_constant_bind_device");
}

void backend_close(backend *self)
{
    kiln_constant_remove_context(self->context_number);
    clReleaseProgram(self->program);
    clReleaseContext(self->context);
}

/* ---- partitions ---- */

void partition_compile(partition *self, backend *owner, const weights *matrix)
{
    *self = (partition){.owner = owner, .matrix = matrix, .number = kiln_constant_unique_number()};
    /* The blocks depend on the address, the version and the shape of the weights. */
    const struct {
        const float *values;
        size_t rows, columns;
    } parts = {matrix->values, matrix->rows, matrix->columns};
    kiln_constant_key_params params = {.struct_size = sizeof params,
                                       .context = owner->context_number,
                                       .backend = BACKEND_ID,
                                       .key = &parts,
                                       .key_size = sizeof parts,
                                       .generation = matrix->generation};
    require_kiln(kiln_constant_key_new(&params, &self->key), "kiln_constant_key_new");
}

void partition_release(partition *self)
{
    kiln_constant_remove_owner(self->number);
    kiln_key_release(&self->key);
}

/* ---- executions ---- */

void execution_begin(execution *self, const partition *what)
{
    *self = (execution){.what = what};
    cl_int status;
    self->queue = clCreateCommandQueue(what->owner->context, what->owner->device, 0, &status);
    require_cl(status, "clCreateCommandQueue");
    self->reorder = clCreateKernel(what->owner->program, "reorder", &status);
    require_cl(status, "clCreateKernel");
    self->multiply = clCreateKernel(what->owner->program, "multiply", &status);
    require_cl(status, "clCreateKernel");
}

static void let_go(execution *self)
{
    kiln_watch_free(&self->watch);
    kiln_pin_release(&self->pin);
}

void execution_end(execution *self)
{
    let_go(self);
    clReleaseKernel(self->reorder);
    clReleaseKernel(self->multiply);
    clReleaseCommandQueue(self->queue);
}

static size_t size_of_blocks(const weights *matrix)
{
    return matrix->rows * matrix->columns * sizeof(float);
}

static cl_mem input_buffer(const execution *self, const float *values, size_t count)
{
    cl_int status;
    cl_mem_flags flags = CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR;
    /* OpenCL only reads the memory that it copies. */
    cl_mem buffer = clCreateBuffer(self->what->owner->context, flags, count * sizeof *values,
                                   (void *)(uintptr_t)values, &status);
    require_cl(status, "clCreateBuffer");
    return buffer;
}

static void set_arguments(cl_kernel kernel, const cl_mem *buffers, cl_uint count, size_t columns)
{
    const cl_uint number = (cl_uint)columns;
    for (cl_uint i = 0; i < count; i++) {
        require_cl(clSetKernelArg(kernel, i, sizeof buffers[i], &buffers[i]), "clSetKernelArg");
    }
    require_cl(clSetKernelArg(kernel, count, sizeof number, &number), "clSetKernelArg");
}

/* Starts to reorder the weights into blocks. The buffer's fence says when that is done. */
static kiln_constant_buffer *reorder(const execution *self)
{
    backend *owner = self->what->owner;
    const weights *matrix = self->what->matrix;
    kiln_constant_memory memory = {.struct_size = sizeof memory,
                                   .allocate = allocate_buffer,
                                   .free = free_buffer,
                                   .engine = owner,
                                   .allocator = owner->context,
                                   .retain = retain_context,
                                   .release = release_context};
    kiln_constant_buffer *blocks;
    require_kiln(kiln_constant_buffer_new(&memory, size_of_blocks(matrix), owner->cache, &blocks),
                 "kiln_constant_buffer_new");
    const cl_mem buffers[] = {input_buffer(self, matrix->values, matrix->rows * matrix->columns),
                              kiln_constant_buffer_data(blocks)};
    const size_t range[] = {matrix->rows, matrix->columns};
    kiln_constant_fence fence = {
        .struct_size = sizeof fence, .wait = wait_for_event, .release = release_event};
    cl_event done;
    set_arguments(self->reorder, buffers, 2, matrix->columns);
    require_cl(
        clEnqueueNDRangeKernel(self->queue, self->reorder, 2, NULL, range, NULL, 0, NULL, &done),
        "clEnqueueNDRangeKernel");
    /* Commands in the queues of other threads wait for this one, so it must be submitted. */
    require_cl(clFlush(self->queue), "clFlush");
    fence.event = done;
    require_kiln(kiln_constant_buffer_set_fence(blocks, &fence), "kiln_constant_buffer_set_fence");
    clReleaseMemObject(buffers[0]);
    atomic_fetch_add(&owner->reorders, 1);
    return blocks;
}

/* Returns the blocks, and makes them if necessary. If the execution has a pin, the cache owns them.
 * Otherwise this execution owns them, in *@ret_own. */
static const kiln_constant_buffer *obtain(execution *self, kiln_constant_buffer **ret_own)
{
    *ret_own = NULL;
    if (kiln_watch_is_live(self->watch)) {
        return kiln_constant_buffer_of(self->pin);
    }
    let_go(self);
    const partition *what = self->what;
    kiln_constant_params params = {.struct_size = sizeof params, .owner = what->number};
    kiln_reservation answer;
    require_kiln(kiln_constant_get_or_add(what->owner->cache, what->key,
                                          size_of_blocks(what->matrix), &params, &answer, NULL),
                 "kiln_constant_get_or_add");
    if (answer.outcome == KILN_BYPASS) {
        *ret_own = reorder(self);
        return *ret_own;
    }
    self->pin = answer.pin;
    if (answer.outcome == KILN_OWNER) {
        kiln_constant_buffer *blocks = reorder(self);
        require_kiln(kiln_constant_fulfil(&answer.ticket, &blocks, 0, &self->pin),
                     "kiln_constant_fulfil");
    }
    require_kiln(kiln_pin_watch(self->pin, &self->watch), "kiln_pin_watch");
    return kiln_constant_buffer_of(self->pin);
}

void execution_run(execution *self, const float *vector, float *result)
{
    const weights *matrix = self->what->matrix;
    kiln_constant_buffer *own;
    const kiln_constant_buffer *blocks = obtain(self, &own);
    cl_int status;
    cl_mem output = clCreateBuffer(self->what->owner->context, CL_MEM_WRITE_ONLY,
                                   matrix->rows * sizeof *result, NULL, &status);
    require_cl(status, "clCreateBuffer");
    const cl_mem buffers[] = {kiln_constant_buffer_data(blocks),
                              input_buffer(self, vector, matrix->columns), output};
    const cl_event ready = kiln_constant_buffer_event(blocks);
    set_arguments(self->multiply, buffers, 3, matrix->columns);
    require_cl(clEnqueueNDRangeKernel(self->queue, self->multiply, 1, NULL, &matrix->rows, NULL, 1,
                                      &ready, NULL),
               "clEnqueueNDRangeKernel");
    require_cl(clEnqueueReadBuffer(self->queue, output, CL_TRUE, 0, matrix->rows * sizeof *result,
                                   result, 0, NULL, NULL),
               "clEnqueueReadBuffer");
    clReleaseMemObject(buffers[1]);
    clReleaseMemObject(output);
    kiln_constant_buffer_free(&own);
}
