/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Records when a constant has been computed. */
typedef struct ready_fence {
    device_context *context; /* borrowed from the buffer, which is freed later */
    cuda_event event;
    atomic_int is_passed; /* the event has occurred: set after cuEventQuery reported that, read
                             before commands are enqueued */
} ready_fence;

void require(int holds, const char *call, int code)
{
    if (!holds) {
        fprintf(stderr, "%s returned %d\n", call, code);
        exit(1);
    }
}

void require_cuda(int result, const char *call)
{
    require(result == CUDA_SUCCESS, call, result);
}

void require_kiln(kiln_status status, const char *call)
{
    require(status == KILN_OK, call, status);
}

/* ---- contexts ---- */

device_context *context_open(const cuda_driver *cuda, int index)
{
    int device;
    device_context *self = calloc(1, sizeof *self);
    require(self != NULL, "calloc", 0);
    self->cuda = cuda;
    atomic_init(&self->holds, 1);
    pthread_mutex_init(&self->lock, NULL);
    REQUIRE_CUDA(cuda->cuDeviceGet(&device, index));
    REQUIRE_CUDA(cuda->cuDeviceGetDefaultMemPool(&self->pool, device));
    REQUIRE_CUDA(cuda->cuCtxCreate_v2(&self->handle, 0, device));
    REQUIRE_CUDA(cuda->cuStreamCreate(&self->freeing, CUDA_STREAM_NON_BLOCKING));
    context_leave(self);
    user_stream_begin(self, &self->computing);
    return self;
}

static void context_retain(device_context *self)
{
    atomic_fetch_add_explicit(&self->holds, 1, memory_order_relaxed);
}

void context_release(device_context *self)
{
    /* Each thread that drops a hold releases what it did; the last one acquires it. */
    if (atomic_fetch_sub_explicit(&self->holds, 1, memory_order_acq_rel) != 1) {
        return;
    }
    const cuda_driver *cuda = self->cuda;
    user_stream_end(self, &self->computing);
    context_enter(self);
    REQUIRE_CUDA(cuda->cuStreamSynchronize(self->freeing));
    REQUIRE_CUDA(cuda->cuStreamDestroy_v2(self->freeing));
    context_leave(self);
    REQUIRE_CUDA(cuda->cuCtxDestroy_v2(self->handle));
    pthread_mutex_destroy(&self->lock);
    free(self);
}

void context_enter(const device_context *self)
{
    REQUIRE_CUDA(self->cuda->cuCtxPushCurrent_v2(self->handle));
}

void context_leave(const device_context *self)
{
    cuda_context left;
    REQUIRE_CUDA(self->cuda->cuCtxPopCurrent_v2(&left));
}

/* ---- streams ---- */

/* From now on, memory is freed only after all commands that are now in the stream have ended. */
static void free_behind(const device_context *context, const user_stream *user)
{
    REQUIRE_CUDA(context->cuda->cuEventRecord(user->passed, user->handle));
    REQUIRE_CUDA(context->cuda->cuStreamWaitEvent(context->freeing, user->passed, 0));
}

void user_stream_begin(device_context *context, user_stream *self)
{
    const cuda_driver *cuda = context->cuda;
    context_enter(context);
    REQUIRE_CUDA(cuda->cuStreamCreate(&self->handle, CUDA_STREAM_NON_BLOCKING));
    REQUIRE_CUDA(cuda->cuEventCreate(&self->passed, CUDA_EVENT_WITHOUT_TIMING));
    context_leave(context);
    pthread_mutex_lock(&context->lock);
    self->next = context->users;
    context->users = self;
    pthread_mutex_unlock(&context->lock);
}

void user_stream_end(device_context *context, user_stream *self)
{
    const cuda_driver *cuda = context->cuda;
    context_enter(context);
    pthread_mutex_lock(&context->lock);
    user_stream **link = &context->users;
    while (*link != self) {
        link = &(*link)->next;
    }
    *link = self->next;
    free_behind(context, self);
    pthread_mutex_unlock(&context->lock);
    /* The driver keeps the event and the stream until their commands have finished. */
    REQUIRE_CUDA(cuda->cuEventDestroy_v2(self->passed));
    REQUIRE_CUDA(cuda->cuStreamDestroy_v2(self->handle));
    context_leave(context);
}

