/* SPDX-License-Identifier: Apache-2.0
 *
 * Captures without additional cost on drivers whose captures are expensive. If an application
 * requests a program's binaries itself, for example for a cache of its own, the driver has to
 * produce them, and the layer captures them too.
 */
#pragma once

#include <CL/cl_icd.h>

/* Called after the driver has given the application a program's binaries. Stores what was built,
 * unless it has been captured already or the program has been built again since.
 *
 * @binaries  the application's buffer for the binary of each device; NULL: the application did not
 *            request that binary */
void capture_queried_binaries(cl_program program, unsigned char *const *binaries);
