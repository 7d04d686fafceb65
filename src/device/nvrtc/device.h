/* SPDX-License-Identifier: Apache-2.0
 *
 * The device that NVRTC's device ops use.
 */
#pragma once

#include <kiln/nvrtc.h>

#include "device/nvrtc/driver.h"
#include "device/nvrtc/functions.h"
#include "device/watch/known_reads.h"
#include "device/watch/watched_library.h"

struct kiln_nvrtc_device {
    kilni_nvrtc_functions nvrtc;
    kilni_cuda_driver driver;          /* set if there is a context */
    kilni_cuda_context_handle context; /* borrowed; NULL: programs are not loaded */
    char *architecture;                /* NULL: none was given */
    size_t header_count;
    char **header_names;
    char **headers;
    char **variables;         /* NULL-terminated */
    kilni_watched *watched;   /* NULL: NVRTC cannot be watched */
    kilni_known_reads *known; /* NULL unless NVRTC is watched */
};
