/* SPDX-License-Identifier: Apache-2.0
 *
 * On drivers with expensive captures, this file captures some programs at no additional cost. If an
 * application itself requests a program's binaries, for example for its own cache, the driver must
 * produce them. The layer then captures them too.
 */
#pragma once

#include <CL/cl_icd.h>

/* Called after the driver has given the application a program's binaries. Stores the program,
 * unless the layer has already captured it or the application has built it again meanwhile.
 *
 * @binaries  the application's buffer for the binary of each device; NULL: the application did not
 *            request that binary */
void capture_queried_binaries(cl_program program, unsigned char *const *binaries);
