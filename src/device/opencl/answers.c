/* SPDX-License-Identifier: Apache-2.0
 *
 * The encoding is little-endian. It begins with the version, u32, and the count of kernels, u32.
 * For each kernel it contains: the kernel's name; the answer with its attributes; the count of its
 * arguments, u32; the status of a query for an argument beyond the last, u32; the status of an
 * unknown query, u32; and for each argument five answers in the order of argument_queries. A text
 * is encoded as its length, u32, and its bytes. An answer is encoded as its status, u32, and its
 * value as a text.
 */
#include "device/opencl/answers.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/text.h"

#define ANSWERS_VERSION 1u

static const cl_kernel_arg_info argument_queries[] = {
    CL_KERNEL_ARG_ADDRESS_QUALIFIER,
    CL_KERNEL_ARG_ACCESS_QUALIFIER,
    CL_KERNEL_ARG_TYPE_NAME,
    CL_KERNEL_ARG_TYPE_QUALIFIER,
    CL_KERNEL_ARG_NAME,
};
#define ARGUMENT_QUERY_COUNT (sizeof argument_queries / sizeof argument_queries[0])

/* Not a query in any version of OpenCL. */
#define UNKNOWN_QUERY 0x7FFFFFFFu

/* ---- recording ---- */

static kiln_status append_u32(kilni_text *text, uint32_t value)
{
    const unsigned char bytes[4] = {(unsigned char)value, (unsigned char)(value >> 8),
                                    (unsigned char)(value >> 16), (unsigned char)(value >> 24)};
    return kilni_text_append_bytes(text, bytes, sizeof bytes);
}

static kiln_status append_sized(kilni_text *text, const void *bytes, size_t size)
{
    if (size > UINT32_MAX) {
        return KILN_E_UNSUPPORTED;
    }
    const kiln_status status = append_u32(text, (uint32_t)size);
    return status == KILN_OK ? kilni_text_append_bytes(text, bytes, size) : status;
}

static kiln_status append_answer(kilni_text *text, cl_int answer, const void *value, size_t size)
{
    const kiln_status status = append_u32(text, (uint32_t)answer);
    return status == KILN_OK ? append_sized(text, value, answer == CL_SUCCESS ? size : 0) : status;
}

static kiln_status record_attributes(const cl_icd_dispatch *cl, cl_kernel kernel, kilni_text *text)
{
    size_t size = 0;
    cl_int answer = cl->clGetKernelInfo(kernel, CL_KERNEL_ATTRIBUTES, 0, NULL, &size);
    char *value = calloc(1, size + 1);
    if (!value) {
        return KILN_E_NO_MEMORY;
    }
    if (answer == CL_SUCCESS) {
        answer = cl->clGetKernelInfo(kernel, CL_KERNEL_ATTRIBUTES, size, value, NULL);
    }
    const kiln_status status = append_answer(text, answer, value, size);
    free(value);
    return status;
}

static kiln_status record_argument(const cl_icd_dispatch *cl, cl_kernel kernel, cl_uint index,
                                   cl_kernel_arg_info what, kilni_text *text)
{
    size_t size = 0;
    cl_int answer = cl->clGetKernelArgInfo(kernel, index, what, 0, NULL, &size);
    char *value = calloc(1, size + 1);
    if (!value) {
        return KILN_E_NO_MEMORY;
    }
    if (answer == CL_SUCCESS) {
        answer = cl->clGetKernelArgInfo(kernel, index, what, size, value, NULL);
    }
    const kiln_status status = append_answer(text, answer, value, size);
    free(value);
    return status;
}

/* Records how the runtime refuses invalid queries. The refusals show whether the program has
 * argument information. */
static kiln_status record_refusals(const cl_icd_dispatch *cl, cl_kernel kernel, cl_uint arguments,
                                   kilni_text *text)
{
    size_t size = 0;
    const cl_int beyond =
        cl->clGetKernelArgInfo(kernel, arguments, argument_queries[0], 0, NULL, &size);
    const cl_int unknown = cl->clGetKernelArgInfo(kernel, 0, UNKNOWN_QUERY, 0, NULL, &size);
    const kiln_status status = append_u32(text, (uint32_t)beyond);
    return status == KILN_OK ? append_u32(text, (uint32_t)unknown) : status;
}

