/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds a program: NVRTC compiles it while Kiln watches.
 */
#pragma once

#include <kiln/device.h>

#include "device/nvrtc/compiled_program.h"

/* Implements kiln_device_ops' build. */
kiln_status kilni_nvrtc_build(const kiln_nvrtc_device *device, const kiln_program_source *source,
                              kilni_nvrtc_compiled_program **ret_built, char **ret_log);
