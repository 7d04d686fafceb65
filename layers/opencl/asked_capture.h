/* SPDX-License-Identifier: Apache-2.0
 *
 * Captures that cost nothing more: where they are dear, the application may ask for the binaries
 * itself, as programs with a cache of their own do.
 */
#pragma once

#include <CL/cl_icd.h>

/* After the driver gave the application a program's binaries: keeps what was built, unless it was
 * kept before or was built anew since.
 *
 * @binaries  where the application wanted them, one for each device; NULL: not of that one */
void capture_as_asked(cl_program program, unsigned char *const *binaries);
