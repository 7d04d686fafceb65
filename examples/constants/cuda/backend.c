/* SPDX-License-Identifier: Apache-2.0 */
#include "backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BACKEND_ID = 3, THREADS = 128, NO_GPU = 77 };

static const char source[] =
    "#define BLOCK 8\n"
    "extern \"C\" __global__ void reorder(const float *plain, float *blocks, unsigned rows,\n"
    "                                    unsigned columns)\n"
    "{\n"
    "    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    const unsigned row = i / columns, column = i % columns;\n"
    "    if (row < rows) {\n"
    "        blocks[(row / BLOCK * columns + column) * BLOCK + row % BLOCK] = plain[i];\n"
    "    }\n"
    "}\n"
    "extern \"C\" __global__ void multiply(const float *blocks, const float *vector,\n"
    "                                     float *result, unsigned rows, unsigned columns)\n"
    "{\n"
    "    const unsigned row = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    float sum = 0;\n"
    "    for (unsigned column = 0; row < rows && column < columns; column++) {\n"
    "        sum += blocks[(row / BLOCK * columns + column) * BLOCK + row % BLOCK] *\n"
    "               vector[column];\n"
    "    }\n"
    "    if (row < rows) {\n"
    "        result[row] = sum;\n"
    "    }\n"
    "}\n";

static void skip(const char *why)
{
    printf("skipped: %s\n", why);
    exit(NO_GPU);
}

const cuda_driver *backend_driver(void)
{
    const char *why = "";
    int device, has_pools = 0;
    const cuda_driver *cuda = cuda_open(&why);
    if (!cuda) {
        skip(why);
    }
    REQUIRE_CUDA(cuda->cuDeviceGet(&device, 0));
    REQUIRE_CUDA(cuda->cuDeviceGetAttribute(&has_pools, CUDA_HAS_MEMORY_POOLS, device));
    if (!has_pools) {
        skip("a GPU without stream-ordered memory");
    }
    return cuda;
}

/* ---- kernels ---- */

static void open_programs(backend *self, const char *nvrtc)
{
    const kiln_nvrtc_device_params params = {
        .struct_size = sizeof params, .nvrtc = nvrtc, .context = self->context->handle};
    kiln_error error = {.struct_size = sizeof error};
    const kiln_status status = kiln_nvrtc_device_new(&params, &self->nvrtc, &error);
    if (status == KILN_E_UNSUPPORTED) {
        skip(error.text);
    }
    require_kiln(status, error.text);
    void *devices[] = {self->nvrtc};
    const kiln_program_context_params programs = {.struct_size = sizeof programs,
                                                  .ops = kiln_nvrtc_ops(),
                                                  .devices = devices,
                                                  .device_count = 1};
    REQUIRE_KILN(kiln_program_context_new(&programs, &self->programs));
}

void backend_hold_kernel(const backend *self, const char *text, const char *name,
                         held_kernel *ret_kernel)
{
    const kiln_program_desc_params params = {.struct_size = sizeof params,
                                             .form = KILN_SOURCE_TEXT,
                                             .code = {text, strlen(text)},
                                             .name = name};
    kiln_error error = {.struct_size = sizeof error};
    REQUIRE_KILN(kiln_program_desc_new(self->programs, &params, &ret_kernel->program, NULL));
    REQUIRE_KILN(kiln_kernel_desc_new(ret_kernel->program, name, &ret_kernel->name));
    const kiln_status status = kiln_kernel_get(ret_kernel->name, &ret_kernel->kernel, &error);
    require_kiln(status, status == KILN_OK ? name : error.text);
}

void held_kernel_release(held_kernel *self)
{
    kiln_kernel_release(&self->kernel);
    kiln_kernel_desc_release(&self->name);
    kiln_program_desc_release(&self->program);
}

static void launch(const backend *self, const held_kernel *kernel, size_t threads,
                   cuda_stream stream, void **arguments)
{
    REQUIRE_CUDA(self->cuda->cuLaunchKernel(kiln_kernel_handle(kernel->kernel),
                                            (unsigned)((threads + THREADS - 1) / THREADS), 1, 1,
                                            THREADS, 1, 1, 0, stream, arguments, NULL));
}

/* ---- backends ---- */

void backend_open(backend *self, const cuda_driver *cuda, int device, const char *nvrtc)
{
    *self = (backend){.cuda = cuda, .context_number = kiln_constant_unique_number()};
    self->context = context_open(cuda, device);
    open_programs(self, nvrtc);
    backend_hold_kernel(self, source, "reorder", &self->reorder);
    backend_hold_kernel(self, source, "multiply", &self->multiply);
    REQUIRE_KILN(kiln_constant_cache_of(KILN_ENGINE_GPU, (uint32_t)device, &self->cache));
}

void backend_close(backend *self)
{
    kiln_constant_remove_context(self->context_number);
    held_kernel_release(&self->reorder);
    held_kernel_release(&self->multiply);
    kiln_program_context_free(&self->programs);
    kiln_nvrtc_device_free(&self->nvrtc);
    context_release(self->context);
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
    const kiln_constant_key_params params = {.struct_size = sizeof params,
                                             .context = owner->context_number,
                                             .backend = BACKEND_ID,
                                             .key = &parts,
                                             .key_size = sizeof parts,
                                             .generation = matrix->generation};
    REQUIRE_KILN(kiln_constant_key_new(&params, &self->key));
}

