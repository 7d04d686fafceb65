/* SPDX-License-Identifier: Apache-2.0
 *
 * NVRTC's functions, which Kiln finds in a library at run time. Kiln is built without NVIDIA's
 * headers. NVRTC has never changed the values and signatures that are declared here.
 */
#pragma once

#include <stddef.h>

typedef struct kilni_nvrtc_handle *kilni_nvrtc_program;

/* nvrtcResult: the values are NVRTC's own. */
typedef enum kilni_nvrtc_result {
    KILNI_NVRTC_SUCCESS = 0,
    KILNI_NVRTC_OUT_OF_MEMORY = 1,
    KILNI_NVRTC_INVALID_PROGRAM = 4,
    KILNI_NVRTC_INVALID_OPTION = 5,
    KILNI_NVRTC_COMPILATION = 6,
    KILNI_NVRTC_NAMES_AFTER_COMPILATION = 8,
    KILNI_NVRTC_NAME_NOT_VALID = 10
} kilni_nvrtc_result;

typedef int (*kilni_nvrtc_flow_callback)(void *payload, void *reserved);

typedef int kilni_nvrtc_version_fn(int *major, int *minor);
typedef int kilni_nvrtc_create_fn(kilni_nvrtc_program *program, const char *source,
                                  const char *name, int header_count, const char *const *headers,
                                  const char *const *header_names);
typedef int kilni_nvrtc_destroy_fn(kilni_nvrtc_program *program);
typedef int kilni_nvrtc_compile_fn(kilni_nvrtc_program program, int option_count,
                                   const char *const *options);
typedef int kilni_nvrtc_add_name_fn(kilni_nvrtc_program program, const char *expression);
typedef int kilni_nvrtc_lowered_name_fn(kilni_nvrtc_program program, const char *expression,
                                        const char **ret_name);
typedef int kilni_nvrtc_set_callback_fn(kilni_nvrtc_program program,
                                        kilni_nvrtc_flow_callback callback, void *payload);
typedef int kilni_nvrtc_size_fn(kilni_nvrtc_program program, size_t *ret_size);
typedef int kilni_nvrtc_get_fn(kilni_nvrtc_program program, char *bytes);

/* The outputs of a compiled program. For each output, NVRTC has a function that returns its size
 * and a function that returns its bytes. The numbers are stored in entries. */
typedef enum kilni_nvrtc_output {
    KILNI_NVRTC_LOG = 0,
    KILNI_NVRTC_PTX = 1,
    KILNI_NVRTC_CUBIN = 2,
    KILNI_NVRTC_LTOIR = 3,
    KILNI_NVRTC_OPTIXIR = 4,
    KILNI_NVRTC_NVVM = 5,
    KILNI_NVRTC_ERROR_LOG = 6, /* of nvJitLink, whose information log is KILNI_NVRTC_LOG */
    KILNI_HIPRTC_LOG = 7,      /* of HIPRTC: it does not end with a zero byte */
    KILNI_HIPRTC_CODE = 8,     /* an ELF file, or a bundle of several */
    KILNI_HIPRTC_BITCODE = 9,
    KILNI_NVRTC_OUTPUT_COUNT = 10
} kilni_nvrtc_output;

/* X(member, type, name): NVRTC exports the function under the given name. */
#define KILNI_NVRTC_OUTPUT_FUNCTIONS(X)                                                            \
    X(size[KILNI_NVRTC_LOG], kilni_nvrtc_size_fn, "nvrtcGetProgramLogSize")                        \
    X(get[KILNI_NVRTC_LOG], kilni_nvrtc_get_fn, "nvrtcGetProgramLog")                              \
    X(size[KILNI_NVRTC_PTX], kilni_nvrtc_size_fn, "nvrtcGetPTXSize")                               \
    X(get[KILNI_NVRTC_PTX], kilni_nvrtc_get_fn, "nvrtcGetPTX")                                     \
    X(size[KILNI_NVRTC_CUBIN], kilni_nvrtc_size_fn, "nvrtcGetCUBINSize")                           \
    X(get[KILNI_NVRTC_CUBIN], kilni_nvrtc_get_fn, "nvrtcGetCUBIN")                                 \
    X(size[KILNI_NVRTC_LTOIR], kilni_nvrtc_size_fn, "nvrtcGetLTOIRSize")                           \
    X(get[KILNI_NVRTC_LTOIR], kilni_nvrtc_get_fn, "nvrtcGetLTOIR")                                 \
    X(size[KILNI_NVRTC_OPTIXIR], kilni_nvrtc_size_fn, "nvrtcGetOptiXIRSize")                       \
    X(get[KILNI_NVRTC_OPTIXIR], kilni_nvrtc_get_fn, "nvrtcGetOptiXIR")                             \
    X(size[KILNI_NVRTC_NVVM], kilni_nvrtc_size_fn, "nvrtcGetNVVMSize")                             \
    X(get[KILNI_NVRTC_NVVM], kilni_nvrtc_get_fn, "nvrtcGetNVVM")

#define KILNI_NVRTC_FUNCTIONS(X)                                                                   \
    X(version, kilni_nvrtc_version_fn, "nvrtcVersion")                                             \
    X(create, kilni_nvrtc_create_fn, "nvrtcCreateProgram")                                         \
    X(destroy, kilni_nvrtc_destroy_fn, "nvrtcDestroyProgram")                                      \
    X(compile, kilni_nvrtc_compile_fn, "nvrtcCompileProgram")                                      \
    X(add_name, kilni_nvrtc_add_name_fn, "nvrtcAddNameExpression")                                 \
    X(lowered_name, kilni_nvrtc_lowered_name_fn, "nvrtcGetLoweredName")                            \
    X(set_callback, kilni_nvrtc_set_callback_fn, "nvrtcSetFlowCallback")                           \
    KILNI_NVRTC_OUTPUT_FUNCTIONS(X)

/* The member of a function that the library lacks is NULL. A library can lack set_callback, and the
 * functions for outputs that its version does not know.
 */
typedef struct kilni_nvrtc_functions {
    kilni_nvrtc_version_fn *version;
    kilni_nvrtc_create_fn *create;
    kilni_nvrtc_destroy_fn *destroy;
    kilni_nvrtc_compile_fn *compile;
    kilni_nvrtc_add_name_fn *add_name;
    kilni_nvrtc_lowered_name_fn *lowered_name;
    kilni_nvrtc_set_callback_fn *set_callback;
    kilni_nvrtc_size_fn *size[KILNI_NVRTC_OUTPUT_COUNT];
    kilni_nvrtc_get_fn *get[KILNI_NVRTC_OUTPUT_COUNT];
} kilni_nvrtc_functions;

/* Returns 1 if all functions that a compilation needs are present. */
static inline int kilni_nvrtc_functions_suffice(const kilni_nvrtc_functions *nvrtc)
{
    return nvrtc->version && nvrtc->create && nvrtc->destroy && nvrtc->compile && nvrtc->add_name &&
           nvrtc->lowered_name && nvrtc->size[KILNI_NVRTC_LOG] && nvrtc->get[KILNI_NVRTC_LOG] &&
           nvrtc->size[KILNI_NVRTC_PTX] && nvrtc->get[KILNI_NVRTC_PTX];
}
