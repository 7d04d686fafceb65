/* SPDX-License-Identifier: Apache-2.0
 *
 * The interface between the audit library and the layer. The audit library is in every process that
 * `kiln run` starts. It loads the layer only at the first call of NVRTC or nvJitLink.
 */
#pragma once

#include <link.h>

#include "device/nvrtc/functions.h"

/* The audit library and the layer are installed together. The audit library does not use a layer of
 * a different version. */
#define NVRTC_HOOKS_VERSION 4u

#define NVRTC_LAYER_FILE "libkiln_nvrtc_layer.so"
#define NVRTC_LAYER_ENTRY "kiln_nvrtc_layer_hooks"

/* The layer's data about a libnvrtc of the process. */
typedef struct nvrtc_library nvrtc_library;

/* The layer's data about a libnvJitLink of the process. */
typedef struct linker_library linker_library;

/* One of the functions of a libnvJitLink. */
typedef struct linker_function {
    const char *name; /* in the library's string table */
    void *real;
} linker_function;

/* In a call of a function with an unknown signature, any of this many registers can contain a
 * program. */
enum { NVRTC_ARGUMENT_REGISTERS = 6 };

typedef struct nvrtc_hooks {
    unsigned version;

    /* Attaches a library. Several threads can attach the same library at the same time.
     *
     * @map   the loader's description of the library, which is loaded
     * @real  the library's own functions; copied
     * Returns NULL if the layer must not serve the library's programs. */
    nvrtc_library *(*attach)(struct link_map *map, const kilni_nvrtc_functions *real);

    int (*create)(nvrtc_library *library, kilni_nvrtc_program *program, const char *source,
                  const char *name, int header_count, const char *const *headers,
                  const char *const *header_names);
    int (*destroy)(nvrtc_library *library, kilni_nvrtc_program *program);
    int (*compile)(nvrtc_library *library, kilni_nvrtc_program program, int option_count,
                   const char *const *options);
    int (*add_name)(nvrtc_library *library, kilni_nvrtc_program program, const char *expression);
    int (*lowered_name)(nvrtc_library *library, kilni_nvrtc_program program, const char *expression,
                        const char **ret_name);
    int (*set_callback)(nvrtc_library *library, kilni_nvrtc_program program,
                        kilni_nvrtc_flow_callback callback, void *payload);
    int (*size)(nvrtc_library *library, kilni_nvrtc_program program, kilni_nvrtc_output output,
                size_t *ret_size);
    int (*get)(nvrtc_library *library, kilni_nvrtc_program program, kilni_nvrtc_output output,
               char *bytes);

    /* Called before each call of an unknown function. @arguments are the values of the registers
     * that might contain the function's arguments. */
    void (*before_unknown)(const void *const arguments[NVRTC_ARGUMENT_REGISTERS]);

    /* Called before each link of HIPRTC, which is not cached. */
    void (*before_hip_link)(void);

    /* Called before and after each action of comgr, AMD's compiler, for any library that asks. */
    void (*action_begins)(void);
    void (*action_ends)(void);

    /* Does what attach does, for a libnvJitLink. @functions stay at their address. */
    linker_library *(*attach_linker)(struct link_map *map, const linker_function *functions,
                                     size_t count);

    /* Called before each call of one of these functions, with its number among them. Returns 1 if
     * the layer has served the call; @ret_result is then what the function returns. Returns 0 if
     * the function must run. */
    int (*link_call)(linker_library *library, size_t function,
                     const void *const arguments[NVRTC_ARGUMENT_REGISTERS], int *ret_result);
} nvrtc_hooks;

typedef const nvrtc_hooks *nvrtc_layer_entry(void);
