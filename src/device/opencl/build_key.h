/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of builds, compiles and links. Only these functions decide the order of the parts. So a
 * process that repeats a build makes the same key as the process that built the program first.
 */
#pragma once

#include <kiln/device.h>
#include <kiln/key.h>

#include "device/opencl/constants.h"
#include "device/opencl/identity.h"
#include "device/opencl/inputs.h"

/* Where a program is built. All members are borrowed. */
typedef struct kilni_opencl_site {
    const kiln_key *identity; /* of the device; from kilni_opencl_get_identity */
    const char *platform_name;
    const kilni_opencl_environment *environment; /* may be NULL */
} kilni_opencl_site;

/* Makes a key from the parts that kilni_opencl_add_identity adds. Returns KILN_OK;
 * KILN_E_UNSUPPORTED, with the reason in @error; KILN_E_NO_MEMORY. */
kiln_status kilni_opencl_get_identity(const cl_icd_dispatch *cl, cl_device_id device,
                                      const kilni_opencl_driver *driver, kiln_key **ret_identity,
                                      kiln_error *error);

/* Makes the complete key of a build, except for the files that it reads.
 *
 * @source     if it ends with a defeating constant (defeating_constant.h) that its texts cannot
 *             name, the key has "source.end" in the place of the constant
 * @ret_texts  [out] the words in the texts, and whether the build might read files
 * Returns KILN_OK; KILN_E_UNSUPPORTED, with the reason in @error; KILN_E_NO_MEMORY. */
kiln_status kilni_opencl_build_key(const kilni_opencl_site *site, const kiln_program_source *source,
                                   const kilni_opencl_constants *constants,
                                   kilni_opencl_texts *ret_texts, kiln_key **ret_key,
                                   kiln_error *error);

/* The first function makes the key of a compile, except for the files that it reads. The second
 * makes the complete key of a link of compiled programs. @inputs are the keys of the compiled
 * programs, in order. */
kiln_status kilni_opencl_compile_key(const kilni_opencl_site *site,
                                     const kiln_program_source *source,
                                     const kilni_opencl_headers *headers,
                                     const kilni_opencl_constants *constants,
                                     kilni_opencl_texts *ret_texts, kiln_key **ret_key,
                                     kiln_error *error);
kiln_status kilni_opencl_link_key(const kilni_opencl_site *site, const char *options, size_t count,
                                  const kiln_key *const *inputs, kiln_key **ret_key,
                                  kiln_error *error);

/* Makes a key from the key of a compile and the files that the compile read. The keys of links
 * contain this key. Returns KILN_OK; KILN_E_TOO_LARGE; KILN_E_NO_MEMORY. */
kiln_status kilni_opencl_compiled_key(const kiln_key *key, kiln_bytes reads, kiln_key **ret_key);
