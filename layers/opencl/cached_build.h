/* SPDX-License-Identifier: Apache-2.0
 *
 * One call of clBuildProgram, clCompileProgram or clLinkProgram, and its way through the cache. The
 * key is made from all that goes in. What is found is loaded. What is not found is built by the
 * driver, and kept if it is still what the key says.
 */
#pragma once

#include <CL/cl_icd.h>

#include "device/opencl/build_key.h"
#include "device_keys.h"
#include "program/request.h"
#include "records.h"

typedef void(CL_CALLBACK *build_callback)(cl_program program, void *user_data);

typedef struct cached_build cached_build;

/* How the three calls differ. */
typedef struct build_kind {
    const char *call; /* its name */

    /* Why nothing that this call makes can be cached; NULL: it can. */
    const char *(*obstacle)(const cached_build *build);

    /* Reads what the keys are made from. NULL: there is nothing to be read. KILN_OK;
     * KILN_E_UNSUPPORTED; KILN_E_NO_MEMORY. */
    kiln_status (*read_inputs)(cached_build *build);

    /* Makes the key for a device. KILN_OK; KILN_E_UNSUPPORTED, with the reason; KILN_E_NO_MEMORY.
     */
    kiln_status (*make_key)(const cached_build *build, const kilni_opencl_site *site,
                            cl_device_id device, kiln_key **ret_key, kiln_error *error);

    /* Asks the driver as the application asked, and sets error; a link sets program too. */
    void (*ask_driver)(cached_build *build);
} build_kind;

struct cached_build {
    const build_kind *kind;
    void *inputs;           /* of the kind */
    int are_inputs_fixed;   /* they cannot change while the driver reads them */
    program_record *record; /* held; NULL: a link, which makes a program */
    cl_context context;
    platform *platform; /* may be NULL */

    /* As the application passed them. */
    cl_uint device_count;
    const cl_device_id *devices;
    const char *options;
    build_callback notify;
    void *user_data;

    device_keys keys; /* of those devices; if none were passed, of all that there are */

    twin *made; /* from what was found; NULL: the driver was asked */
    cl_program
        program; /* what the driver builds, or has linked; a link may have one and an error */
    int was_at_driver;
    unsigned generation; /* of the program that the driver builds */
    cl_int error;        /* the driver's */
    kilni_request_result result;
    kiln_status status;  /* of the request */
    int is_callback_due; /* by the layer, since the driver was not asked */
};

/* Looks the build up, and has the driver build what is not found. */
void cached_build_look_up(cached_build *build);

/* Has the driver build without looking it up.
 *
 * Returns 1 if its keys are known, and what was built is what they say. */
int cached_build_at_once(cached_build *build, const char *reason);

/* Has the driver build without a key. */
void cached_build_pass_through(cached_build *build, const char *reason);

/* 1 if the inputs are still what the keys say. They may have changed while the driver read them. */
int cached_build_has_its_keys(const cached_build *build);

/* 1 if the program was neither built nor compiled again since. */
int cached_build_is_latest(const cached_build *build);

/* The frame of a call on a program. It finds the program's record, lets one build run at a time,
 * and leaves to the driver what the driver has to refuse. It calls a callback that is due at the
 * end.
 *
 * @run  what to do with a call that is in order; not cancelled meanwhile
 * Returns the call's error. */
cl_int cached_build_of_program(cached_build *build, int is_well_formed,
                               void (*run)(cached_build *build));

/* Frees what the build holds. */
void cached_build_done(cached_build *build);
