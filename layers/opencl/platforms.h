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
    cl_platform_id id; /* NULL: for functions that were obtained without a platform */
    char *name;
    const kilni_opencl_traits *traits;
    /* The driver's functions; NULL: not obtained yet. A driver always returns the same address for
     * a function. Relaxed: nothing is read through it except code. */
    _Atomic(void *) extensions[EXTENSION_FUNCTION_COUNT];
    /* The identified driver; NULL until identified. Guarded by the lock in platforms.c. */
    struct held_driver *driver;
    /* Set once, when a file of the driver is found to have changed. Builds then pass through, since
     * it is unknown which version of the file the driver has in memory. Relaxed: nothing is read
     * through it. */
    _Atomic int is_changed;
    /* Set once, when the application obtains an unknown extension function that may inspect
     * programs; on the platform with a NULL id, this holds for all platforms. Builds then pass
     * through, and the driver builds what was loaded from the cache. Relaxed: the thread that sets
     * this examines all programs afterwards, and a thread that gives a program its loaded program
     * reads this afterwards. In between, both threads take the lock of the records, so at least one
     * of them sees what the other did. */
    _Atomic int is_exposed;
} platform;

/* Return a platform, which is created at its first use; NULL if memory runs out or the table is
 * full. A platform lives until the process ends. */
platform *platform_of_id(cl_platform_id id);
platform *platform_of_context(cl_context context);

/* Returns the device for which the driver builds when the application builds for this one. */
cl_device_id platform_built_device(cl_device_id device);

/* Returns the parts of a device's identity, as a key that the caller releases. The identity of a
 * root device is computed once. The identity of a sub-device is computed for each build, since its
 * handle may be reused for a different sub-device. The driver is identified once for all devices of
 * a platform.
 *
 * Returns KILN_OK; KILN_E_UNSUPPORTED, with the reason; KILN_E_NO_MEMORY. */
kiln_status platform_get_identity(platform *known, cl_device_id device, kiln_key **ret_identity,
                                  kiln_error *error);

/* Returns whether an unknown function may inspect the platform's programs. @known may be NULL. */
int platform_is_exposed(platform *known);

/* Returns whether the driver's files are still the files in the identities. A driver reads some of
 * them when it is loaded, and others at each build. */
int platform_is_unchanged(platform *known);

/* Called around fork, so that the child finds the lock free. */
void platforms_lock(void);
void platforms_unlock(void);
