/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of the CUDA driver that the backend calls, found in libcuda at run time. Building
 * the backend needs nothing from NVIDIA.
 */
#pragma once

#include <stddef.h>

/* CUresult: the driver's values. */
enum { CUDA_SUCCESS = 0, CUDA_OUT_OF_MEMORY = 2, CUDA_NOT_FOUND = 500, CUDA_NOT_READY = 600 };

/* More of the driver's values. */
enum {
    CUDA_HAS_MEMORY_POOLS = 115,   /* CUdevice_attribute */
    CUDA_POOL_KEEPS = 4,           /* CUmemPool_attribute: how many bytes, as a 64-bit number */
    CUDA_POOL_USED = 7,            /* likewise: bytes not freed yet */
    CUDA_STREAM_NON_BLOCKING = 1,  /* CUstream_flags */
    CUDA_EVENT_WITHOUT_TIMING = 2, /* CUevent_flags */
    CUDA_HOST_PORTABLE = 1,        /* flags of cuMemHostAlloc */
    CUDA_HOST_MAPPED = 2
};

typedef struct cuda_context_object *cuda_context;
typedef struct cuda_stream_object *cuda_stream;
typedef struct cuda_event_object *cuda_event;
typedef struct cuda_pool_object *cuda_pool;
typedef unsigned long long cuda_address;

#define CUDA_FUNCTIONS(FUNCTION)                                                                   \
    FUNCTION(cuInit, (unsigned flags))                                                             \
    FUNCTION(cuDeviceGetCount, (int *count))                                                       \
    FUNCTION(cuDeviceGet, (int *device, int index))                                                \
    FUNCTION(cuDeviceGetAttribute, (int *value, int attribute, int device))                        \
    FUNCTION(cuDeviceGetDefaultMemPool, (cuda_pool * pool, int device))                            \
    FUNCTION(cuMemPoolGetAttribute, (cuda_pool pool, int attribute, void *value))                  \
    FUNCTION(cuMemPoolSetAttribute, (cuda_pool pool, int attribute, void *value))                  \
    FUNCTION(cuCtxCreate_v2, (cuda_context * context, unsigned flags, int device))                 \
    FUNCTION(cuCtxDestroy_v2, (cuda_context context))                                              \
    FUNCTION(cuCtxPushCurrent_v2, (cuda_context context))                                          \
    FUNCTION(cuCtxPopCurrent_v2, (cuda_context * context))                                         \
    FUNCTION(cuStreamCreate, (cuda_stream * stream, unsigned flags))                               \
    FUNCTION(cuStreamDestroy_v2, (cuda_stream stream))                                             \
    FUNCTION(cuStreamQuery, (cuda_stream stream))                                                  \
    FUNCTION(cuStreamSynchronize, (cuda_stream stream))                                            \
    FUNCTION(cuStreamWaitEvent, (cuda_stream stream, cuda_event event, unsigned flags))            \
    FUNCTION(cuEventCreate, (cuda_event * event, unsigned flags))                                  \
    FUNCTION(cuEventDestroy_v2, (cuda_event event))                                                \
    FUNCTION(cuEventRecord, (cuda_event event, cuda_stream stream))                                \
    FUNCTION(cuEventQuery, (cuda_event event))                                                     \
    FUNCTION(cuEventSynchronize, (cuda_event event))                                               \
    FUNCTION(cuMemAllocAsync, (cuda_address * address, size_t size, cuda_stream stream))           \
    FUNCTION(cuMemFreeAsync, (cuda_address address, cuda_stream stream))                           \
    FUNCTION(cuMemcpyHtoDAsync_v2,                                                                 \
             (cuda_address to, const void *from, size_t size, cuda_stream stream))                 \
    FUNCTION(cuMemcpyDtoHAsync_v2, (void *to, cuda_address from, size_t size, cuda_stream stream)) \
    FUNCTION(cuMemsetD32Async,                                                                     \
             (cuda_address to, unsigned value, size_t count, cuda_stream stream))                  \
    FUNCTION(cuMemHostAlloc, (void **memory, size_t size, unsigned flags))                         \
    FUNCTION(cuMemHostGetDevicePointer_v2, (cuda_address * address, void *memory, unsigned flags)) \
    FUNCTION(cuMemFreeHost, (void *memory))                                                        \
    FUNCTION(cuLaunchKernel,                                                                       \
             (void *kernel, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,               \
              unsigned threads_x, unsigned threads_y, unsigned threads_z, unsigned shared_bytes,   \
              cuda_stream stream, void **arguments, void **more))

typedef struct cuda_driver {
#define CUDA_MEMBER(name, parameters) int(*name) parameters;
    CUDA_FUNCTIONS(CUDA_MEMBER)
#undef CUDA_MEMBER
} cuda_driver;

/* Opens libcuda.so.1, never closes it, and initializes it. NULL: there is no such driver or no
 * device; @ret_why says which. */
const cuda_driver *cuda_open(const char **ret_why);
