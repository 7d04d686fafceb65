/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds out which ICD loader a program gets. Some loaders, such as CUDA's, do not support layers.
 * In that case, the tool makes the program find a different loader of this system first.
 */
#pragma once

#include <stdbool.h>

/* Returns the path of the file that a program gets if it asks for libOpenCL.so.1 and names no
 * folder. NULL if there is no such file. The caller frees the path. The loader is not loaded after
 * this call. */
char *opencl_loader_found(void);

bool opencl_loader_supports_layers(const char *path);

/* Returns true if a loader seems to read an environment variable, because the loader's file
 * contains the variable's name. */
bool opencl_loader_reads(const char *path, const char *variable);

/* Returns a loader in the system's folders that supports layers and can replace @found: it is for
 * the same machine, and has all versions of functions that programs can request from @found. NULL
 * if there is no such loader. The caller frees the result. */
char *opencl_loader_replacement(const char *found);
