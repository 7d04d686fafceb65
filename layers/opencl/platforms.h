/* SPDX-License-Identifier: Apache-2.0
 *
 * What the layer remembers about each platform: the driver's traits, the driver's extension
 * functions that the application has obtained, and the identities of the devices.
 */
#pragma once

#include <CL/cl_icd.h>

#include <kiln/key.h>

#include "device/opencl/traits.h"

/* The extension functions that the layer replaces with its own. */
typedef enum extension_function {
    CREATE_PROGRAM_WITH_IL,
    SET_SPECIALIZATION_CONSTANT,
    GET_GLOBAL_VARIABLE_POINTER,
    GET_FUNCTION_POINTER,
    ENQUEUE_READ_GLOBAL_VARIABLE,
    ENQUEUE_WRITE_GLOBAL_VARIABLE,
    EXTENSION_FUNCTION_COUNT
} extension_function;

typedef struct platform {
    cl_platform_id id; /* NULL: this platform is for functions that were obtained without naming a
                          platform */
    char *name;
    const kilni_opencl_traits *traits;
    /* The driver's functions; NULL: not obtained yet. A driver always returns the same address for
     * a function. Accessed with relaxed order, because no data, only code, is read through this
     * address. */
    _Atomic(void *) extensions[EXTENSION_FUNCTION_COUNT];
    /* The identified driver; NULL until identified. Guarded by the lock in platforms.c. */
    struct held_driver *driver;
    /* Set once, when the layer finds that a file of the driver has changed. From then on, builds
     * bypass the cache, since it is unknown which version of the file the driver has in memory.
     * Accessed with relaxed order, because no other data depends on it. */
    _Atomic int is_changed;
    /* Set once, when the application obtains an unknown extension function that might inspect
     * programs. If this is set in the platform with a NULL id, it applies to all platforms. From
     * then on, builds bypass the cache, and the driver builds the programs that were loaded from
     * the cache. Accessed with relaxed order: one thread sets this, and then examines all programs.
     * A thread that gives a program a loaded program reads this after it has done so. Between these
     * steps, each of the threads takes the lock of the records, so at least one of them sees what
     * the other did. */
    _Atomic int is_exposed;
} platform;

/* Each of these returns a platform, which is created at its first use. Returns NULL if memory runs
 * out or the table is full. A platform lives until the process ends. */
platform *platform_of_id(cl_platform_id id);
platform *platform_of_context(cl_context context);

/* Returns the device for which the driver really builds if the application builds for @device. */
cl_device_id platform_built_device(cl_device_id device);

/* Returns the parts of a device's identity, as a key that the caller releases. The identity of a
 * root device is computed once. The identity of a sub-device is computed for each build, since the
 * sub-device's handle can be reused for a different sub-device. The driver is identified once for
 * all devices of a platform.
 *
 * Returns KILN_OK; KILN_E_UNSUPPORTED, with the reason; KILN_E_NO_MEMORY. */
kiln_status platform_get_identity(platform *known, cl_device_id device, kiln_key **ret_identity,
                                  kiln_error *error);

/* Returns true if the application has obtained an unknown function that might inspect the
 * platform's programs. @known may be NULL. */
int platform_is_exposed(platform *known);

/* Returns true if the driver's files have not changed since the identities were made from them. A
 * driver reads some of its files when it is loaded, and others at each build. */
int platform_is_unchanged(platform *known);

/* Called before and after a fork, so that the lock is free in the child. */
void platforms_lock(void);
void platforms_unlock(void);
