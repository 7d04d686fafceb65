/* SPDX-License-Identifier: Apache-2.0
 *
 * What the ops are given, and what they make.
 */
#pragma once

#include <kiln/nvrtc.h>

#include "base/text.h"
#include "device/nvrtc/driver.h"
#include "device/nvrtc/functions.h"
#include "device/nvrtc/known_reads.h"
#include "device/nvrtc/outputs.h"

struct kiln_nvrtc_device {
    kilni_nvrtc_functions nvrtc;
    kilni_cuda_driver driver;          /* where there is a context */
    kilni_cuda_context_handle context; /* borrowed; NULL: programs are code alone */
    char *architecture;                /* NULL: not said */
    size_t header_count;
    char **header_names;
    char **headers;
    char **variables;               /* NULL-ended */
    kilni_nvrtc_known_reads *known; /* NULL: NVRTC can't be watched */
};

/* A program of the ops'. */
typedef struct kilni_nvrtc_built {
    kilni_text device; /* what compiled it, for people */
    kilni_text reads;  /* for kilni_nvrtc_reads_hold */
    const char *why;   /* why it can't be kept, static text; NULL: it can */
    kilni_text encoded, code;
    kilni_nvrtc_outputs outputs; /* of these two */
    kilni_cuda_library_handle library;
    kilni_cuda_module_handle module; /* one of both, or none */
} kilni_nvrtc_built;
