/* SPDX-License-Identifier: Apache-2.0
 *
 * What the device ops are asked for, as NVRTC is to get it.
 */
#pragma once

#include <kiln/device.h>

#include "device/nvrtc/device.h"
#include "device/nvrtc/options.h"
#include "device/watch/inputs.h"

/* What a program goes by where its source has no name. */
#define KILNI_NVRTC_NO_NAME "program.cu"

/* A program, taken apart. */
typedef struct kilni_nvrtc_request {
    char *text;
    kilni_nvrtc_options options;
    kilni_inputs inputs;     /* borrows the two, and what the device has */
    kilni_clock_words words; /* of the texts that were given */
    uint64_t revision;       /* the source's */
    kiln_key *key;           /* of all but the files; NULL: that can't be told */
} kilni_nvrtc_request;

/* @device, @source  live as long as the request
 * @error            may be NULL
 * Returns KILN_OK, also where there is no key, and @error says why; KILN_E_BUILD: it is nothing
 * that could be compiled; KILN_E_NO_MEMORY. kilni_nvrtc_request_done in each case. */
kiln_status kilni_nvrtc_request_begin(const kiln_nvrtc_device *device,
                                      const kiln_program_source *source,
                                      kilni_nvrtc_request *ret_request, kiln_error *error);
void kilni_nvrtc_request_done(kilni_nvrtc_request *request);
