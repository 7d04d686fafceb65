/* SPDX-License-Identifier: Apache-2.0
 *
 * Captures without additional cost on drivers whose captures are expensive: an application that
 * requests a program's binaries itself, as programs with their own cache do, makes the driver
 * produce them anyway.
 */
#pragma once

#include <CL/cl_icd.h>

/* Called after the driver has given the application a program's binaries. Stores what was built,
 * unless it is stored already or the program was built again since.
 *
 * @binaries  the application's buffer for the binary of each device; NULL: the application did not
 *            request that binary */
void capture_queried_binaries(cl_program program, unsigned char *const *binaries);
