/* SPDX-License-Identifier: Apache-2.0 */
#include "duplicate_layer.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "base/text.h"

typedef cl_int(CL_API_CALL *layer_info_function)(cl_layer_info what, size_t room, void *ret_value,
                                                 size_t *ret_size);

static int is_started_copy(void *object)
{
    const layer_info_function ask = (layer_info_function)dlsym(object, "clGetLayerInfo");
    cl_uint is_started = 0;
    return ask && ask(LAYER_IS_STARTED, sizeof is_started, &is_started, NULL) == CL_SUCCESS &&
           is_started == 1;
}

/* Opens an object only if it is loaded already. */
static int names_started_copy(const char *name)
{
    void *object = dlopen(name, RTLD_NOLOAD | RTLD_LAZY);
    if (!object) {
        return 0;
    }
    const int is_copy = is_started_copy(object);
    dlclose(object);
    return is_copy;
}

/* Collects the name of an object. The main program has none, and is not a layer. */
static int collect_name(struct dl_phdr_info *info, size_t size, void *user)
{
    kilni_text *names = user;
    const char *name = info->dlpi_name ? info->dlpi_name : "";
    (void)size;
    return *name && kilni_text_append_bytes(names, name, strlen(name) + 1) != KILN_OK;
}

int duplicate_layer_is_started(void)
{
    /* Collects the names first: dl_iterate_phdr calls back under a lock that dlopen takes too. */
    kilni_text names = {0};
    int is_started = 0;
    if (dl_iterate_phdr(collect_name, &names) == 0) {
        for (const char *name = names.bytes; name && *name && !is_started;
             name += strlen(name) + 1) {
            is_started = names_started_copy(name);
        }
        dlerror(); /* most objects lack the function; this clears the error, so that the application
                      does not see it */
    }
    kilni_text_done(&names);
    return is_started;
}
