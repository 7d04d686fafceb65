/* SPDX-License-Identifier: Apache-2.0
 *
 * A small backend: products of a matrix and a vector on an NVIDIA GPU, whose weights are brought
 * into blocks first. The blocks are constants, in Kiln's constant tensor cache. Its kernels are
 * compiled by NVRTC and kept by Kiln too.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/constant_backend.h>
#include <kiln/nvrtc.h>
#include <kiln/program.h>

#include "memory.h"

/* A kernel of one context, held. */
typedef struct held_kernel {
    kiln_program_desc *program;
    kiln_kernel_desc *name;
    kiln_kernel *kernel;
} held_kernel;

/* One context on one device. */
typedef struct backend {
    const cuda_driver *cuda;
    device_context *context;
    uint64_t context_number; /* a context's address may come back, this doesn't */
    kiln_constant_cache *cache;
    kiln_nvrtc_device *nvrtc;
    kiln_program_context *programs;
    held_kernel reorder, multiply;
    atomic_int reorders; /* how often weights were brought into blocks */
} backend;

/* Weights that the user may change, with the number of what is there now. */
typedef struct weights {
    float *values; /* rows x columns */
    size_t rows, columns;
    uint64_t generation;
} weights;

/* One product with one matrix, which may be another's too. */
typedef struct partition {
    backend *owner;
    const weights *matrix;
    uint64_t number;
    kiln_key *key;
} partition;

/* A thread's way to execute a partition. It keeps its handle on the constant as long as that is
 * in the cache. */
typedef struct execution {
    const partition *what;
    user_stream stream;
    cuda_address vector, result;
    kiln_pin *pin;
    kiln_watch *watch;
    kiln_constant_buffer *own; /* where the cache takes none */
} execution;

/* The driver, where a device can do what is needed here; else the program ends with 77, and says
 * what is missing. */
const cuda_driver *backend_driver(void);

/* @device  from 0, as the driver counts them and Kiln's budgets do
 * @nvrtc   a libnvrtc's path; NULL: the first that is found. Without one the program ends with 77
 */
void backend_open(backend *self, const cuda_driver *cuda, int device, const char *nvrtc);
/* What was cached for its context goes with it. */
void backend_close(backend *self);

/* Compiles a program, and holds one of its kernels. */
void backend_hold_kernel(const backend *self, const char *source, const char *name,
                         held_kernel *ret_kernel);
void held_kernel_release(held_kernel *self);

void partition_compile(partition *self, backend *owner, const weights *matrix);
/* What it computed goes with it. */
void partition_release(partition *self);

void execution_begin(execution *self, const partition *what);
/* The blocks, which the stream's next commands may read. Good until execution_let_go, and then for
 * the commands that were enqueued before. */
cuda_address execution_obtain(execution *self);
void execution_let_go(execution *self);
/* result = matrix * vector */
void execution_run(execution *self, const float *vector, float *result);
void execution_end(execution *self);
