/* SPDX-License-Identifier: Apache-2.0
 *
 * What layers of the tests have in common: a layer for the OpenCL ICD loader that passes on all but
 * the functions that it puts its own in place of. One file is one layer; who wants it twice in a
 * process makes a copy of the file.
 */
#pragma once

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_layer.h>

/* The layer brings these two. */
extern const char layer_name[];
void layer_interpose(cl_icd_dispatch *own);

/* Puts a function in the place of @name, where the loader has that at all. */
#define INTERPOSE(own, name, function)                                                             \
    do {                                                                                           \
        if ((own)->name != NULL) {                                                                 \
            (own)->name = (function);                                                              \
        }                                                                                          \
    } while (0)

/* Both are written once, before any call comes in. */
extern cl_icd_dispatch layer_below;
extern int layer_is_started;
