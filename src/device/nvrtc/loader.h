/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <kiln/status.h>

#include "device/nvrtc/functions.h"

/* Opens libnvrtc and finds its functions. The library stays open until the process ends.
 *
 * @path  NULL: tries the known versions, newest first
 * Returns KILN_OK; KILN_E_UNSUPPORTED: no libnvrtc is found, or it lacks a function that every
 * compilation needs. Blocks: on loading.
 */
kiln_status kilni_nvrtc_open(const char *path, kilni_nvrtc_functions *ret_nvrtc, kiln_error *error);
