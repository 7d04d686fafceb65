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

/* Returns 1 if the object with this name is a copy of the layer that has started. Opens the object
 * only if it is already loaded. */
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

/* Collects the name of an object. The main program has no name; it is not a layer anyway. */
static int collect_name(struct dl_phdr_info *info, size_t size, void *user)
{
    kilni_text *names = user;
    const char *name = info->dlpi_name ? info->dlpi_name : "";
    (void)size;
    return *name && kilni_text_append_bytes(names, name, strlen(name) + 1) != KILN_OK;
}

int duplicate_layer_is_started(void)
{
    /* Collects all names before it opens any object, because dl_iterate_phdr calls collect_name
     * with a lock held that dlopen takes too. */
    kilni_text names = {0};
    int is_started = 0;
    if (dl_iterate_phdr(collect_name, &names) == 0) {
        for (const char *name = names.bytes; name && *name && !is_started;
             name += strlen(name) + 1) {
            is_started = names_started_copy(name);
        }
        dlerror(); /* clears the error of dlsym, which fails for most objects; the application must
                      not see this error */
    }
    kilni_text_done(&names);
    return is_started;
}
