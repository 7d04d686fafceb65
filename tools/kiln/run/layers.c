/* SPDX-License-Identifier: Apache-2.0 */
#include "layers.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../opencl/layer_variables.h"
#include "../opencl/opencl_loader.h"
#include "../opencl/replaced_loader.h"
#include "../text/exit_code.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "privileges.h"

/* Bytes of thread-local memory for the libraries that a program starts with. Each thread's stack
 * contains this memory, so a much larger value would not fit into small stacks. */
#define THREAD_LOCAL_BYTES 8192

/* Makes the layer start this same tool if captures must be made outside the program. */
static void set_tool(void)
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length > 0) {
        path[length] = '\0';
        must_succeed(setenv("KILN_TOOL", path, 0));
    }
}

/* Adds a library to a list in a variable. */
static void add_to_list(const char *variable, const char *path)
{
    owned char *list = layer_list_with(path, getenv(variable));
    must_succeed(setenv(variable, list, 1));
}

/* With an audit library, the loader lays out thread-local memory before it knows the program's
 * libraries. These libraries can use only the memory that the loader has reserved. By default, this
 * is too little for some allocators. */
static void set_thread_local_memory(void)
{
    static const char tunable[] = "glibc.rtld.optional_static_tls=";
    const char *others = getenv("GLIBC_TUNABLES");
    if (others != NULL && strstr(others, tunable) != NULL) {
        return;
    }
    bool any = others != NULL && others[0] != '\0';
    owned char *tunables =
        text_of("%s%s%s%d", any ? others : "", any ? ":" : "", tunable, THREAD_LOCAL_BYTES);
    must_succeed(setenv("GLIBC_TUNABLES", tunables, 1));
}

/* If the program's loader does not support layers and the system has a loader that does, makes the
 * program find that loader first. */
static void set_opencl_loader(void)
{
    owned char *found = opencl_loader_found();
    if (found != NULL && !opencl_loader_supports_layers(found)) {
        owned char *replacement = opencl_loader_replacement(found);
        owned char *why = replacement != NULL
                              ? loader_environment_set(replacement, found)
                              : must(strdup("and no other loader on this system does"));
        if (why != NULL) {
            complain("%s does not support layers, %s: no OpenCL build is cached", found, why);
        }
    }
}

/* The next two functions end the tool if there is no usable layer. */
static void set_opencl_layer(void)
{
    owned char *path = NULL;
    owned char *why = layer_find(&path);
    if (why != NULL) {
        complain("no OpenCL layer: %s", why);
        end_tool(EXIT_CONFIGURATION);
    }
    set_tool();
    set_opencl_loader();
    add_to_list("OPENCL_LAYERS", path);
}

/* Returns whether the audit library is set. */
static bool set_nvrtc_layer(void)
{
    owned char *path = NULL;
    owned char *why = nvrtc_audit_find(&path);
    if (why != NULL) {
        complain("no NVRTC layer: %s", why);
        end_tool(EXIT_CONFIGURATION);
    }
    if (path != NULL) {
        add_to_list("LD_AUDIT", path);
        set_thread_local_memory();
    }
    return path != NULL;
}

/* Python executes the sitecustomize that it finds first in PYTHONPATH. */
void layers_insert_python(const char *program)
{
    owned char *folder = NULL;
    owned char *why = python_folder_find(&folder);
    if (why != NULL) {
        complain("nothing is cached for frameworks for Python: %s", why);
    } else if (folder != NULL && !program_gains_privileges(program)) {
        add_to_list("PYTHONPATH", folder);
    }
}

bool layers_insert(bool with_nvrtc)
{
    set_opencl_layer();
    return with_nvrtc && set_nvrtc_layer();
}
