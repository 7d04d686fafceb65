/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <kiln/status.h>

#include "device/nvrtc/functions.h"

/* Opens a libnvrtc, for good, and finds its functions.
 *
 * @path  NULL: those of the versions that are known, the newest first
 * Returns KILN_OK; KILN_E_UNSUPPORTED: none is there, or it lacks a function. Blocks: on loading.
 */
kiln_status kilni_nvrtc_open(const char *path, kilni_nvrtc_functions *ret_nvrtc, kiln_error *error);