static kiln_status record_name(const cl_icd_dispatch *cl, cl_kernel kernel, kilni_text *text)
{
    size_t size = 0;
    if (cl->clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, 0, NULL, &size) != CL_SUCCESS ||
        size == 0) {
        return KILN_E_UNSUPPORTED;
    }
    char *name = calloc(1, size);
    if (!name) {
        return KILN_E_NO_MEMORY;
    }
    kiln_status status = KILN_E_UNSUPPORTED;
    if (cl->clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, size, name, NULL) == CL_SUCCESS) {
        status = append_sized(text, name, strnlen(name, size));
    }
    free(name);
    return status;
}

static kiln_status record_kernel(const cl_icd_dispatch *cl, cl_kernel kernel, kilni_text *text)
{
    cl_uint arguments = 0;
    if (cl->clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof arguments, &arguments, NULL) !=
        CL_SUCCESS) {
        return KILN_E_UNSUPPORTED;
    }
    kiln_status status = record_name(cl, kernel, text);
    if (status == KILN_OK) {
        status = record_attributes(cl, kernel, text);
    }
    if (status == KILN_OK) {
        status = append_u32(text, arguments);
    }
    if (status == KILN_OK) {
        status = record_refusals(cl, kernel, arguments, text);
    }
    for (cl_uint i = 0; status == KILN_OK && i < arguments; i++) {
        for (size_t q = 0; status == KILN_OK && q < ARGUMENT_QUERY_COUNT; q++) {
            status = record_argument(cl, kernel, i, argument_queries[q], text);
        }
    }
    return status;
}

char *kilni_opencl_kernel_names(const cl_icd_dispatch *cl, cl_program program)
{
    size_t size = 0;
    if (cl->clGetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, 0, NULL, &size) != CL_SUCCESS) {
        return NULL;
    }
    char *names = calloc(1, size + 1);
    if (names &&
        cl->clGetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, size, names, NULL) != CL_SUCCESS) {
        names[0] = '\0';
    }
    return names;
}

/* Creates each kernel by its name. This is needed because Intel's runtime creates all kernels in
 * one call only if the program was built for all of its devices. Returns how many of the @count
 * kernels were created. */
static size_t create_by_name(const cl_icd_dispatch *cl, cl_program program, cl_kernel *ret_kernels,
                             size_t count)
{
    char *names = kilni_opencl_kernel_names(cl, program);
    size_t made = 0;
    char *rest = NULL;
    for (char *name = names ? strtok_r(names, ";", &rest) : NULL; name && made < count;
         name = strtok_r(NULL, ";", &rest)) {
        ret_kernels[made] = cl->clCreateKernel(program, name, NULL);
        if (!ret_kernels[made]) {
            break;
        }
        made++;
    }
    free(names);
    return made;
}

static size_t create_kernels(const cl_icd_dispatch *cl, cl_program program, cl_kernel *ret_kernels,
                             size_t count)
{
    cl_uint made = 0;
    return cl->clCreateKernelsInProgram(program, (cl_uint)count, ret_kernels, &made) == CL_SUCCESS
               ? made
               : create_by_name(cl, program, ret_kernels, count);
}

static kiln_status record_kernels(const cl_icd_dispatch *cl, cl_program program, kilni_text *text)
{
    size_t expected = 0;
    if (cl->clGetProgramInfo(program, CL_PROGRAM_NUM_KERNELS, sizeof expected, &expected, NULL) !=
        CL_SUCCESS) {
        return KILN_E_UNSUPPORTED;
    }
    if (expected == 0) {
        return append_u32(text, 0);
    }
    cl_kernel *kernels = calloc(expected, sizeof *kernels);
    if (!kernels) {
        return KILN_E_NO_MEMORY;
    }
    const size_t count = create_kernels(cl, program, kernels, expected);
    kiln_status status = count == expected ? append_u32(text, (uint32_t)count) : KILN_E_UNSUPPORTED;
    for (size_t i = 0; i < count; i++) {
        status = status == KILN_OK ? record_kernel(cl, kernels[i], text) : status;
        cl->clReleaseKernel(kernels[i]);
    }
    free(kernels);
    return status;
}

