/* SPDX-License-Identifier: Apache-2.0 */
#include "platforms.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "../shared/session.h"
#include "base/error.h"
#include "device/opencl/binary.h"
#include "device/opencl/build_key.h"
#include "device/opencl/driver.h"
#include "os/clock.h"
#include "target.h"

#define PLATFORMS_MAX 32u
#define DEVICES_MAX 256u

typedef struct known_device {
    cl_device_id device;
    kiln_key *identity;
} known_device;

/* Guards all static data below. A thread that holds this lock must not call a driver or take
 * another lock. */
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

static platform *platform_of_device(cl_device_id device)
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

int platform_is_exposed(platform *known)
{
    const platform *unnamed = platform_of_id(NULL);
    return (known && atomic_load_explicit(&known->is_exposed, memory_order_relaxed)) ||
           (unnamed && atomic_load_explicit(&unnamed->is_exposed, memory_order_relaxed));
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
    const platform *known = platform_of_device(device);
    cl_device_id parent = NULL;
    while (known && known->traits->builds_for_roots && get_parent(device, &parent) == CL_SUCCESS &&
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

/* ---- drivers ---- */

/* An identified driver. Once a platform refers to this object, only its number of holds changes.
 * The last release frees it. */
typedef struct held_driver {
    kilni_opencl_driver driver;
    size_t holds; /* guarded by the lock */
} held_driver;

static void release_driver(held_driver *held)
{
    platforms_lock();
    const int is_last = held && --held->holds == 0;
    platforms_unlock();
    if (is_last) {
        kilni_opencl_driver_done(&held->driver);
        free(held);
    }
}

/* Returns a hold on a platform's driver; NULL if the driver has not been identified yet. */
static held_driver *hold_driver(platform *known)
{
    platforms_lock();
    held_driver *held = known->driver;
    if (held) {
        held->holds++;
    }
    platforms_unlock();
    return held;
}

/* Replaces a platform's driver with @found, if the driver is still @before. In any case, adds a
 * hold on @found for the caller. */
static void keep_driver(platform *known, const held_driver *before, held_driver *found)
{
    platforms_lock();
    held_driver *replaced = NULL;
    found->holds = 1;
    if (known->driver == before) {
        replaced = known->driver;
        known->driver = found;
        found->holds = 2;
    }
    platforms_unlock();
    if (replaced) {
        release_driver(replaced);
    }
}

static kiln_status identify_driver(const platform *known, held_driver **ret_found,
                                   kiln_error *error)
{
    held_driver *found = calloc(1, sizeof *found);
    kiln_status status =
        found ? kilni_opencl_driver_identify(known->id, known->name, &found->driver, error)
              : KILN_E_NO_MEMORY;
    if (status != KILN_OK) {
        free(found);
        return status;
    }
    *ret_found = found;
    return KILN_OK;
}

/* Returns 1 if a file has changed since the program started, because the driver might have read
 * that file before the change. */
static int may_have_been_read_before(const held_driver *found)
{
    const int64_t changed_ns = kilni_file_stamps_changed_ns(&found->driver.stamps);
    return changed_ns >= session_start_ns() && changed_ns <= kilni_file_clock_ns();
}

static kiln_status get_driver(platform *known, held_driver **ret_held, kiln_error *error)
{
    held_driver *held = hold_driver(known);
    if (!held) {
        const kiln_status status = identify_driver(known, &held, error);
        if (status != KILN_OK) {
            return status;
        }
        keep_driver(known, NULL, held);
        if (may_have_been_read_before(held)) {
            atomic_store_explicit(&known->is_changed, 1, memory_order_relaxed);
        }
    }
    if (atomic_load_explicit(&known->is_changed, memory_order_relaxed)) {
        release_driver(held);
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0,
                               "a file of the driver has changed since the program started");
    }
    *ret_held = held;
    return KILN_OK;
}

/* Returns true if the driver's files have the same content as before. Called when their times, or
 * the times of their folders, differ. This happens, for example, if a link to a file was made, or
 * something else was installed. */
static int is_the_same_driver(platform *known, held_driver *held)
{
    held_driver *found = NULL;
    if (identify_driver(known, &found, NULL) != KILN_OK) {
        return 0;
    }
    const int equal = kiln_key_equals(held->driver.parts, found->driver.parts);
    keep_driver(known, held, found);
    release_driver(found);
    return equal;
}

int platform_is_unchanged(platform *known)
{
    held_driver *held = hold_driver(known);
    if (held && !kilni_file_stamps_hold(&held->driver.stamps) && !is_the_same_driver(known, held)) {
        atomic_store_explicit(&known->is_changed, 1, memory_order_relaxed);
    }
    if (held) {
        release_driver(held);
    }
    return !atomic_load_explicit(&known->is_changed, memory_order_relaxed);
}

/* ---- identities of devices ---- */

static kiln_status make_identity(platform *known, cl_device_id device, kiln_key **ret_identity,
                                 kiln_error *error)
{
    held_driver *held = NULL;
    kiln_status status = get_driver(known, &held, error);
    if (status == KILN_OK) {
        status =
            kilni_opencl_get_identity(layer_target(), device, &held->driver, ret_identity, error);
        release_driver(held);
    }
    return status;
}

kiln_status platform_get_identity(platform *known, cl_device_id device, kiln_key **ret_identity,
                                  kiln_error *error)
{
    kiln_key *identity = find_identity(device);
    if (identity) {
        *ret_identity = identity;
        return KILN_OK;
    }
    const kiln_status status = make_identity(known, device, &identity, error);
    if (status != KILN_OK) {
        return status;
    }
    if (is_root(device)) {
        remember_identity(device, identity);
    }
    *ret_identity = identity;
    return KILN_OK;
}
