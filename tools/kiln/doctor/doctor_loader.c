/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../opencl/opencl_loader.h"
#include "../text/json.h"
#include "../text/memory.h"
#include "doctor_opencl.h"

/* Parameters of clGetICDLoaderInfoOCLICD. */
enum { LOADER_VERSION = 2, LOADER_NAME = 3, LOADER_VENDOR = 4 };

typedef cl_int (*loader_info_fn)(cl_uint, size_t, void *, size_t *);

static void add_loader_text(json_t *object, const char *member, loader_info_fn info, cl_uint name)
{
    char text[256] = "";
    size_t size = 0;
    bool is_known = info != NULL && info(name, sizeof text - 1, text, &size) == CL_SUCCESS;
    json_add(object, member, is_known ? json_text_or_null(text) : json_null());
}

static void add_loader_kind(json_t *object)
{
    const char *name = json_string_value(json_object_get(object, "name"));
    const char *vendor = json_string_value(json_object_get(object, "vendor"));
    const char *kind = "unknown";
    if (name != NULL && strstr(name, "Khronos") != NULL) {
        kind = "khronos";
    } else if (vendor != NULL && strcasestr(vendor, "OCL Icd") != NULL) {
        kind = "ocl-icd";
    }
    json_add(object, "kind", json_text_or_null(kind));
}

/* Returns the file that the loader was loaded from, which the caller frees; NULL if it is not
 * known. */
static char *path_of(const opencl_functions *opencl)
{
    void *address;
    memcpy(&address, &opencl->clGetPlatformIDs, sizeof address);
    Dl_info where = {0};
    const bool is_known = dladdr(address, &where) != 0 && where.dli_fname != NULL;
    return is_known ? realpath(where.dli_fname, NULL) : NULL;
}

static void judge_loader(examination *doctor, const opencl_setup *setup, const char *path,
                         bool supports_layers)
{
    if (!supports_layers) {
        doctor_problem(doctor, "%s does not support layers, %s: no OpenCL build is cached",
                       path == NULL ? OPENCL_LIBRARY : path,
                       setup->obstacle != NULL ? setup->obstacle
                                               : "and no other loader on this system does (ocl-icd "
                                                 "2.3.0 and later do)");
    } else if (setup->replacement != NULL) {
        doctor_note(doctor, "%s does not support layers: kiln run puts %s before it", setup->found,
                    path);
    }
}

void doctor_report_loader(examination *doctor, const opencl_setup *setup,
                          const opencl_functions *opencl)
{
    json_t *object = must(json_object());
    const char *instead_of = setup->replacement != NULL ? setup->found : NULL;
    owned char *path = path_of(opencl);
    void *found = opencl->clGetExtensionFunctionAddress("clGetICDLoaderInfoOCLICD");
    loader_info_fn info;
    memcpy(&info, &found, sizeof info);

    bool supports_layers = path != NULL && opencl_loader_supports_layers(path);
    json_add(object, "path", json_text_or_null(path));
    add_loader_text(object, "name", info, LOADER_NAME);
    add_loader_text(object, "vendor", info, LOADER_VENDOR);
    add_loader_text(object, "version", info, LOADER_VERSION);
    add_loader_kind(object);
    json_add(object, "layers", json_boolean(supports_layers));
    json_add(object, "instead_of", json_text_or_null(instead_of));
    judge_loader(doctor, setup, path, supports_layers);
    json_add(doctor->report, "loader", object);
}
