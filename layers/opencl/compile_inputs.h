/* SPDX-License-Identifier: Apache-2.0
 *
 * What a compile is made of, copied, so that the driver can be asked for it later too.
 */
#pragma once

#include <CL/cl_icd.h>

#include <kiln/device.h>

#include "device/floating_point.h"
#include "device/opencl/includes.h"
#include "device_keys.h"
#include "records.h"
#include "working_directory.h"

typedef void(CL_CALLBACK *compile_callback)(cl_program program, void *user_data);

/* A call of clCompileProgram, as the application made it. */
typedef struct compile_arguments {
    cl_uint device_count;
    const cl_device_id *devices;
    const char *options;
    cl_uint header_count;
    const cl_program *headers;
    const char **header_names;
    compile_callback notify;
    void *user_data;
} compile_arguments;

/* All of it is owned. Zeroed, it is empty. */
typedef struct compile_inputs {
    char *options;     /* NULL where the call had none */
    int names_devices; /* the call did; else they are all of the program's */
    cl_uint device_count;
    cl_device_id *devices;
    cl_uint header_count;
    char **header_names;
    char **header_codes;
    kiln_bytes *headers; /* the same codes, with their sizes */
    char *code;          /* the program's own */
    kiln_program_source source;
    kilni_floating_point mode;   /* of the call, in which it is to be compiled */
    working_directory directory; /* where it is to be compiled; none: anywhere */
} compile_inputs;

/* Copies what a call on a program names, but for the working directory.
 *
 * @inputs  [out] to be freed with compile_inputs_done, also after a failure
 * Returns KILN_OK; KILN_E_UNSUPPORTED: an embedded header whose text can't be told;
 * KILN_E_NO_MEMORY. */
kiln_status compile_inputs_copy(const program_record *record, const compile_arguments *arguments,
                                compile_inputs *inputs);
void compile_inputs_done(compile_inputs *inputs);

/* The keys of the compile as of now, one for each device.
 *
 * @ret_files  [out] may be NULL; what is known of the files that it includes
 * Returns KILN_OK; KILN_E_UNSUPPORTED, with the reason; KILN_E_NO_MEMORY. */
kiln_status compile_inputs_make_keys(const compile_inputs *inputs, program_record *record,
                                     device_keys *ret_keys, kilni_opencl_files *ret_files,
                                     kiln_error *error);

/* 1 where those are still the keys. Included files may have changed while the driver read them:
 * then what was compiled is not what they say. */
int compile_inputs_have_keys(const compile_inputs *inputs, program_record *record,
                             const device_keys *keys);

/* Has the driver compile them now. Programs made of the headers' texts stand in for those that the
 * call named, which may be gone. */
cl_int compile_inputs_compile(const compile_inputs *inputs, const program_record *record);
