/* SPDX-License-Identifier: Apache-2.0
 *
 * Which ICD loader a program gets. Some know no layers, CUDA's among them; then another one of this
 * system is put before it.
 */
#pragma once

#include <stdbool.h>

/* The file that a program gets which asks for libOpenCL.so.1 and names no folder of its own, to be
 * freed; NULL where there is none. Nothing of it stays loaded. */
char *opencl_loader_found(void);

bool opencl_loader_knows_layers(const char *path);

/* Whether it knows an environment variable, which then stands in it by name. */
bool opencl_loader_reads(const char *path, const char *variable);

/* A loader in the system's folders that knows layers and can stand in for @found: for the same
 * machine, with all versions of functions that programs may ask for there. To be freed; NULL where
 * there is none. */
char *opencl_loader_instead_of(const char *found);
