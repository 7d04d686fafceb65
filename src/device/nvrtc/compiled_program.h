/* SPDX-License-Identifier: Apache-2.0
 *
 * A compiled program, as the device ops' build returns it.
 */
#pragma once

#include <kiln/entry.h>

#include "base/text.h"
#include "device/nvrtc/device.h"
#include "device/nvrtc/outputs.h"

/* A program that the device ops return. */
typedef struct kilni_nvrtc_compiled_program {
    kilni_text device; /* describes the compiler and the architecture */
    kilni_text reads;  /* for kilni_reads_hold */
    kilni_text folds;  /* for kilni_folds_hold */
    const char *why;   /* static text: why the result cannot be kept; NULL if it can */
    kilni_text encoded, code;
    kilni_nvrtc_outputs outputs; /* decoded from encoded and code */
    kilni_cuda_library_handle library;
    kilni_cuda_module_handle module; /* at most one of the two is set */
} kilni_nvrtc_compiled_program;

/* Decodes the outputs from encoded and code, which the caller has set. Returns KILN_OK;
 * KILN_E_CORRUPT; KILN_E_NO_MEMORY.
 */
kiln_status kilni_nvrtc_compiled_program_decode(kilni_nvrtc_compiled_program *built);

/* Unloads and frees a program. */
void kilni_nvrtc_compiled_program_free(const kiln_nvrtc_device *device,
                                       kilni_nvrtc_compiled_program *built);
