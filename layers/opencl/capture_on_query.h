/* SPDX-License-Identifier: Apache-2.0
 *
 * Free captures on drivers whose captures are expensive: an application that asks for a program's
 * binaries itself, as programs with their own cache do, has already paid for them.
 */
#pragma once

#include <CL/cl_icd.h>

/* Called after the driver has given the application a program's binaries. Stores what was built,
 * unless it is stored already or the program was built again since.
 *
 * @binaries  where the application wanted the binary of each device; NULL: it did not want that
 * one */
void capture_queried_binaries(cl_program program, unsigned char *const *binaries);
