/* SPDX-License-Identifier: Apache-2.0
 *
 * Asks the driver what a program is built from, and for which devices.
 */
#pragma once

#include <CL/cl_icd.h>

#include <kiln/device.h>

#include "records.h"

/* Owns all its members except the options. Empty if all zero. */
typedef struct program_inputs {
    char *code; /* source or intermediate language */
    kiln_program_source source;
    kilni_opencl_constants constants;
} program_inputs;

/* Reads a program's source or intermediate language from the driver. The driver keeps the code, so
 * the layer needs no copy of its own.
 *
 * @options     borrowed by @ret_source; may be NULL
 * @ret_code    [out] the text that @ret_source points into; the caller frees it, also after a
 *              failure
 * @ret_source  [out]
 * Returns KILN_OK; KILN_E_UNSUPPORTED; KILN_E_NO_MEMORY. */
kiln_status program_read_code(const program_record *record, const char *options, char **ret_code,
                              kiln_program_source *ret_source);

/* Reads the code and the constants. Returns the statuses of program_read_code.
 *
 * @inputs  [out] all zero before the call; the caller frees them with program_inputs_done, also
 *          after a failure */
kiln_status program_inputs_read(program_record *record, const char *options,
                                program_inputs *inputs);
void program_inputs_done(program_inputs *inputs);

/* Copies the devices that a call names. Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status program_devices_copy(cl_uint count, const cl_device_id *devices,
                                 cl_device_id **ret_devices);

/* These functions return all devices of a program or of a context. The caller frees the array. They
 * return KILN_OK; KILN_E_UNSUPPORTED; KILN_E_NO_MEMORY. */
kiln_status program_devices_of(cl_program program, cl_device_id **ret_devices, cl_uint *ret_count);
kiln_status program_devices_of_context(cl_context context, cl_device_id **ret_devices,
                                       cl_uint *ret_count);

/* Returns 1 if all @devices are devices of the program. */
int program_has_devices(cl_program program, cl_uint count, const cl_device_id *devices);