static kiln_status record_log(const cl_icd_dispatch *cl, cl_program program, cl_device_id device,
                              char **ret_log)
{
    size_t size = 0;
    if (cl->clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size) !=
        CL_SUCCESS) {
        return KILN_E_UNSUPPORTED;
    }
    char *log = calloc(1, size + 1);
    if (!log) {
        return KILN_E_NO_MEMORY;
    }
    if (cl->clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, size, log, NULL) !=
        CL_SUCCESS) {
        free(log);
        return KILN_E_UNSUPPORTED;
    }
    *ret_log = log;
    return KILN_OK;
}

kiln_status kilni_opencl_answers_record(const cl_icd_dispatch *cl, cl_program program,
                                        cl_device_id device, void **ret_bytes, size_t *ret_size,
                                        char **ret_log)
{
    kilni_text text = {0};
    char *log = NULL;
    kiln_status status = append_u32(&text, ANSWERS_VERSION);
    if (status == KILN_OK) {
        status = record_kernels(cl, program, &text);
    }
    if (status == KILN_OK) {
        status = record_log(cl, program, device, &log);
    }
    if (status != KILN_OK) {
        kilni_text_done(&text);
        return status;
    }
    *ret_bytes = text.bytes;
    *ret_size = text.length;
    *ret_log = log;
    return KILN_OK;
}

/* ---- decoding ---- */

typedef struct kernel_answers {
    kiln_bytes name;
    kilni_opencl_answer attributes;
    cl_uint argument_count;
    cl_int beyond, unknown; /* statuses of queries that have no answer */
    size_t first_argument;  /* index in arguments of this kernel's first answer */
} kernel_answers;

struct kilni_opencl_answers {
    void *bytes; /* all answers point into it */
    char *log;   /* with its terminating zero */
    size_t log_size;
    size_t kernel_count;
    kernel_answers *kernels;
    kilni_opencl_answer *arguments;
};

static kiln_bytes read_sized(kilni_byte_reader *reader)
{
    const uint32_t size = kilni_read_u32(reader);
    const unsigned char *bytes = kilni_read_bytes(reader, size);
    return (kiln_bytes){bytes, bytes ? size : 0};
}

static kilni_opencl_answer read_answer(kilni_byte_reader *reader)
{
    kilni_opencl_answer answer = {.status = (cl_int)kilni_read_u32(reader)};
    answer.value = read_sized(reader);
    return answer;
}

/* Reads one kernel, and stores the answers of its arguments in @arguments. If @arguments is NULL,
 * only counts these answers. */
static kernel_answers read_kernel(kilni_byte_reader *reader, kilni_opencl_answer *arguments,
                                  size_t *argument_answers)
{
    kernel_answers kernel = {.name = read_sized(reader)};
    kernel.attributes = read_answer(reader);
    kernel.argument_count = kilni_read_u32(reader);
    kernel.beyond = (cl_int)kilni_read_u32(reader);
    kernel.unknown = (cl_int)kilni_read_u32(reader);
    kernel.first_argument = *argument_answers;
    for (cl_uint i = 0; !reader->failed && i < kernel.argument_count; i++) {
        for (size_t q = 0; q < ARGUMENT_QUERY_COUNT; q++) {
            const kilni_opencl_answer answer = read_answer(reader);
            if (arguments) {
                arguments[*argument_answers] = answer;
            }
            ++*argument_answers;
        }
    }
    return kernel;
}

/* Reads all kernels. The decoder calls this twice: first to count the answers, then to store them.
 * So the size of the allocation depends on what the bytes contain, not on the counts that they
 * claim. */
static int read_kernels(kilni_opencl_answers *answers, kilni_byte_reader reader,
                        size_t *ret_arguments)
{
    size_t arguments = 0;
    const int fresh = kilni_read_u32(&reader) == ANSWERS_VERSION;
    const uint32_t count = kilni_read_u32(&reader);
    for (uint32_t i = 0; !reader.failed && i < count; i++) {
        const kernel_answers kernel = read_kernel(&reader, answers->arguments, &arguments);
        if (answers->kernels) {
            answers->kernels[i] = kernel;
        }
    }
    answers->kernel_count = count;
    *ret_arguments = arguments;
    return fresh && !reader.failed && reader.left == 0;
}

