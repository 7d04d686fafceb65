/* SPDX-License-Identifier: Apache-2.0
 *
 * One call of clBuildProgram, clCompileProgram or clLinkProgram. For each device, the layer makes a
 * key from all inputs. If the store has the entries of a build or a link, the layer loads them.
 * Otherwise the driver builds or links, and the layer stores the result if the inputs have not
 * changed since the keys were made. A compile always goes to the driver, and the layer remembers
 * only its keys.
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

    /* Reads what the keys are made from. This pointer is NULL if there is nothing to read. Returns
     * KILN_OK; KILN_E_UNSUPPORTED; KILN_E_NO_MEMORY. */
    kiln_status (*read_inputs)(cached_build *build);

    /* Makes the key for a device, and sets texts. Returns KILN_OK; KILN_E_UNSUPPORTED, with the
     * reason; KILN_E_NO_MEMORY. */
    kiln_status (*make_key)(cached_build *build, const kilni_opencl_site *site, cl_device_id device,
                            kiln_key **ret_key, kiln_error *error);

    /* Passes the application's call to the driver unchanged, and sets error. For a link, also sets
     * program. */
    void (*ask_driver)(cached_build *build);
} build_kind;

struct cached_build {
    const build_kind *kind;
    void *inputs;       /* what the kind's read_inputs has read */
    int may_key_change; /* the key can change while the driver builds, even if the build reads no
                           files */
    kilni_opencl_texts texts;
    kilni_opencl_watched_build watched; /* used if the build can read files */
    const char *why_not_kept;           /* static text; NULL: the result can be kept */
    program_record *record;             /* held; NULL for a link, which makes a new program */
    cl_context context;
    platform *platform; /* may be NULL */

    /* The devices as the application passed them. */
    cl_uint device_count;
    const cl_device_id *devices;
    const char *options;
    build_callback notify;
    void *user_data;

    device_keys keys; /* one for each device above, or for all devices of the program or context */

    loaded_program *made; /* the program loaded from the cache; NULL if the driver was asked */
    cl_program program;   /* what the driver builds or has linked; a link can return both a program
                             and an error */
    int was_at_driver;
    unsigned generation; /* the program's generation when the driver was asked */
    cl_int error;        /* what the driver returned */
    kilni_request_result result;
    kiln_status status;  /* the status of the request */
    int is_callback_due; /* the layer must call the application's callback, since the driver was not
                            asked */
};

/* Looks up the build in the cache. If it is not found, makes the driver build. */
void cached_build_look_up(cached_build *build);

/* Makes the driver build without a look-up, and counts this as a build that passed through.
 *
 * Returns 1 if the build succeeded, the keys are known, and the inputs have not changed since the
 * keys were made. */
int cached_build_without_lookup(cached_build *build, const char *reason);

/* Makes the driver build without making keys, and counts this as a build that passed through. */
void cached_build_pass_through(cached_build *build, const char *reason);

/* Returns 1 if the keys describe the result: none of their inputs changed while the driver built,
 * and it is known which files the build has read. */
int cached_build_has_its_keys(cached_build *build);

/* Returns 1 if the program has been neither built nor compiled again since the driver was asked. */
int cached_build_is_latest(const cached_build *build);

/* Runs a call on a program. Finds the program's record, lets only one build of the program run at a
 * time, and lets the driver refuse invalid calls. At the end, calls the application's callback if
 * the driver does not call it.
 *
 * @run  handles a valid call; runs with cancellation disabled
 * Returns the error code for the application. */
cl_int cached_build_of_program(cached_build *build, int is_well_formed,
                               void (*run)(cached_build *build));

/* Frees what the build holds. */
void cached_build_done(cached_build *build);
