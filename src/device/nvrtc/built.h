/* SPDX-License-Identifier: Apache-2.0
 *
 * What the ops make.
 */
#pragma once

#include <kiln/entry.h>

#include "base/text.h"
#include "device/nvrtc/device.h"
#include "device/nvrtc/outputs.h"

/* A program of the ops'. */
typedef struct kilni_nvrtc_built {
    kilni_text device; /* what compiled it, for people */
    kilni_text reads;  /* for kilni_reads_hold */
    kilni_text folds;  /* for kilni_folds_hold */
    const char *why;   /* why it can't be kept, static text; NULL: it can */
    kilni_text encoded, code;
    kilni_nvrtc_outputs outputs; /* of these two */
    kilni_cuda_library_handle library;
    kilni_cuda_module_handle module; /* one of both, or none */
} kilni_nvrtc_built;

/* Decodes the outputs, once encoded and code are there. KILN_OK; KILN_E_CORRUPT; KILN_E_NO_MEMORY.
 */
kiln_status kilni_nvrtc_built_decode(kilni_nvrtc_built *built);

/* Unloads it, and frees it. */
void kilni_nvrtc_built_free(const kiln_nvrtc_device *device, kilni_nvrtc_built *built);
