/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of builds, compiles and links. Only this file knows the order of their parts: both the
 * process that builds and the process that repeats the build make the key here.
 */
#pragma once

#include <kiln/device.h>
#include <kiln/key.h>

#include "device/opencl/constants.h"
#include "device/opencl/identity.h"
#include "device/opencl/inputs.h"

/* Where a program is built. All members are borrowed. */
typedef struct kilni_opencl_site {
    const kiln_key *identity; /* of the device: kilni_opencl_get_identity */
    const char *platform_name;
    const kilni_opencl_environment *environment; /* may be NULL */
} kilni_opencl_site;

/* Makes a key from the parts of kilni_opencl_add_identity. Returns KILN_OK; KILN_E_UNSUPPORTED,
 * with the reason; KILN_E_NO_MEMORY. */
kiln_status kilni_opencl_get_identity(const cl_icd_dispatch *cl, cl_device_id device,
                                      const kilni_opencl_driver *driver, kiln_key **ret_identity,
                                      kiln_error *error);

/* Makes the complete key of a build, except for the files that it reads.
 *
 * @ret_texts  [out] whether it may read any
 * Returns KILN_OK; KILN_E_UNSUPPORTED, with the reason; KILN_E_NO_MEMORY. */
kiln_status kilni_opencl_build_key(const kilni_opencl_site *site, const kiln_program_source *source,
                                   const kilni_opencl_constants *constants,
                                   kilni_opencl_texts *ret_texts, kiln_key **ret_key,
                                   kiln_error *error);

/* Do the same for a compile, and for a link of what was compiled; @inputs are the keys of the
 * compiles, in order. */
kiln_status kilni_opencl_compile_key(const kilni_opencl_site *site,
                                     const kiln_program_source *source,
                                     const kilni_opencl_headers *headers,
                                     const kilni_opencl_constants *constants,
                                     kilni_opencl_texts *ret_texts, kiln_key **ret_key,
                                     kiln_error *error);
kiln_status kilni_opencl_link_key(const kilni_opencl_site *site, const char *options, size_t count,
                                  const kiln_key *const *inputs, kiln_key **ret_key,
                                  kiln_error *error);

/* The key of a compile together with what it was seen to read, which links are found by. KILN_OK;
 * KILN_E_TOO_LARGE; KILN_E_NO_MEMORY. */
kiln_status kilni_opencl_compiled_key(const kiln_key *key, kiln_bytes reads, kiln_key **ret_key);
