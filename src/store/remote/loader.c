/* SPDX-License-Identifier: Apache-2.0 */
#include "store/remote/loader.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

#define LIBRARY "libkiln_remote.so"

/* The path that tests set before any load. NULL: tests have set no path. */
static const char *library_of_tests;

/* NULL until the library is open. The store (release) in open_library pairs with the load (acquire)
 * in the same function. So a thread that sees the library also sees everything that was done to
 * open it. If two threads open the library at the same time, both get the same one. */
static _Atomic(void *) library;

void kilni_remote_set_library(const char *path)
{
    library_of_tests = path;
}

/* Finds the path of libkiln_remote. Looks in the folder of the file that contains this code, and in
 * a subfolder of that folder. */
static bool find(char path[PATH_MAX])
{
    static const char *const places[] = {LIBRARY, "kiln/" LIBRARY};
    Dl_info self;
    char folder[PATH_MAX];
    if (library_of_tests) {
        return snprintf(path, PATH_MAX, "%s", library_of_tests) < PATH_MAX;
    }
    if (!dladdr(&library, &self) || !self.dli_fname || !realpath(self.dli_fname, folder)) {
        return false;
    }
    char *slash = strrchr(folder, '/');
    slash[1] = '\0';
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const int length = snprintf(path, PATH_MAX, "%s%s", folder, places[i]);
        if (length < PATH_MAX && access(path, R_OK) == 0) {
            return true;
        }
    }
    return false;
}

static kiln_status open_library(void **ret_library, kiln_error *error)
{
    char path[PATH_MAX];
    void *opened = atomic_load_explicit(&library, memory_order_acquire);
    if (!opened) {
        if (!find(path)) {
            return kilni_error_set(error, KILN_E_UNSUPPORTED, 0,
                                   LIBRARY ", which stores on servers need, is not installed");
        }
        opened = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (!opened) {
            return kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "%s", dlerror());
        }
        atomic_store_explicit(&library, opened, memory_order_release);
    }
    *ret_library = opened;
    return KILN_OK;
}

kiln_status kilni_remote_load(const char *symbol, const kilni_connector **ret_connector,
                              kiln_error *error)
{
    void *opened;
    const kiln_status status = open_library(&opened, error);
    if (status != KILN_OK) {
        return status;
    }
    const kilni_connector *found = dlsym(opened, symbol);
    if (!found || found->version != KILNI_CONNECTOR_VERSION) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0,
                               LIBRARY " is of a different version of Kiln");
    }
    *ret_connector = found;
    return KILN_OK;
}
