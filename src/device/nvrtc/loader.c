/* SPDX-License-Identifier: Apache-2.0 */
#include "device/nvrtc/loader.h"

#include <dlfcn.h>
#include <string.h>

#include "base/error.h"

static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"};

static void *open_any(const char *path)
{
    if (path) {
        return dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    void *library = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++) {
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    }
    return library;
}

/* ISO C has no cast from an object pointer to a function pointer. */
static void find(void *library, const char *name, void *ret_function)
{
    void *address = dlsym(library, name);
    memcpy(ret_function, &address, sizeof address);
}

kiln_status kilni_nvrtc_open(const char *path, kilni_nvrtc_functions *ret_nvrtc, kiln_error *error)
{
    kilni_nvrtc_functions nvrtc = {0};
    void *library = open_any(path);
    if (!library) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "no NVRTC: %s", dlerror());
    }
#define FIND(member, type, exported) find(library, exported, (void *)&nvrtc.member);
    KILNI_NVRTC_FUNCTIONS(FIND)
#undef FIND
    dlerror(); /* not every version has all functions */
    if (!kilni_nvrtc_functions_suffice(&nvrtc)) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "%s is not NVRTC",
                               path ? path : names[0]);
    }
    *ret_nvrtc = nvrtc;
    return KILN_OK;
}
