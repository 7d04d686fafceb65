/* SPDX-License-Identifier: Apache-2.0
 *
 * What the ops are given.
 */
#pragma once

#include <kiln/nvrtc.h>

#include "device/nvrtc/driver.h"
#include "device/nvrtc/functions.h"
#include "device/watch/known_reads.h"
#include "device/watch/watched_library.h"

struct kiln_nvrtc_device {
    kilni_nvrtc_functions nvrtc;
    kilni_cuda_driver driver;          /* where there is a context */
    kilni_cuda_context_handle context; /* borrowed; NULL: programs are code alone */
    char *architecture;                /* NULL: not said */
    size_t header_count;
    char **header_names;
    char **headers;
    char **variables;         /* NULL-ended */
    kilni_watched *watched;   /* NULL: NVRTC can't be watched */
    kilni_known_reads *known; /* where it can */
};
