/* SPDX-License-Identifier: Apache-2.0
 *
 * The key of a build: the one place that knows the order of its parts. Whoever builds and whoever
 * repeats the build elsewhere make it here.
 */
#pragma once

#include <kiln/device.h>
#include <kiln/key.h>

#include "device/opencl/constants.h"
#include "device/opencl/identity.h"

/* Where a program is built. Borrowed. */
typedef struct kilni_opencl_site {
    const kiln_key *identity; /* of the device: kilni_opencl_get_identity */
    const char *platform_name;
    const kilni_opencl_environment *environment; /* may be NULL */
} kilni_opencl_site;

/* The parts of kilni_opencl_add_identity as a key. KILN_OK; KILN_E_UNSUPPORTED, with the reason;
 * KILN_E_NO_MEMORY. */
kiln_status kilni_opencl_get_identity(const cl_icd_dispatch *cl, cl_device_id device,
                                      const kilni_opencl_driver *driver, kiln_key **ret_identity,
                                      kiln_error *error);

/* A builder with what every key begins with: what the device and its driver are, and the
 * environment as it is now. KILN_OK; KILN_E_UNSUPPORTED, with the reason; KILN_E_NO_MEMORY. */
kiln_status kilni_opencl_begin_key(const kilni_opencl_site *site, kiln_key_builder **ret_builder,
                                   kiln_error *error);

/* The whole key. Reads included files. KILN_OK; KILN_E_UNSUPPORTED, with the reason;
 * KILN_E_NO_MEMORY. */
kiln_status kilni_opencl_build_key(const kilni_opencl_site *site, const kiln_program_source *source,
                                   const kilni_opencl_constants *constants, kiln_key **ret_key,
                                   kiln_error *error);
