/* SPDX-License-Identifier: Apache-2.0
 *
 * Describes a result for people who list the contents of a cache.
 */
#pragma once

#include <kiln/key.h>

#include "base/text.h"
#include "device/nvrtc/functions.h"
#include "device/watch/results.h"

typedef struct kilni_nvrtc_description {
    kilni_text device; /* "NVRTC 13.0 sm_90" */
    kilni_text name;   /* the kernels' names, else the program's */
    kilni_text log;
} kilni_nvrtc_description;

/* @key   the program's key; must live until the call returns
 * @name  the program's name; may be NULL
 * Returns KILN_OK; KILN_E_CORRUPT; KILN_E_NO_MEMORY. */
kiln_status kilni_nvrtc_describe(const kiln_key *key, const char *name,
                                 const kilni_stored_result *made,
                                 kilni_nvrtc_description *ret_description);

/* Appends the compiler and the architecture: "NVRTC 13.0 sm_90". Returns KILN_OK or
 * KILN_E_NO_MEMORY. */
kiln_status kilni_nvrtc_describe_device(const kilni_nvrtc_functions *nvrtc, char *const *options,
                                        size_t option_count, kilni_text *ret_device);

void kilni_nvrtc_description_done(kilni_nvrtc_description *description);
