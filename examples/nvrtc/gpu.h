/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPU of a runtime: the primary context of the first GPU. It opens libcuda at run time, so
 * building this needs nothing from NVIDIA.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Returns the context, a CUcontext, and makes it current in the calling thread. The caller closes
 * it with gpu_close. NULL: there is no driver or no GPU. Any other failure ends the program. */
void *gpu_open(void);
void gpu_close(void *context); /* accepts NULL */

/* Runs a kernel(T *values, unsigned count), which changes 16-bit numbers in place. */
void gpu_run(void *kernel, uint16_t *values, unsigned count);
