/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes binaries from built OpenCL programs, and makes programs from binaries.
 */
#pragma once

#include <CL/cl_icd.h>

#include <kiln/device.h>
#include <kiln/entry.h>
#include <kiln/key.h>
#include <kiln/status.h>

/* Takes everything that an entry needs from a built program: the binary, the recorded answers, the
 * log, and the descriptions of the device and the kernels.
 *
 * @device       a device for which the program was built
 * @ret_capture  [out] freed by the caller, with kiln_capture_done
 * Returns KILN_OK; KILN_E_UNSUPPORTED: the runtime returns no binary, or the log names a defeating
 * constant; KILN_E_NO_MEMORY. Blocks: on the runtime, which sometimes takes seconds to return the
 * binary. */
kiln_status kilni_opencl_capture(const cl_icd_dispatch *cl, cl_program program, cl_device_id device,
                                 kiln_capture *ret_capture);

/* Makes a program from verified binaries, one for each device. Builds it with the same options as
 * the source, because some options take effect only when a binary is loaded.
 *
 * @options      passed to the runtime unchanged, because the runtime might treat NULL and ""
 *               differently
 * @ret_program  [out] the caller owns one reference
 * Returns KILN_OK; KILN_E_REFUSED; KILN_E_RESOURCES; KILN_E_NO_MEMORY. */
kiln_status kilni_opencl_load(const cl_icd_dispatch *cl, cl_context context, cl_uint device_count,
                              const cl_device_id *devices, const kiln_bytes *binaries,
                              const char *options, cl_program *ret_program);

/* Describes a device, its platform and driver, for people: "Intel(R) OpenCL / AMD EPYC /
 * 2025.20.10". The caller frees the text. NULL: memory ran out, or the device does not answer. */
char *kilni_opencl_device_text(const cl_icd_dispatch *cl, cl_device_id device);

/* Return a text property of a device or platform, or NULL. The caller frees the text. */
char *kilni_opencl_device_string(const cl_icd_dispatch *cl, cl_device_id device,
                                 cl_device_info what);
char *kilni_opencl_platform_string(const cl_icd_dispatch *cl, cl_platform_id platform,
                                   cl_platform_info what);
