/* SPDX-License-Identifier: Apache-2.0
 *
 * A capture request (below: a request) contains the inputs of a build. It is made if capturing the
 * result in the process that built it would be too expensive. A different process then repeats the
 * build and captures the result. A request is stored as an entry of a separate kind. The payload of
 * this entry is the canonical encoding of a key, so that the contents of the request are named and
 * verified parts.
 */
#pragma once

#include <CL/cl_icd.h>

#include <kiln/device.h>
#include <kiln/entry.h>
#include <kiln/key.h>

#include "device/floating_point.h"
#include "device/opencl/constants.h"
#include "device/opencl/identity.h"

/* The build that a request describes. All members are borrowed. */
typedef struct kilni_opencl_described_build {
    const cl_icd_dispatch *cl;
    const char *platform_name;
    cl_uint device_count;
    const cl_device_id *devices;
    const kiln_key *const *keys; /* one for each device */
    const kiln_program_source *source;
    const kilni_opencl_constants *constants;
    const kilni_opencl_environment *key_environment; /* may be NULL */
    uint64_t build_ns;
    const char *tool; /* which program requested the build; the origin of its entries */
} kilni_opencl_described_build;

/* Makes a request's key from the keys of the builds. An additional first part distinguishes the
 * request's key from the keys of builds. Returns KILN_OK; KILN_E_TOO_LARGE; KILN_E_NO_MEMORY. */
kiln_status kilni_opencl_request_key(const kiln_key *const *keys, size_t count, kiln_key **ret_key);

/* Makes the request. Returns KILN_OK; KILN_E_UNSUPPORTED: a device is a sub-device, or the working
 * directory has no name; KILN_E_TOO_LARGE; KILN_E_NO_MEMORY. Threads: any, while no thread
 * changes the environment. */
kiln_status kilni_opencl_request_new(const kilni_opencl_described_build *build,
                                     const kiln_key *request_key, kiln_entry **ret_request);

/* Returns 1 if a request still has to be served. A request without a payload is one that was given
 * up. */
int kilni_opencl_request_is_open(const kiln_entry *request);

/* Returns 1 if a request is too old to be served, or has a date that cannot be right. */
int kilni_opencl_request_has_expired(const kiln_entry *request);

/* A decoded request. */
typedef struct kilni_opencl_request_parts {
    kiln_key *parts;                        /* the parts that the members below point into */
    char *platform_name, *folder, *options; /* options may be NULL */
    kiln_program_source source;
    kilni_opencl_constants constants;
    uint64_t *devices; /* the index of each device among all devices of its platform */
    size_t device_count;
    kilni_floating_point mode; /* the mode in which the program must be built */
} kilni_opencl_request_parts;

/* @ret_parts  [out] freed by the caller, with kilni_opencl_request_parts_done
 * Returns KILN_OK; KILN_E_CORRUPT: not a request, or a request of a different version;
 * KILN_E_NO_MEMORY. */
kiln_status kilni_opencl_request_read(const kiln_entry *request,
                                      kilni_opencl_request_parts *ret_parts);
void kilni_opencl_request_parts_done(kilni_opencl_request_parts *parts);

/* Calls @add with "NAME=VALUE" for each variable that a process needs to repeat the build. These
 * are the variables that are parts of the key, and the variables that tell the loader and the
 * driver where their files are. */
kiln_status kilni_opencl_each_needed_variable(const char *platform_name,
                                              const kilni_opencl_environment *more,
                                              kiln_status (*add)(void *user, const char *setting),
                                              void *user);

/* Returns 1 if a process that repeats a build is allowed to receive this variable. */
int kilni_opencl_may_pass_variable(const char *setting);
