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

/* A loader in the system's folders that knows layers and can stand in for @found: for the same
 * machine, with all versions of functions that programs may ask for there. To be freed; NULL where
 * there is none. */
char *opencl_loader_instead_of(const char *found);

/* LD_LIBRARY_PATH with a folder first that has nothing but a link to this loader, to be freed. The
 * folder is in the user's own cache folder and stays.
 *
 * @others  what the variable says now, or NULL
 * Where it can't be, returns NULL with why, to be freed. */
char *opencl_loader_search_path(const char *loader, const char *others, char **ret_why);
