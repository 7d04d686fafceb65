/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs of the ops' in entries.
 */
#pragma once

#include <kiln/device.h>

#include "device/nvrtc/built.h"

/* As kiln_device_ops' capture. */
kiln_status kilni_nvrtc_capture(const kilni_nvrtc_built *built, kiln_capture *ret_capture);

/* As its load: KILN_MISS where the files are others now than they were for it, or for the source's
 * revision. */
kiln_status kilni_nvrtc_load(const kiln_nvrtc_device *device, const kiln_program_source *source,
                             const kiln_entry *entry, kilni_nvrtc_built **ret_built);
