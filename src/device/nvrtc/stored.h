/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts programs of the device ops to entries and back.
 */
#pragma once

#include <kiln/device.h>

#include "device/nvrtc/compiled_program.h"

/* Implements kiln_device_ops' capture. */
kiln_status kilni_nvrtc_capture(const kilni_nvrtc_compiled_program *built,
                                kiln_capture *ret_capture);

/* Implements kiln_device_ops' load. Returns KILN_MISS if the files have changed since the entry was
 * made or since the source's revision was reported, or if this process folds constants
 * differently. */
kiln_status kilni_nvrtc_load(const kiln_nvrtc_device *device, const kiln_program_source *source,
                             const kiln_entry *entry, kilni_nvrtc_compiled_program **ret_built);