static kiln_status decode(kilni_opencl_answers *answers, kiln_bytes encoded, kiln_bytes log)
{
    answers->bytes = malloc(encoded.size > 0 ? encoded.size : 1);
    if (!answers->bytes) {
        return KILN_E_NO_MEMORY;
    }
    if (encoded.size > 0) {
        memcpy(answers->bytes, encoded.data, encoded.size);
    }
    const kilni_byte_reader reader = {.at = answers->bytes, .left = encoded.size};
    size_t arguments = 0;
    if (!read_kernels(answers, reader, &arguments)) {
        return KILN_E_CORRUPT;
    }
    answers->kernels = calloc(answers->kernel_count + 1, sizeof *answers->kernels);
    answers->arguments = calloc(arguments + 1, sizeof *answers->arguments);
    answers->log = calloc(1, log.size + 1);
    if (!answers->kernels || !answers->arguments || !answers->log) {
        return KILN_E_NO_MEMORY;
    }
    read_kernels(answers, reader, &arguments);
    if (log.size > 0) {
        memcpy(answers->log, log.data, log.size);
    }
    answers->log_size = log.size + 1;
    return KILN_OK;
}

kiln_status kilni_opencl_answers_decode(kiln_bytes encoded, kiln_bytes log,
                                        kilni_opencl_answers **ret_answers)
{
    kilni_opencl_answers *answers = calloc(1, sizeof *answers);
    if (!answers) {
        return KILN_E_NO_MEMORY;
    }
    const kiln_status status = decode(answers, encoded, log);
    if (status != KILN_OK) {
        kilni_opencl_answers_free(&answers);
        return status;
    }
    *ret_answers = answers;
    return KILN_OK;
}

void kilni_opencl_answers_free(kilni_opencl_answers **answers)
{
    if (!answers || !*answers) {
        return;
    }
    free((*answers)->bytes);
    free((*answers)->log);
    free((*answers)->kernels);
    free((*answers)->arguments);
    free(*answers);
    *answers = NULL;
}

/* ---- returning answers ---- */

/* Returns a recorded refusal. If the runtime did not refuse, returns KILN_MISS, so that the caller
 * asks the runtime again. */
static kiln_status refuse(cl_int recorded, kilni_opencl_answer *ret_answer)
{
    if (recorded == CL_SUCCESS) {
        return KILN_MISS;
    }
    *ret_answer = (kilni_opencl_answer){.status = recorded};
    return KILN_OK;
}

static const kernel_answers *find_kernel(const kilni_opencl_answers *answers, const char *name)
{
    const size_t size = strlen(name);
    for (size_t i = 0; i < answers->kernel_count; i++) {
        const kiln_bytes recorded = answers->kernels[i].name;
        if (recorded.size == size && memcmp(recorded.data, name, size) == 0) {
            return &answers->kernels[i];
        }
    }
    return NULL;
}

kiln_status kilni_opencl_answers_attributes(const kilni_opencl_answers *answers, const char *kernel,
                                            kilni_opencl_answer *ret_answer)
{
    const kernel_answers *found = find_kernel(answers, kernel);
    if (!found) {
        return KILN_MISS;
    }
    *ret_answer = found->attributes;
    return KILN_OK;
}

kiln_status kilni_opencl_answers_argument(const kilni_opencl_answers *answers, const char *kernel,
                                          cl_uint index, cl_kernel_arg_info what,
                                          kilni_opencl_answer *ret_answer)
{
    const kernel_answers *found = find_kernel(answers, kernel);
    if (!found) {
        return KILN_MISS;
    }
    if (index >= found->argument_count) {
        return refuse(found->beyond, ret_answer);
    }
    for (size_t q = 0; q < ARGUMENT_QUERY_COUNT; q++) {
        if (argument_queries[q] == what) {
            *ret_answer =
                answers
                    ->arguments[found->first_argument + (size_t)index * ARGUMENT_QUERY_COUNT + q];
            return KILN_OK;
        }
    }
    return refuse(found->unknown, ret_answer);
}

kilni_opencl_answer kilni_opencl_answers_log(const kilni_opencl_answers *answers)
{
    return (kilni_opencl_answer){CL_SUCCESS, {answers->log, answers->log_size}};
}

cl_int kilni_opencl_return_info(const void *value, size_t value_size, size_t room, void *ret_value,
                                size_t *ret_size)
{
    if (ret_value) {
        if (room < value_size) {
            return CL_INVALID_VALUE;
        }
        if (value_size > 0) {
            memcpy(ret_value, value, value_size);
        }
    }
    if (ret_size) {
        *ret_size = value_size;
    }
    return CL_SUCCESS;
}
