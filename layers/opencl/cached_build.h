/* SPDX-License-Identifier: Apache-2.0
 *
 * One call of clBuildProgram, clCompileProgram or clLinkProgram. The layer makes a key for each
 * device from all inputs. A build or a link is loaded if the store has its entries; otherwise the
 * driver makes it, and the layer stores the result if the inputs are still those of the keys. A
 * compile always goes to the driver, and the layer remembers only its keys.
 */
#pragma once

#include <CL/cl_icd.h>

#include "device/opencl/build_key.h"
#include "device/opencl/watched_build.h"
#include "device_keys.h"
#include "program/request.h"
#include "records.h"

typedef void(CL_CALLBACK *build_callback)(cl_program program, void *user_data);

typedef struct cached_build cached_build;

/* The differences between the three calls. */
typedef struct build_kind {
    const char *call; /* its name */

    /* Returns why the result of this call cannot be cached; NULL if it can. */
    const char *(*obstacle)(const cached_build *build);

    /* Reads what the keys are made from; NULL if there is nothing to read. Returns KILN_OK;
     * KILN_E_UNSUPPORTED; KILN_E_NO_MEMORY. */
    kiln_status (*read_inputs)(cached_build *build);

    /* Makes the key for a device, and sets texts. Returns KILN_OK; KILN_E_UNSUPPORTED, with the
     * reason; KILN_E_NO_MEMORY. */
    kiln_status (*make_key)(cached_build *build, const kilni_opencl_site *site, cl_device_id device,
                            kiln_key **ret_key, kiln_error *error);

    /* Passes the call to the driver as the application made it, and sets error; a link also sets
     * program. */
    void (*ask_driver)(cached_build *build);
} build_kind;

struct cached_build {
    const build_kind *kind;
    void *inputs;       /* what the function for this kind of call has read */
    int may_key_change; /* the key may change while the driver builds, even if the build reads no
                           files */
    kilni_opencl_texts texts;
    kilni_opencl_watched_build watched; /* if the build may read files */
    const char *why_not_kept;           /* static text; NULL: the result can be kept */
    program_record *record;             /* held; NULL for a link, which makes a new program */
    cl_context context;
    platform *platform; /* may be NULL */

    /* As the application passed them. */
    cl_uint device_count;
    const cl_device_id *devices;
    const char *options;
    build_callback notify;
    void *user_data;

    device_keys
        keys; /* for those devices; for all devices of the program or context if none were passed */

    loaded_program *made; /* the program loaded from the cache; NULL if the driver was asked */
    cl_program program;   /* what the driver builds or has linked; a link may return both a program
                             and an error */
    int was_at_driver;
    unsigned generation; /* the program's generation when the driver was asked */
    cl_int error;        /* what the driver returned */
    kilni_request_result result;
    kiln_status status;  /* of the request */
    int is_callback_due; /* the layer must call the application's callback, since the driver was not
                            asked */
};

/* Looks the build up, and makes the driver build what is not found. */
void cached_build_look_up(cached_build *build);

/* Makes the driver build without a look-up. Counts as a build that passed through.
 *
 * Returns 1 if the build succeeded, the keys are known, and the inputs are still those of the
 * keys. */
int cached_build_without_lookup(cached_build *build, const char *reason);

/* Makes the driver build without a key. */
void cached_build_pass_through(cached_build *build, const char *reason);

/* Returns 1 if the keys describe the result: none of their inputs changed while the driver built,
 * and the files that the build read are known. */
int cached_build_has_its_keys(cached_build *build);

/* Returns 1 if the program has been neither built nor compiled again since the driver was asked. */
int cached_build_is_latest(const cached_build *build);

/* Runs a call on a program. Finds the program's record, lets one build run at a time, and lets the
 * driver refuse what it must refuse. At the end, calls the application's callback if the driver
 * does not.
 *
 * @run  handles a valid call; runs with cancellation disabled
 * Returns the error code for the application. */
cl_int cached_build_of_program(cached_build *build, int is_well_formed,
                               void (*run)(cached_build *build));

/* Frees what the build holds. */
void cached_build_done(cached_build *build);
