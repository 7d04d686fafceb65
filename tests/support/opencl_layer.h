/* SPDX-License-Identifier: Apache-2.0
 *
 * What the layers of the tests share: a layer for the OpenCL ICD loader that passes on all
 * functions except those that it replaces. One file is one layer; a test that needs the layer twice
 * in a process copies the file.
 */
#pragma once

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_layer.h>

/* The layer defines these two. */
extern const char layer_name[];
void layer_interpose(cl_icd_dispatch *own);

/* Replaces the function @name, if the loader has it. */
#define INTERPOSE(own, name, function)                                                             \
    do {                                                                                           \
        if ((own)->name != NULL) {                                                                 \
            (own)->name = (function);                                                              \
        }                                                                                          \
    } while (0)

/* The loader's calls set both variables, before any other call. */
extern cl_icd_dispatch layer_below;
extern int layer_is_started;
