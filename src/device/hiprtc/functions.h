/* SPDX-License-Identifier: Apache-2.0
 *
 * HIPRTC's functions, which Kiln finds in a library at run time. Their signatures, and the values
 * of hiprtcResult that Kiln uses, are NVRTC's: see device/nvrtc/functions.h.
 */
#pragma once

#include "device/nvrtc/functions.h"

/* X(member, type, name): HIPRTC exports the function under the given name. Versions before 5.3 have
 * no bitcode. */
#define KILNI_HIPRTC_FUNCTIONS(X)                                                                  \
    X(version, kilni_nvrtc_version_fn, "hiprtcVersion")                                            \
    X(create, kilni_nvrtc_create_fn, "hiprtcCreateProgram")                                        \
    X(destroy, kilni_nvrtc_destroy_fn, "hiprtcDestroyProgram")                                     \
    X(compile, kilni_nvrtc_compile_fn, "hiprtcCompileProgram")                                     \
    X(add_name, kilni_nvrtc_add_name_fn, "hiprtcAddNameExpression")                                \
    X(lowered_name, kilni_nvrtc_lowered_name_fn, "hiprtcGetLoweredName")                           \
    X(size[KILNI_HIPRTC_LOG], kilni_nvrtc_size_fn, "hiprtcGetProgramLogSize")                      \
    X(get[KILNI_HIPRTC_LOG], kilni_nvrtc_get_fn, "hiprtcGetProgramLog")                            \
    X(size[KILNI_HIPRTC_CODE], kilni_nvrtc_size_fn, "hiprtcGetCodeSize")                           \
    X(get[KILNI_HIPRTC_CODE], kilni_nvrtc_get_fn, "hiprtcGetCode")                                 \
    X(size[KILNI_HIPRTC_BITCODE], kilni_nvrtc_size_fn, "hiprtcGetBitcodeSize")                     \
    X(get[KILNI_HIPRTC_BITCODE], kilni_nvrtc_get_fn, "hiprtcGetBitcode")

/* Returns 1 if all functions that a compilation needs are present. */
static inline int kilni_hiprtc_functions_suffice(const kilni_nvrtc_functions *hiprtc)
{
    return hiprtc->version && hiprtc->create && hiprtc->destroy && hiprtc->compile &&
           hiprtc->add_name && hiprtc->lowered_name && hiprtc->size[KILNI_HIPRTC_LOG] &&
           hiprtc->get[KILNI_HIPRTC_LOG] && hiprtc->size[KILNI_HIPRTC_CODE] &&
           hiprtc->get[KILNI_HIPRTC_CODE];
}