/* ---- what Kiln calls ---- */

static void *allocate_memory(size_t size, void *engine, void *allocator)
{
    (void)allocator;
    const device_context *context = engine;
    cuda_address address = 0;
    context_enter(context);
    const int result = context->cuda->cuMemAllocAsync(&address, size, context->computing.handle);
    context_leave(context);
    require(result == CUDA_SUCCESS || result == CUDA_OUT_OF_MEMORY, "cuMemAllocAsync", result);
    return result == CUDA_SUCCESS ? (void *)(uintptr_t)address : NULL; /* NOLINT */
}

static void free_memory(void *data, void *engine, void *allocator)
{
    (void)allocator;
    device_context *context = engine;
    context_enter(context);
    pthread_mutex_lock(&context->lock);
    for (const user_stream *user = context->users; user; user = user->next) {
        free_behind(context, user);
    }
    pthread_mutex_unlock(&context->lock);
    REQUIRE_CUDA(context->cuda->cuMemFreeAsync((uintptr_t)data, context->freeing));
    context_leave(context);
}

static void retain_engine(void *engine, void *allocator)
{
    (void)allocator;
    context_retain(engine);
}

static void release_engine(void *engine, void *allocator)
{
    (void)allocator;
    context_release(engine);
}

static void wait_for_fence(void *event)
{
    const ready_fence *fence = event;
    REQUIRE_CUDA(fence->context->cuda->cuEventSynchronize(fence->event));
}

static void release_fence(void *event)
{
    ready_fence *fence = event;
    REQUIRE_CUDA(fence->context->cuda->cuEventDestroy_v2(fence->event));
    free(fence);
}

/* ---- constants ---- */

kiln_constant_buffer *constant_new(device_context *context, size_t size, kiln_constant_cache *cache)
{
    const kiln_constant_memory memory = {.struct_size = sizeof memory,
                                         .allocate = allocate_memory,
                                         .free = free_memory,
                                         .engine = context,
                                         .retain = retain_engine,
                                         .release = release_engine};
    kiln_constant_buffer *buffer;
    REQUIRE_KILN(kiln_constant_buffer_new(&memory, size, cache, &buffer));
    return buffer;
}

void constant_computed(device_context *context, kiln_constant_buffer *buffer)
{
    ready_fence *fence = calloc(1, sizeof *fence);
    require(fence != NULL, "calloc", 0);
    fence->context = context;
    REQUIRE_CUDA(context->cuda->cuEventCreate(&fence->event, CUDA_EVENT_WITHOUT_TIMING));
    REQUIRE_CUDA(context->cuda->cuEventRecord(fence->event, context->computing.handle));
    const kiln_constant_fence given = {.struct_size = sizeof given,
                                       .event = fence,
                                       .wait = wait_for_fence,
                                       .release = release_fence};
    REQUIRE_KILN(kiln_constant_buffer_set_fence(buffer, &given));
}

cuda_address constant_address(const kiln_constant_buffer *buffer)
{
    return (uintptr_t)kiln_constant_buffer_data(buffer);
}

void constant_await(const kiln_constant_buffer *buffer, cuda_stream stream)
{
    ready_fence *fence = kiln_constant_buffer_event(buffer);
    if (atomic_load_explicit(&fence->is_passed, memory_order_acquire)) {
        return;
    }
    const cuda_driver *cuda = fence->context->cuda;
    const int result = cuda->cuEventQuery(fence->event);
    if (result == CUDA_NOT_READY) {
        REQUIRE_CUDA(cuda->cuStreamWaitEvent(stream, fence->event, 0));
        return;
    }
    require_cuda(result, "cuEventQuery");
    atomic_store_explicit(&fence->is_passed, 1, memory_order_release);
}
