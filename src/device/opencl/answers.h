/* SPDX-License-Identifier: Apache-2.0
 *
 * Recorded answers: what a program made of a binary does not answer as the built one does. They are
 * taken from the built program once, stored with its entry, and given from there.
 */
#pragma once

#include <CL/cl_icd.h>

#include <kiln/entry.h>
#include <kiln/status.h>

/* Decoded answers of one program on one device. Immutable. */
typedef struct kilni_opencl_answers kilni_opencl_answers;

/* Asks a program that was built for @device. Makes its kernels for that, and releases them.
 *
 * @ret_bytes  [out] malloc'ed encoding; @ret_log [out] malloc'ed text of the build log, which is
 *             kept apart so that tools can show it; the caller frees both
 * Returns KILN_OK; KILN_E_UNSUPPORTED: the runtime did not answer; KILN_E_NO_MEMORY. */
kiln_status kilni_opencl_answers_record(const cl_icd_dispatch *cl, cl_program program,
                                        cl_device_id device, void **ret_bytes, size_t *ret_size,
                                        char **ret_log);

/* The names of a program's kernels, with ';' between them, to be freed; NULL: the runtime did not
 * answer, or no memory. */
char *kilni_opencl_kernel_names(const cl_icd_dispatch *cl, cl_program program);

/* Takes a copy of an entry's answers apart; every length is checked.
 * Returns KILN_OK; KILN_E_CORRUPT; KILN_E_NO_MEMORY. */
kiln_status kilni_opencl_answers_decode(const kiln_entry *entry,
                                        kilni_opencl_answers **ret_answers);

void kilni_opencl_answers_free(kilni_opencl_answers **answers);

/* One recorded answer: the call's own status, and its bytes where that is CL_SUCCESS. */
typedef struct kilni_opencl_answer {
    cl_int status;
    kiln_bytes value;
} kilni_opencl_answer;

/* KILN_OK; KILN_MISS: not recorded, so the driver is asked. */
kiln_status kilni_opencl_answers_attributes(const kilni_opencl_answers *answers, const char *kernel,
                                            kilni_opencl_answer *ret_answer);
kiln_status kilni_opencl_answers_argument(const kilni_opencl_answers *answers, const char *kernel,
                                          cl_uint index, cl_kernel_arg_info what,
                                          kilni_opencl_answer *ret_answer);

/* The build log, as the program gave it: with its closing zero. */
kilni_opencl_answer kilni_opencl_answers_log(const kilni_opencl_answers *answers);

/* Gives an answer by the rules of all OpenCL queries. */
cl_int kilni_opencl_reply(const void *value, size_t value_size, size_t room, void *ret_value,
                          size_t *ret_size);
