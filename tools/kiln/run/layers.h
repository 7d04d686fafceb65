/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the loaders insert Kiln's layers into the programs that this process starts.
 */
#pragma once

#include <stdbool.h>

/* Sets the variables of the environment that name the layers. Ends the tool if a layer that is
 * needed can't be used.
 *
 * @with_nvrtc  whether NVRTC's layer is inserted too
 * Returns whether it was. */
bool layers_insert(bool with_nvrtc);

/* Makes the Python programs that this process executes load the package kiln when they import a
 * framework that it caches for.
 *
 * @program  the program that is executed; if it gains privileges, nothing is done */
void layers_insert_python(const char *program);
