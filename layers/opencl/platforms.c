/* SPDX-License-Identifier: Apache-2.0 */
#include "platforms.h"

#include <pthread.h>
#include <stdlib.h>

#include "device/opencl/binary.h"
#include "device/opencl/build_key.h"
#include "layer.h"

#define PLATFORMS_MAX 32u
#define DEVICES_MAX 256u

typedef struct known_device {
    cl_device_id device;
    kiln_key *identity;
} known_device;

/* Guards all below. Nothing is called while it is held but allocation. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static platform *platforms[PLATFORMS_MAX];
static size_t platform_count;
static known_device devices[DEVICES_MAX];
static size_t device_count;

void platforms_lock(void)
{
    pthread_mutex_lock(&lock);
}

void platforms_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

static platform *find_platform(cl_platform_id id)
{
    for (size_t i = 0; i < platform_count; i++) {
        if (platforms[i]->id == id) {
            return platforms[i];
        }
    }
    return NULL;
}

static platform *make_platform(cl_platform_id id)
{
    platform *made = calloc(1, sizeof *made);
    if (!made) {
        return NULL;
    }
    made->id = id;
    made->name = id ? kilni_opencl_platform_string(layer_target(), id, CL_PLATFORM_NAME) : NULL;
    made->traits = kilni_opencl_traits_of(made->name);
    return made;
}

platform *platform_of_id(cl_platform_id id)
{
    platforms_lock();
    platform *known = find_platform(id);
    platforms_unlock();
    if (known) {
        return known;
    }

    platform *made = make_platform(id);
    platforms_lock();
    known = find_platform(id);
    if (!known && made && platform_count < PLATFORMS_MAX) {
        platforms[platform_count++] = made;
        known = made;
        made = NULL;
    }
    platforms_unlock();
    if (made) {
        free(made->name);
        free(made);
    }
    return known;
}

platform *platform_of_device(cl_device_id device)
{
    cl_platform_id id = NULL;
    if (layer_target()->clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof id, &id, NULL) !=
        CL_SUCCESS) {
        return NULL;
    }
    return platform_of_id(id);
}

platform *platform_of_context(cl_context context)
{
    const cl_icd_dispatch *cl = layer_target();
    size_t size = 0;
    if (cl->clGetContextInfo(context, CL_CONTEXT_DEVICES, 0, NULL, &size) != CL_SUCCESS ||
        size < sizeof(cl_device_id)) {
        return NULL;
    }
    cl_device_id *of_context = malloc(size);
    platform *found = NULL;
    if (of_context &&
        cl->clGetContextInfo(context, CL_CONTEXT_DEVICES, size, of_context, NULL) == CL_SUCCESS) {
        found = platform_of_device(of_context[0]);
    }
    free(of_context);
    return found;
}

/* ---- identities ---- */

static kiln_key *find_identity(cl_device_id device)
{
    kiln_key *found = NULL;
    platforms_lock();
    for (size_t i = 0; i < device_count && !found; i++) {
        if (devices[i].device == device) {
            found = kiln_key_retain(devices[i].identity);
        }
    }
    platforms_unlock();
    return found;
}

static cl_int get_parent(cl_device_id device, cl_device_id *ret_parent)
{
    return layer_target()->clGetDeviceInfo(device, CL_DEVICE_PARENT_DEVICE, sizeof *ret_parent,
                                           ret_parent, NULL);
}

static int is_root(cl_device_id device)
{
    cl_device_id parent = NULL;
    return get_parent(device, &parent) == CL_SUCCESS && !parent;
}

cl_device_id platform_built_device(cl_device_id device)
{
    const platform *of = platform_of_device(device);
    cl_device_id parent = NULL;
    while (of && of->traits->builds_for_roots && get_parent(device, &parent) == CL_SUCCESS &&
           parent) {
        device = parent;
    }
    return device;
}

static void remember_identity(cl_device_id device, const kiln_key *identity)
{
    platforms_lock();
    int known = 0;
    for (size_t i = 0; i < device_count; i++) {
        known |= devices[i].device == device;
    }
    if (!known && device_count < DEVICES_MAX) {
        devices[device_count++] = (known_device){device, kiln_key_retain(identity)};
    }
    platforms_unlock();
}

kiln_status platform_get_identity(cl_device_id device, kiln_key **ret_identity, kiln_error *error)
{
    kiln_key *identity = find_identity(device);
    if (identity) {
        *ret_identity = identity;
        return KILN_OK;
    }
    const kiln_status status = kilni_opencl_get_identity(layer_target(), device, &identity, error);
    if (status != KILN_OK) {
        return status;
    }
    if (is_root(device)) {
        remember_identity(device, identity);
    }
    *ret_identity = identity;
    return KILN_OK;
}
