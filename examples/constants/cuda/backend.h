/* SPDX-License-Identifier: Apache-2.0
 *
 * A small backend: products of a matrix and a vector on an NVIDIA GPU. It first reorders the
 * weights into blocks. The blocks are constants, in Kiln's constant tensor cache. NVRTC compiles
 * its kernels, and Kiln caches the kernels too.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/constant_backend.h>
#include <kiln/nvrtc.h>
#include <kiln/program.h>

#include "memory.h"

/* A kernel of one context, with a hold on it. */
typedef struct held_kernel {
    kiln_program_desc *program;
    kiln_kernel_desc *name;
    kiln_kernel *kernel;
} held_kernel;

/* One context on one device. */
typedef struct backend {
    const cuda_driver *cuda;
    device_context *context;
    uint64_t context_number; /* unlike a context's address, never used again */
    kiln_constant_cache *cache;
    kiln_nvrtc_device *nvrtc;
    kiln_program_context *programs;
    held_kernel reorder, multiply;
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
    user_stream stream;
    cuda_address vector, result;
    kiln_pin *pin;
    kiln_watch *watch;
    kiln_constant_buffer *own; /* the blocks, if the cache does not accept them */
} execution;

/* The driver. If no device has the features that this backend needs, the program says what is
 * missing and exits with 77. */
const cuda_driver *backend_driver(void);

/* @device  the device's number in the driver and in Kiln's budgets, from 0
 * @nvrtc   the path of a libnvrtc; NULL: the first that is found. If there is none, the program
 *          ends with status 77
 */
void backend_open(backend *self, const cuda_driver *cuda, int device, const char *nvrtc);
/* Also removes all constants that were cached for its context. */
void backend_close(backend *self);

/* Compiles a program and holds one of its kernels. */
void backend_hold_kernel(const backend *self, const char *source, const char *name,
                         held_kernel *ret_kernel);
void held_kernel_release(held_kernel *self);

void partition_compile(partition *self, backend *owner, const weights *matrix);
/* Also removes the constants that were computed for it. */
void partition_release(partition *self);

void execution_begin(execution *self, const partition *what);
/* Returns the blocks, for the stream's next commands. The caller may enqueue commands that read the
 * blocks until it calls execution_let_go; commands that it has enqueued may run after that call. */
cuda_address execution_obtain(execution *self);
void execution_let_go(execution *self);
/* result = matrix * vector */
void execution_run(execution *self, const float *vector, float *result);
void execution_end(execution *self);
