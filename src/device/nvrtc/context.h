/* SPDX-License-Identifier: Apache-2.0
 *
 * What is in the CUDA context of a device: programs' code, and their kernels.
 */
#pragma once

#include "device/nvrtc/built.h"

/* Loads the program's code, where there is a context, and the code is any that can be loaded.
 *
 * Returns KILN_OK; KILN_E_REFUSED: the driver won't have it; KILN_E_RESOURCES; KILN_E_IO. Blocks:
 * on the driver. */
kiln_status kilni_nvrtc_context_load(const kiln_nvrtc_device *device, kilni_nvrtc_built *built);
void kilni_nvrtc_context_unload(const kiln_nvrtc_device *device, kilni_nvrtc_built *built);

/* A kernel of a program, by an expression of the program's, or by the name that the code has. It
 * goes with its program.
 *
 * Returns KILN_OK; KILN_MISS; KILN_E_UNSUPPORTED: the program is not loaded; KILN_E_RESOURCES;
 * KILN_E_IO. Blocks: on the driver. */
kiln_status kilni_nvrtc_context_get_kernel(const kiln_nvrtc_device *device,
                                           const kilni_nvrtc_built *built, const char *name,
                                           void **ret_kernel);
