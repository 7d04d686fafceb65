/* SPDX-License-Identifier: Apache-2.0
 *
 * A device, and Kiln's context of programs on it.
 */
#pragma once

#include <stddef.h>

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <kiln/opencl.h>
#include <kiln/program.h>

typedef struct compute {
    cl_device_id id;
    cl_context context;
    cl_command_queue queue;
    kiln_opencl_device *device; /* the argument of OpenCL's device ops */
    kiln_program_context *programs;
} compute;

/* Opens the first device of the first platform. A failure ends the program with a message.
 *
 * @store  borrowed; NULL: programs are kept in memory only */
void compute_open(kiln_store *store, compute *ret_compute);
void compute_close(compute *on);

/* Ends the program with a message if something failed. */
void require(kiln_status status, const kiln_error *error, const char *what);

/* "built", "found on disk", … */
const char *compute_source_text(const kiln_program_result *result);

/* Runs a kernel(global float *data), which changes the numbers in place. */
void compute_run(const compute *on, cl_kernel kernel, float *data, size_t count);
