/* SPDX-License-Identifier: Apache-2.0
 *
 * The code and the kernels of programs in a device's CUDA context.
 */
#pragma once

#include "device/nvrtc/compiled_program.h"

/* Loads the program's code, if the device has a context and the code is of a kind that can be
 * loaded.
 *
 * Returns KILN_OK; KILN_E_REFUSED: the driver refuses the code; KILN_E_RESOURCES; KILN_E_IO.
 * Blocks: on the driver. */
kiln_status kilni_nvrtc_context_load(const kiln_nvrtc_device *device,
                                     kilni_nvrtc_compiled_program *built);
void kilni_nvrtc_context_unload(const kiln_nvrtc_device *device,
                                kilni_nvrtc_compiled_program *built);

/* Finds a kernel of a program by one of the program's name expressions, or by the kernel's name in
 * the code. The kernel is valid as long as its program exists.
 *
 * Returns KILN_OK; KILN_MISS; KILN_E_UNSUPPORTED: the program is not loaded; KILN_E_RESOURCES;
 * KILN_E_IO. Blocks: on the driver. */
kiln_status kilni_nvrtc_context_get_kernel(const kiln_nvrtc_device *device,
                                           const kilni_nvrtc_compiled_program *built,
                                           const char *name, void **ret_kernel);
