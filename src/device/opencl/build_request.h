/* SPDX-License-Identifier: Apache-2.0
 *
 * A request: the inputs of a build whose result is too dear to capture in the process that built.
 * Another process repeats the build and captures then. At rest it is an entry of its own kind; its
 * payload has the canonical encoding of a key, so that what it holds is named and checked parts.
 */
#pragma once

#include <CL/cl_icd.h>

#include <kiln/device.h>
#include <kiln/entry.h>
#include <kiln/key.h>

#include "device/floating_point.h"
#include "device/opencl/constants.h"
#include "device/opencl/identity.h"

/* What was built. Borrowed. */
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
} kilni_opencl_described_build;

/* A request's key: that of the builds, with a part in front by which it can't be taken for one.
 * Returns KILN_OK; KILN_E_TOO_LARGE; KILN_E_NO_MEMORY. */
kiln_status kilni_opencl_request_key(const kiln_key *const *keys, size_t count, kiln_key **ret_key);

/* Makes the request. Returns KILN_OK; KILN_E_UNSUPPORTED: on sub-devices, or in a working directory
 * without a name; KILN_E_TOO_LARGE; KILN_E_NO_MEMORY. Threads: any that may read the environment.
 */
kiln_status kilni_opencl_request_new(const kilni_opencl_described_build *build,
                                     const kiln_key *request_key, kiln_entry **ret_request);

/* Whether a request waits to be served; one without a payload was given up. */
int kilni_opencl_request_is_open(const kiln_entry *request);

/* Whether a request is too old to be looked at, or its date can't be right. */
int kilni_opencl_request_has_expired(const kiln_entry *request);

/* A request taken apart. */
typedef struct kilni_opencl_request_parts {
    kiln_key *parts;                        /* what the rest points into */
    char *platform_name, *folder, *options; /* options may be NULL */
    kiln_program_source source;
    kilni_opencl_constants constants;
    uint64_t *devices; /* the place of each among all devices of its platform */
    size_t device_count;
    kilni_floating_point mode; /* in which it is to be built */
} kilni_opencl_request_parts;

/* @ret_parts  [out] to be freed with kilni_opencl_request_parts_done
 * Returns KILN_OK; KILN_E_CORRUPT: no request, or one of another version; KILN_E_NO_MEMORY. */
kiln_status kilni_opencl_request_read(const kiln_entry *request,
                                      kilni_opencl_request_parts *ret_parts);
void kilni_opencl_request_parts_done(kilni_opencl_request_parts *parts);

/* Variables that a process needs to come to the same build: those that are a part of the key, and
 * those by which loader and driver find their files. Calls @add for each "NAME=VALUE". */
kiln_status kilni_opencl_each_needed_variable(const char *platform_name,
                                              const kilni_opencl_environment *more,
                                              kiln_status (*add)(void *user, const char *setting),
                                              void *user);

/* Whether a process that repeats a build may be given this variable. */
int kilni_opencl_may_be_repeated(const char *setting);