void partition_release(partition *self)
{
    kiln_constant_remove_owner(self->number);
    kiln_key_release(&self->key);
}

static size_t size_of_blocks(const weights *matrix)
{
    return matrix->rows * matrix->columns * sizeof(float);
}

/* Starts to reorder the weights into blocks. The buffer's fence says when that is done. */
static kiln_constant_buffer *reorder(const partition *what)
{
    backend *owner = what->owner;
    const cuda_driver *cuda = owner->cuda;
    const cuda_stream stream = owner->context->computing.handle;
    const weights *matrix = what->matrix;
    const size_t size = size_of_blocks(matrix);
    kiln_constant_buffer *buffer = constant_new(owner->context, size, owner->cache);
    cuda_address plain, blocks = constant_address(buffer);
    unsigned rows = (unsigned)matrix->rows, columns = (unsigned)matrix->columns;
    void *arguments[] = {&plain, &blocks, &rows, &columns};
    context_enter(owner->context);
    REQUIRE_CUDA(cuda->cuMemAllocAsync(&plain, size, stream));
    REQUIRE_CUDA(cuda->cuMemcpyHtoDAsync_v2(plain, matrix->values, size, stream));
    launch(owner, &owner->reorder, matrix->rows * matrix->columns, stream, arguments);
    REQUIRE_CUDA(cuda->cuMemFreeAsync(plain, stream));
    constant_computed(owner->context, buffer);
    context_leave(owner->context);
    atomic_fetch_add(&owner->reorders, 1);
    return buffer;
}

/* ---- executions ---- */

void execution_begin(execution *self, const partition *what)
{
    *self = (execution){.what = what};
    device_context *context = what->owner->context;
    const cuda_driver *cuda = what->owner->cuda;
    user_stream_begin(context, &self->stream);
    context_enter(context);
    REQUIRE_CUDA(cuda->cuMemAllocAsync(&self->vector, what->matrix->columns * sizeof(float),
                                       self->stream.handle));
    REQUIRE_CUDA(cuda->cuMemAllocAsync(&self->result, what->matrix->rows * sizeof(float),
                                       self->stream.handle));
    context_leave(context);
}

void execution_end(execution *self)
{
    device_context *context = self->what->owner->context;
    const cuda_driver *cuda = self->what->owner->cuda;
    execution_let_go(self);
    context_enter(context);
    REQUIRE_CUDA(cuda->cuMemFreeAsync(self->vector, self->stream.handle));
    REQUIRE_CUDA(cuda->cuMemFreeAsync(self->result, self->stream.handle));
    context_leave(context);
    user_stream_end(context, &self->stream);
}

void execution_let_go(execution *self)
{
    kiln_watch_free(&self->watch);
    kiln_pin_release(&self->pin);
    kiln_constant_buffer_free(&self->own);
}

/* Makes the blocks if necessary. If the execution has a pin, the cache owns them. Otherwise this
 * execution owns them. */
static const kiln_constant_buffer *get_or_compute(execution *self)
{
    const partition *what = self->what;
    const kiln_constant_params params = {.struct_size = sizeof params, .owner = what->number};
    kiln_reservation answer;
    REQUIRE_KILN(kiln_constant_get_or_add(what->owner->cache, what->key,
                                          size_of_blocks(what->matrix), &params, &answer, NULL));
    if (answer.outcome == KILN_BYPASS) {
        self->own = reorder(what);
        return self->own;
    }
    self->pin = answer.pin;
    if (answer.outcome == KILN_OWNER) {
        kiln_constant_buffer *blocks = reorder(what);
        REQUIRE_KILN(kiln_constant_fulfil(&answer.ticket, &blocks, 0, &self->pin));
    }
    REQUIRE_KILN(kiln_pin_watch(self->pin, &self->watch));
    return kiln_constant_buffer_of(self->pin);
}

cuda_address execution_obtain(execution *self)
{
    const device_context *context = self->what->owner->context;
    if (kiln_watch_is_live(self->watch)) {
        return constant_address(kiln_constant_buffer_of(self->pin));
    }
    execution_let_go(self);
    const kiln_constant_buffer *blocks = get_or_compute(self);
    context_enter(context);
    constant_await(blocks, self->stream.handle);
    context_leave(context);
    return constant_address(blocks);
}

void execution_run(execution *self, const float *vector, float *result)
{
    const backend *owner = self->what->owner;
    const cuda_driver *cuda = owner->cuda;
    const cuda_stream stream = self->stream.handle;
    const weights *matrix = self->what->matrix;
    cuda_address blocks = execution_obtain(self);
    unsigned rows = (unsigned)matrix->rows, columns = (unsigned)matrix->columns;
    void *arguments[] = {&blocks, &self->vector, &self->result, &rows, &columns};
    context_enter(owner->context);
    REQUIRE_CUDA(
        cuda->cuMemcpyHtoDAsync_v2(self->vector, vector, columns * sizeof *vector, stream));
    launch(owner, &owner->multiply, rows, stream, arguments);
    REQUIRE_CUDA(cuda->cuMemcpyDtoHAsync_v2(result, self->result, rows * sizeof *result, stream));
    if (self->own) {
        execution_let_go(self);
    }
    REQUIRE_CUDA(cuda->cuStreamSynchronize(stream));
    context_leave(owner->context);
}
