/* SPDX-License-Identifier: Apache-2.0
 *
 * A request to the device ops, converted to NVRTC's terms.
 */
#pragma once

#include <kiln/device.h>

#include "device/nvrtc/device.h"
#include "device/nvrtc/options.h"
#include "device/watch/inputs.h"

/* The name of a program whose source has none. */
#define KILNI_NVRTC_NO_NAME "program.cu"

/* A program's source and options, parsed. */
typedef struct kilni_nvrtc_request {
    char *text;
    kilni_nvrtc_options options;
    kilni_inputs inputs; /* borrows text and options, and texts of the device */
    kilni_words words;   /* found in the given texts */
    uint64_t revision;   /* of the source */
    kiln_key *key;       /* of everything except the files; NULL: no key can be made */
} kilni_nvrtc_request;

/* @device, @source  must live as long as the request
 * @error            may be NULL
 * Returns KILN_OK, even if no key can be made; KILN_E_BUILD: the source is not text, or the options
 * have an unterminated quote; KILN_E_NO_MEMORY. If no key can be made, @error has the reason. In
 * each case, the caller must call kilni_nvrtc_request_done. */
kiln_status kilni_nvrtc_request_begin(const kiln_nvrtc_device *device,
                                      const kiln_program_source *source,
                                      kilni_nvrtc_request *ret_request, kiln_error *error);
void kilni_nvrtc_request_done(kilni_nvrtc_request *request);
