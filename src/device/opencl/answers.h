/* SPDX-License-Identifier: Apache-2.0
 *
 * Recorded answers to queries. A program that is made from a binary would answer these queries
 * differently from the program that was built. So Kiln records the answers of the built program
 * once, stores them in the program's entry, and later returns the recorded answers.
 */
#pragma once

#include <CL/cl_icd.h>

#include <kiln/entry.h>
#include <kiln/status.h>

/* Decoded answers of one program on one device. Immutable. */
typedef struct kilni_opencl_answers kilni_opencl_answers;

/* Records the answers of a program that was built for @device. To do so, creates the program's
 * kernels and releases them again.
 *
 * @ret_bytes  [out] malloc'ed encoding
 * @ret_log    [out] malloc'ed text of the build log, which is separate so that tools can show it
 * The caller frees both. Returns KILN_OK; KILN_E_UNSUPPORTED: the runtime did not answer;
 * KILN_E_NO_MEMORY. */
kiln_status kilni_opencl_answers_record(const cl_icd_dispatch *cl, cl_program program,
                                        cl_device_id device, void **ret_bytes, size_t *ret_size,
                                        char **ret_log);

/* Returns the names of a program's kernels, separated by ';'. The caller frees the text. Returns ""
 * or NULL if the runtime did not answer, and NULL if memory ran out. */
char *kilni_opencl_kernel_names(const cl_icd_dispatch *cl, cl_program program);

/* Copies and decodes encoded answers and the log. Checks every length. Returns KILN_OK;
 * KILN_E_CORRUPT; KILN_E_NO_MEMORY. */
kiln_status kilni_opencl_answers_decode(kiln_bytes encoded, kiln_bytes log,
                                        kilni_opencl_answers **ret_answers);

void kilni_opencl_answers_free(kilni_opencl_answers **answers);

/* One recorded answer: the status of the call, and the value if the status is CL_SUCCESS. */
typedef struct kilni_opencl_answer {
    cl_int status;
    kiln_bytes value;
} kilni_opencl_answer;

/* Return KILN_OK; KILN_MISS: the answer is not recorded, so the caller must ask the driver. */
kiln_status kilni_opencl_answers_attributes(const kilni_opencl_answers *answers, const char *kernel,
                                            kilni_opencl_answer *ret_answer);
kiln_status kilni_opencl_answers_argument(const kilni_opencl_answers *answers, const char *kernel,
                                          cl_uint index, cl_kernel_arg_info what,
                                          kilni_opencl_answer *ret_answer);

/* Returns the build log as the program returned it, with its terminating zero. */
kilni_opencl_answer kilni_opencl_answers_log(const kilni_opencl_answers *answers);

/* Copies a value and its size to the output arguments of a query, by the rules that all OpenCL
 * queries share. */
cl_int kilni_opencl_return_info(const void *value, size_t value_size, size_t room, void *ret_value,
                                size_t *ret_size);
