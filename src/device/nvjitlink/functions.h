/* SPDX-License-Identifier: Apache-2.0
 *
 * nvJitLink's functions, which Kiln finds in a library at run time. Kiln is built without NVIDIA's
 * headers. nvJitLink has never changed the values and signatures that are declared here.
 *
 * A library exports each function several times: under the names below, and for each minor release
 * of its major version under a name such as __nvJitLinkCreate_12_9. The functions of one release
 * form an interface.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "device/nvrtc/outputs.h"

typedef struct kilni_nvjitlink_object *kilni_nvjitlink_handle;

/* nvJitLinkResult: the values are nvJitLink's own. */
enum { KILNI_NVJITLINK_SUCCESS = 0, KILNI_NVJITLINK_UNRECOGNIZED_OPTION = 1 };

typedef int kilni_nvjitlink_version_fn(unsigned *major, unsigned *minor);
typedef int kilni_nvjitlink_create_fn(kilni_nvjitlink_handle *handle, uint32_t option_count,
                                      const char *const *options);
typedef int kilni_nvjitlink_destroy_fn(kilni_nvjitlink_handle *handle);
typedef int kilni_nvjitlink_add_data_fn(kilni_nvjitlink_handle handle, int kind, const void *data,
                                        size_t size, const char *name);
typedef int kilni_nvjitlink_add_file_fn(kilni_nvjitlink_handle handle, int kind, const char *path);
typedef int kilni_nvjitlink_complete_fn(kilni_nvjitlink_handle handle);

/* X(member, type, name): nvJitLink exports the function under the given name. The functions that
 * return outputs have the same signatures as NVRTC's, except for the type of the handle. */
#define KILNI_NVJITLINK_FUNCTIONS(X)                                                               \
    X(create, kilni_nvjitlink_create_fn, "nvJitLinkCreate")                                        \
    X(destroy, kilni_nvjitlink_destroy_fn, "nvJitLinkDestroy")                                     \
    X(add_data, kilni_nvjitlink_add_data_fn, "nvJitLinkAddData")                                   \
    X(add_file, kilni_nvjitlink_add_file_fn, "nvJitLinkAddFile")                                   \
    X(complete, kilni_nvjitlink_complete_fn, "nvJitLinkComplete")                                  \
    X(get.size[KILNI_NVRTC_LOG], kilni_nvrtc_size_fn, "nvJitLinkGetInfoLogSize")                   \
    X(get.get[KILNI_NVRTC_LOG], kilni_nvrtc_get_fn, "nvJitLinkGetInfoLog")                         \
    X(get.size[KILNI_NVRTC_ERROR_LOG], kilni_nvrtc_size_fn, "nvJitLinkGetErrorLogSize")            \
    X(get.get[KILNI_NVRTC_ERROR_LOG], kilni_nvrtc_get_fn, "nvJitLinkGetErrorLog")                  \
    X(get.size[KILNI_NVRTC_PTX], kilni_nvrtc_size_fn, "nvJitLinkGetLinkedPtxSize")                 \
    X(get.get[KILNI_NVRTC_PTX], kilni_nvrtc_get_fn, "nvJitLinkGetLinkedPtx")                       \
    X(get.size[KILNI_NVRTC_CUBIN], kilni_nvrtc_size_fn, "nvJitLinkGetLinkedCubinSize")             \
    X(get.get[KILNI_NVRTC_CUBIN], kilni_nvrtc_get_fn, "nvJitLinkGetLinkedCubin")                   \
    X(get.size[KILNI_NVRTC_LTOIR], kilni_nvrtc_size_fn, "nvJitLinkGetLinkedLTOIRSize")             \
    X(get.get[KILNI_NVRTC_LTOIR], kilni_nvrtc_get_fn, "nvJitLinkGetLinkedLTOIR")

/* One interface. The member of a function that the library lacks is NULL. */
typedef struct kilni_nvjitlink_functions {
    kilni_nvjitlink_create_fn *create;
    kilni_nvjitlink_destroy_fn *destroy;
    kilni_nvjitlink_add_data_fn *add_data;
    kilni_nvjitlink_add_file_fn *add_file;
    kilni_nvjitlink_complete_fn *complete;
    kilni_nvrtc_functions get; /* only size and get are set */
} kilni_nvjitlink_functions;
