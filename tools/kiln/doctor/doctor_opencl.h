/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the examination that concern loaders, drivers and layers. The parts that load OpenCL
 * run in a separate process, which has its own report.
 */
#pragma once

#include <stdbool.h>

#include "../opencl/opencl_library.h"
#include "doctor.h"

/* OpenCL as programs get it from `kiln run`. */
typedef struct opencl_setup {
    char *layer;        /* Kiln's layer; NULL: there is none */
    char *other_layers; /* the inherited OPENCL_LAYERS; NULL: not set */
    char *layers;       /* OPENCL_LAYERS of a program; NULL: as inherited */
    char *found;        /* the loader that a program gets without Kiln; NULL: it gets none */
    char *replacement;  /* the loader that is put before the one that was found; NULL: none */
    char *obstacle;     /* why no other loader can be put before the one that was found; NULL: no
                           obstacle */
    char *folder;       /* a temporary folder for lists of drivers; NULL: not made yet */
} opencl_setup;

/* Adds "loader". */
void doctor_report_loader(examination *doctor, const opencl_setup *setup,
                          const opencl_functions *opencl);

/* Adds "layer", and reports problems of the user's own layers. The loader must have loaded the
 * layers. */
void doctor_check_layers(examination *doctor, const opencl_setup *setup);

/* Adds "layer" only. */
void doctor_report_layer(examination *doctor, const opencl_setup *setup, bool loaded);

/* Adds "nvrtc_layer". */
void doctor_report_nvrtc_layer(examination *doctor);

/* Adds "platforms". Returns how many there are. */
size_t doctor_report_platforms(examination *doctor, const opencl_functions *opencl);
