/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the examination that load OpenCL. Each of them runs in a process of its own, with
 * its own report.
 */
#pragma once

#include <stdbool.h>

#include "../opencl/opencl_library.h"
#include "doctor.h"

/* OpenCL as `kiln run` lets programs have it. */
typedef struct opencl_setup {
    char *layer;        /* Kiln's own; NULL: there is none */
    char *other_layers; /* OPENCL_LAYERS as it was found; NULL: not set */
    char *layers;       /* what it is for a program; NULL: as it was found */
    char *found;        /* the loader that a program gets by itself; NULL: none */
    char *instead;      /* the one that is put before that; NULL: none */
    char *obstacle;     /* why none can be put before it, where there is one; NULL: nothing */
    char *folder;       /* for lists of drivers, temporary; NULL: none yet */
} opencl_setup;

/* "loader". */
void doctor_report_loader(examination *doctor, const opencl_setup *setup,
                          const opencl_functions *opencl);

/* "layer", and what is wrong with the user's other ones. The loader has to have loaded them. */
void doctor_check_layers(examination *doctor, const opencl_setup *setup);

/* "layer" alone. */
void doctor_report_layer(examination *doctor, const opencl_setup *setup, bool loaded);

/* "nvrtc_layer". */
void doctor_report_nvrtc_layer(examination *doctor);

/* "platforms". Returns how many there are. */
size_t doctor_report_platforms(examination *doctor, const opencl_functions *opencl);
