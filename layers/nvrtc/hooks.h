/* SPDX-License-Identifier: Apache-2.0
 *
 * The interface between the audit library and the layer. The audit library is in every process that
 * `kiln run` starts. It loads the layer only at the first call of NVRTC.
 */
#pragma once

#include <link.h>

#include "device/nvrtc/functions.h"

/* The audit library and the layer are installed together. The audit library does not use a layer of
 * a different version. */
#define NVRTC_HOOKS_VERSION 1u

#define NVRTC_LAYER_FILE "libkiln_nvrtc_layer.so"
#define NVRTC_LAYER_ENTRY "kiln_nvrtc_layer_hooks"

/* The layer's data about a libnvrtc of the process. */
typedef struct nvrtc_library nvrtc_library;

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
} nvrtc_hooks;

typedef const nvrtc_hooks *nvrtc_layer_entry(void);
