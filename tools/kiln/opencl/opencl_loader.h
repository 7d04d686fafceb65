/* SPDX-License-Identifier: Apache-2.0
 *
 * Which ICD loader a program gets. Some loaders, such as CUDA's, do not support layers. In that
 * case, the tool puts a different loader of this system before it.
 */
#pragma once

#include <stdbool.h>

/* Returns the file that a program gets if it asks for libOpenCL.so.1 and names no folder of its
 * own; NULL if there is none. The caller frees it. Leaves nothing loaded. */
char *opencl_loader_found(void);

bool opencl_loader_supports_layers(const char *path);

/* Returns whether a loader reads an environment variable. That is assumed if its file contains the
 * variable's name. */
bool opencl_loader_reads(const char *path, const char *variable);

/* Returns a loader in the system's folders that supports layers and can replace @found: it is for
 * the same machine, and has all versions of functions that programs may request from @found. NULL
 * if there is none. The caller frees it. */
char *opencl_loader_replacement(const char *found);
