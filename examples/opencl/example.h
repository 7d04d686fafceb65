/* SPDX-License-Identifier: Apache-2.0
 *
 * What the three jobs share: a device, and calls that end the program with a message on failure.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

typedef struct example {
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
    const char *kernel_folder;
    uint64_t build_ns;  /* spent so far making programs and kernels */
    uint64_t launch_ns; /* spent so far in launches, until they finished */
} example;

/* A job builds its program, runs it and keeps the results; afterwards it checks them on the host
 * and prints a line. */
void matrix_run(example *self);
int matrix_check(void);
void reduction_run(example *self);
int reduction_check(void);
void fft_run(example *self);
int fft_check(void);

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t now_ns(void);

/* Pseudo-random numbers, the same in every run. */
uint32_t next_number(uint32_t *state);

/* Opens the first device of the first platform whose name contains @platform; NULL: of the first
 * platform with a device. */
void example_open(example *self, const char *platform);
void example_close(example *self);

cl_program example_build(example *self, const char *file, const char *options);
cl_kernel example_kernel(example *self, cl_program program, const char *name);
cl_mem example_buffer(const example *self, const void *content, size_t size);
void example_argument(cl_kernel kernel, cl_uint index, size_t size, const void *value);

/* Launches a kernel and waits. If @local is 0, the runtime chooses the size of the work-groups. */
void example_launch(example *self, cl_kernel kernel, const size_t global[2], const size_t local[2]);
void example_read(const example *self, cl_mem buffer, void *content, size_t size);
