/* SPDX-License-Identifier: Apache-2.0
 *
 * A small backend: products of a matrix and a vector on an OpenCL device. It first reorders the
 * weights into blocks. The blocks are constants: OpenCL buffers in Kiln's constant tensor cache.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <kiln/constant_backend.h>

/* One context on one device. */
typedef struct backend {
    cl_device_id device;
    cl_context context;
    cl_program program;
    uint64_t context_number; /* unlike a context's address, never used again */
    kiln_constant_cache *cache;
    atomic_int reorders; /* how often weights were reordered into blocks */
} backend;

/* Weights that the user may change, and the number of their version. */
typedef struct weights {
    float *values; /* rows x columns */
    size_t rows, columns;
    uint64_t generation;
} weights;

/* One product with one matrix. Several partitions may share a matrix. */
typedef struct partition {
    backend *owner;
    const weights *matrix;
    uint64_t number;
    kiln_key *key;
} partition;

/* How one thread executes a partition. It keeps its handle on the constant while the constant is in
 * the cache. */
typedef struct execution {
    const partition *what;
    cl_command_queue queue;
    cl_kernel reorder, multiply;
    kiln_pin *pin;
    kiln_watch *watch;
} execution;

void backend_open(backend *self, cl_device_id device);
/* Also removes all constants that were cached for its context. */
void backend_close(backend *self);

void partition_compile(partition *self, backend *owner, const weights *matrix);
/* Also removes the constants that were computed for it. */
void partition_release(partition *self);

void execution_begin(execution *self, const partition *what);
/* result = matrix * vector */
void execution_run(execution *self, const float *vector, float *result);
void execution_end(execution *self);

/* Ends the program with a message if a call failed. */
void require(int holds, const char *call, int code);
