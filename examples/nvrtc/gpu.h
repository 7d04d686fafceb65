/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPU of a runtime: the first one's primary context. libcuda is opened when it runs, so that
 * nothing of NVIDIA's is needed to build this.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The context, a CUcontext, which is the calling thread's current one from then on; to be given
 * back with gpu_close. NULL: there is no driver, or no GPU. Other failures end the program. */
void *gpu_open(void);
void gpu_close(void *context); /* takes NULL */

/* Runs a kernel(T *values, unsigned count) on numbers of 16 bits, which it changes. */
void gpu_run(void *kernel, uint16_t *values, unsigned count);
