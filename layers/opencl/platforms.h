/* SPDX-License-Identifier: Apache-2.0
 *
 * What the layer remembers of each platform: its driver's traits, the extension functions that it
 * gave out, and what its devices are.
 */
#pragma once

#include <CL/cl_icd.h>

#include <kiln/key.h>

#include "device/opencl/traits.h"

/* The driver's own functions behind the ones that the layer hands out instead. NULL: not asked
 * for yet. */
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
    cl_platform_id id; /* NULL: functions got without naming a platform */
    char *name;
    const kilni_opencl_traits *traits;
    /* Always the same value for the same function; relaxed, since nothing is read through it but
     * code. */
    _Atomic(void *) extensions[EXTENSION_FUNCTION_COUNT];
    /* What the driver is, once that was asked; guarded by the lock in platforms.c. */
    struct held_driver *driver;
    /* Set once, when a file of the driver's was found to have changed: what it has of them in
     * memory is told by none. Then builds pass through. Relaxed: nothing is read by it. */
    _Atomic int is_changed;
    /* Set once by an unknown extension function that could see programs; of the platform that is
     * nobody's, for all platforms. Then builds pass through, and what was found is built by the
     * driver after all. Relaxed: whoever sets it looks at all programs afterwards, and whoever
     * gives a program its twin looks at this afterwards, both under the lock of the records in
     * between; so one of the two sees what the other did. */
    _Atomic int is_seen_through;
} platform;

/* Makes it on first use; NULL where there is no memory or the table is full. Lives for ever. */
platform *platform_of_id(cl_platform_id id);
platform *platform_of_device(cl_device_id device);
platform *platform_of_context(cl_context context);

/* The device for which programs are built that the application builds for this one. */
cl_device_id platform_built_device(cl_device_id device);

/* The parts of a device's identity as a key: computed once for a root device, anew for each build
 * on a sub-device, since its handle may be used again for another; but what the driver is made of
 * is found once for all devices of a platform. One reference.
 * KILN_OK; KILN_E_UNSUPPORTED, with the reason; KILN_E_NO_MEMORY. */
kiln_status platform_get_identity(platform *of, cl_device_id device, kiln_key **ret_identity,
                                  kiln_error *error);

/* Whether an unknown function could see its programs. @of may be NULL. */
int platform_is_seen_through(platform *of);

/* Whether the driver's files are still those of which the identities tell. A driver reads some of
 * them when it is loaded, others at each build. */
int platform_is_as_identified(platform *of);

/* Around fork, so that the child finds no lock taken. */
void platforms_lock(void);
void platforms_unlock(void);
