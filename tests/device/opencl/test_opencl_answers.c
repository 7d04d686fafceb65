/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/opencl/answers.h"
#include "support/failing_malloc.h"
#include "support/fenced_answers.h"
#include "support/opencl_platforms.h"

/* ---- a fake runtime ---- */

typedef struct fake_argument {
    const char *type, *name;
    cl_kernel_arg_address_qualifier address;
    cl_kernel_arg_access_qualifier access;
    cl_kernel_arg_type_qualifier qualifier;
    cl_int error; /* the status of every query about the argument; CL_SUCCESS: queries return the
                     values above */
} fake_argument;

typedef struct fake_kernel {
    const char *name, *attributes;
    cl_int attributes_error;
    cl_uint argument_count;
    fake_argument arguments[3];
} fake_kernel;

typedef struct fake_program {
    fake_kernel kernels[4];
    size_t kernel_count;
    const char *log;
} fake_program;

/* The number of the call that fails, from 1; 0: none. */
static size_t failing_call;
static size_t calls;
static int live_kernels;

static bool is_to_fail(void)
{
    calls++;
    return calls == failing_call;
}

static cl_int give(const void *value, size_t value_size, size_t room, void *ret_value,
                   size_t *ret_size)
{
    if (is_to_fail()) {
        return CL_OUT_OF_RESOURCES;
    }
    if (ret_value && room < value_size) {
        return CL_INVALID_VALUE;
    }
    if (ret_value) {
        memcpy(ret_value, value, value_size);
    }
    if (ret_size) {
        *ret_size = value_size;
    }
    return CL_SUCCESS;
}

static cl_int give_text(const char *text, size_t room, void *ret_value, size_t *ret_size)
{
    return give(text, strlen(text) + 1, room, ret_value, ret_size);
}

static cl_int CL_API_CALL get_program_info(cl_program program, cl_program_info what, size_t room,
                                           void *ret_value, size_t *ret_size)
{
    const fake_program *p = (const fake_program *)program;
    return what == CL_PROGRAM_NUM_KERNELS
               ? give(&p->kernel_count, sizeof p->kernel_count, room, ret_value, ret_size)
               : CL_INVALID_VALUE;
}

static cl_int CL_API_CALL get_program_build_info(cl_program program, cl_device_id device,
                                                 cl_program_build_info what, size_t room,
                                                 void *ret_value, size_t *ret_size)
{
    (void)device;
    const fake_program *p = (const fake_program *)program;
    return what == CL_PROGRAM_BUILD_LOG ? give_text(p->log, room, ret_value, ret_size)
                                        : CL_INVALID_VALUE;
}

static cl_int CL_API_CALL create_kernels(cl_program program, cl_uint room, cl_kernel *ret_kernels,
                                         cl_uint *ret_count)
{
    fake_program *p = (fake_program *)program;
    if (is_to_fail() || room < p->kernel_count) {
        return CL_OUT_OF_RESOURCES;
    }
    for (size_t i = 0; i < p->kernel_count; i++) {
        ret_kernels[i] = (cl_kernel)&p->kernels[i];
        live_kernels++;
    }
    *ret_count = (cl_uint)p->kernel_count;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL release_kernel(cl_kernel kernel)
{
    (void)kernel;
    live_kernels--;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL get_kernel_info(cl_kernel kernel, cl_kernel_info what, size_t room,
                                          void *ret_value, size_t *ret_size)
{
    const fake_kernel *k = (const fake_kernel *)kernel;
    switch (what) {
    case CL_KERNEL_FUNCTION_NAME:
        return give_text(k->name, room, ret_value, ret_size);
    case CL_KERNEL_NUM_ARGS:
        return give(&k->argument_count, sizeof k->argument_count, room, ret_value, ret_size);
    case CL_KERNEL_ATTRIBUTES:
        return k->attributes_error == CL_SUCCESS
                   ? give_text(k->attributes, room, ret_value, ret_size)
                   : k->attributes_error;
    default:
        return CL_INVALID_VALUE;
    }
}

static cl_int CL_API_CALL get_argument_info(cl_kernel kernel, cl_uint index,
                                            cl_kernel_arg_info what, size_t room, void *ret_value,
                                            size_t *ret_size)
{
    const fake_kernel *k = (const fake_kernel *)kernel;
    if (index >= k->argument_count) {
        return CL_INVALID_ARG_INDEX;
    }
    const fake_argument *a = &k->arguments[index];
    if (a->error != CL_SUCCESS) {
        return a->error;
    }
    switch (what) {
    case CL_KERNEL_ARG_ADDRESS_QUALIFIER:
        return give(&a->address, sizeof a->address, room, ret_value, ret_size);
    case CL_KERNEL_ARG_ACCESS_QUALIFIER:
        return give(&a->access, sizeof a->access, room, ret_value, ret_size);
    case CL_KERNEL_ARG_TYPE_NAME:
        return give_text(a->type, room, ret_value, ret_size);
    case CL_KERNEL_ARG_TYPE_QUALIFIER:
        return give(&a->qualifier, sizeof a->qualifier, room, ret_value, ret_size);
    case CL_KERNEL_ARG_NAME:
        return give_text(a->name, room, ret_value, ret_size);
    default:
        return CL_INVALID_VALUE;
    }
}

static const cl_icd_dispatch fake_runtime = {
    .clGetProgramInfo = get_program_info,
    .clGetProgramBuildInfo = get_program_build_info,
    .clCreateKernelsInProgram = create_kernels,
    .clReleaseKernel = release_kernel,
    .clGetKernelInfo = get_kernel_info,
    .clGetKernelArgInfo = get_argument_info,
};

static fake_program sample = {
    .kernels =
        {
            {.name = "scale",
             .attributes = "reqd_work_group_size(8,1,1)",
             .argument_count = 2,
             .arguments = {{.type = "float*",
                            .name = "values",
                            .address = CL_KERNEL_ARG_ADDRESS_GLOBAL,
                            .access = CL_KERNEL_ARG_ACCESS_NONE,
                            .qualifier = CL_KERNEL_ARG_TYPE_RESTRICT},
                           {.type = "float",
                            .name = "factor",
                            .address = CL_KERNEL_ARG_ADDRESS_PRIVATE,
                            .access = CL_KERNEL_ARG_ACCESS_NONE}}},
            {.name = "scale_all", .attributes = "", .argument_count = 0},
            {.name = "s",
             .attributes_error = CL_INVALID_VALUE,
             .argument_count = 1,
             .arguments = {{.error = CL_KERNEL_ARG_INFO_NOT_AVAILABLE}}},
        },
    .kernel_count = 3,
    .log = "1 warning generated.",
};
static fake_program without_kernels = {.kernel_count = 0, .log = ""};

/* ---- recording, and making an entry from it ---- */

typedef struct recording {
    void *bytes;
    size_t size;
    char *log;
} recording;

static kiln_status record(fake_program *program, recording *ret_recording)
{
    return kilni_opencl_answers_record(&fake_runtime, (cl_program)program, NULL,
                                       &ret_recording->bytes, &ret_recording->size,
                                       &ret_recording->log);
}

static void free_recording(recording *r)
{
    free(r->bytes);
    free(r->log);
    *r = (recording){0};
}

/* Makes an entry with these answers. */
static kiln_entry *entry_of(const void *answers, size_t size, const char *log)
{
    kiln_entry *entry = fenced_entry_new(answers, size, log, strlen(log));
    assert_non_null(entry);
    return entry;
}

static kilni_opencl_answers *decode(const kiln_entry *entry)
{
    kilni_opencl_answers *answers = NULL;
    assert_int_equal(
        kilni_opencl_answers_decode(kiln_entry_answers(entry), kiln_entry_log(entry), &answers),
        KILN_OK);
    return answers;
}

static void assert_text(const kilni_opencl_answer *answer, const char *expected)
{
    assert_int_equal(answer->status, CL_SUCCESS);
    assert_int_equal(answer->value.size, strlen(expected) + 1);
    assert_string_equal(answer->value.data, expected);
}

static void assert_bytes(const kilni_opencl_answer *answer, const void *expected, size_t size)
{
    assert_int_equal(answer->status, CL_SUCCESS);
    assert_int_equal(answer->value.size, size);
    assert_memory_equal(answer->value.data, expected, size);
}

static kilni_opencl_answer argument(const kilni_opencl_answers *answers, const char *kernel,
                                    cl_uint index, cl_kernel_arg_info what)
{
    kilni_opencl_answer answer = {.status = 1};
    assert_int_equal(kilni_opencl_answers_argument(answers, kernel, index, what, &answer), KILN_OK);
    return answer;
}

static void assert_argument(const kilni_opencl_answers *answers, const char *kernel, cl_uint index,
                            const fake_argument *a)
{
    kilni_opencl_answer answer = argument(answers, kernel, index, CL_KERNEL_ARG_TYPE_NAME);
    if (a->error != CL_SUCCESS) {
        assert_int_equal(answer.status, a->error);
        assert_int_equal(answer.value.size, 0);
        return;
    }
    assert_text(&answer, a->type);
    answer = argument(answers, kernel, index, CL_KERNEL_ARG_NAME);
    assert_text(&answer, a->name);
    answer = argument(answers, kernel, index, CL_KERNEL_ARG_ADDRESS_QUALIFIER);
    assert_bytes(&answer, &a->address, sizeof a->address);
    answer = argument(answers, kernel, index, CL_KERNEL_ARG_ACCESS_QUALIFIER);
    assert_bytes(&answer, &a->access, sizeof a->access);
    answer = argument(answers, kernel, index, CL_KERNEL_ARG_TYPE_QUALIFIER);
    assert_bytes(&answer, &a->qualifier, sizeof a->qualifier);
}

static void assert_kernel(const kilni_opencl_answers *answers, const fake_kernel *k)
{
    kilni_opencl_answer answer = {.status = 1};
    assert_int_equal(kilni_opencl_answers_attributes(answers, k->name, &answer), KILN_OK);
    if (k->attributes_error == CL_SUCCESS) {
        assert_text(&answer, k->attributes);
    } else {
        assert_int_equal(answer.status, k->attributes_error);
        assert_int_equal(answer.value.size, 0);
    }
    for (cl_uint i = 0; i < k->argument_count; i++) {
        assert_argument(answers, k->name, i, &k->arguments[i]);
    }
    answer = argument(answers, k->name, k->argument_count, CL_KERNEL_ARG_NAME);
    assert_int_equal(answer.status, CL_INVALID_ARG_INDEX);
}

/* ---- tests ---- */

static void test_round_trip(void **state)
{
    (void)state;
    recording r = {0};
    assert_int_equal(record(&sample, &r), KILN_OK);
    assert_int_equal(live_kernels, 0);
    assert_string_equal(r.log, sample.log);

    kiln_entry *entry = entry_of(r.bytes, r.size, r.log);
    kilni_opencl_answers *answers = decode(entry);
    fenced_entry_release(&entry);
    free_recording(&r);
    /* The answers retain the entry, so all of them are still there. */
    for (size_t i = 0; i < sample.kernel_count; i++) {
        assert_kernel(answers, &sample.kernels[i]);
    }
    const kilni_opencl_answer log = kilni_opencl_answers_log(answers);
    assert_text(&log, sample.log);
    kilni_opencl_answers_free(&answers);
    assert_null(answers);
}

static void test_unrecorded_read_is_a_miss(void **state)
{
    (void)state;
    recording r = {0};
    assert_int_equal(record(&sample, &r), KILN_OK);
    kiln_entry *entry = entry_of(r.bytes, r.size, r.log);
    kilni_opencl_answers *answers = decode(entry);
    static const char *const strangers[] = {"", "scal", "scale_al", "scale_alL", "ss"};
    kilni_opencl_answer answer;
    for (size_t i = 0; i < sizeof strangers / sizeof strangers[0]; i++) {
        assert_int_equal(kilni_opencl_answers_attributes(answers, strangers[i], &answer),
                         KILN_MISS);
        assert_int_equal(
            kilni_opencl_answers_argument(answers, strangers[i], 0, CL_KERNEL_ARG_NAME, &answer),
            KILN_MISS);
    }
    answer = argument(answers, "scale", 0, CL_KERNEL_FUNCTION_NAME);
    assert_int_equal(answer.status, CL_INVALID_VALUE);
    answer = argument(answers, "scale", UINT32_MAX, CL_KERNEL_ARG_NAME);
    assert_int_equal(answer.status, CL_INVALID_ARG_INDEX);
    kilni_opencl_answers_free(&answers);
    fenced_entry_release(&entry);
    free_recording(&r);
}

static void test_program_without_kernels(void **state)
{
    (void)state;
    recording r = {0};
    assert_int_equal(record(&without_kernels, &r), KILN_OK);
    kiln_entry *entry = entry_of(r.bytes, r.size, r.log);
    kilni_opencl_answers *answers = decode(entry);
    const kilni_opencl_answer log = kilni_opencl_answers_log(answers);
    assert_text(&log, "");
    kilni_opencl_answer answer;
    assert_int_equal(kilni_opencl_answers_attributes(answers, "", &answer), KILN_MISS);
    kilni_opencl_answers_free(&answers);
    fenced_entry_release(&entry);
    free_recording(&r);
    kilni_opencl_answers_free(NULL);
    kilni_opencl_answers_free(&answers);
}

/* A call of the runtime fails: the result is usable or absent, and no kernel is leaked. */
static void test_runtime_that_fails(void **state)
{
    (void)state;
    for (failing_call = 1;; failing_call++) {
        calls = 0;
        recording r = {0};
        const kiln_status status = record(&sample, &r);
        assert_int_equal(live_kernels, 0);
        const bool has_failed = calls >= failing_call;
        if (status == KILN_OK) {
            kiln_entry *entry = entry_of(r.bytes, r.size, r.log);
            kilni_opencl_answers *answers = decode(entry);
            kilni_opencl_answers_free(&answers);
            fenced_entry_release(&entry);
        } else {
            assert_int_equal(status, KILN_E_UNSUPPORTED);
            assert_null(r.bytes);
            assert_null(r.log);
        }
        free_recording(&r);
        if (!has_failed) {
            assert_int_equal(status, KILN_OK);
            break;
        }
    }
    failing_call = 0;
}

static void test_failing_allocations(void **state)
{
    (void)state;
    for (size_t n = 1;; n++) {
        recording r = {0};
        failing_malloc_arm(n);
        const kiln_status status = record(&sample, &r);
        const bool has_failed = failing_malloc_disarm() >= n;
        assert_int_equal(live_kernels, 0);
        assert_int_equal(status, has_failed ? KILN_E_NO_MEMORY : KILN_OK);
        free_recording(&r);
        if (!has_failed) {
            break;
        }
    }
    recording r = {0};
    assert_int_equal(record(&sample, &r), KILN_OK);
    kiln_entry *entry = entry_of(r.bytes, r.size, r.log);
    for (size_t n = 1;; n++) {
        kilni_opencl_answers *answers = NULL;
        failing_malloc_arm(n);
        const kiln_status status =
            kilni_opencl_answers_decode(kiln_entry_answers(entry), kiln_entry_log(entry), &answers);
        const bool has_failed = failing_malloc_disarm() >= n;
        assert_int_equal(status, has_failed ? KILN_E_NO_MEMORY : KILN_OK);
        assert_true((answers == NULL) == has_failed);
        kilni_opencl_answers_free(&answers);
        if (!has_failed) {
            break;
        }
    }
    fenced_entry_release(&entry);
    free_recording(&r);
}

/* ---- bytes that were not recorded ---- */

/* Decodes the bytes. If that succeeds, every answer must lie within them. */
static kiln_status look_at(const void *bytes, size_t size)
{
    kiln_entry *entry = entry_of(bytes, size, "");
    kilni_opencl_answers *answers = NULL;
    const kiln_status status =
        kilni_opencl_answers_decode(kiln_entry_answers(entry), kiln_entry_log(entry), &answers);
    if (status == KILN_OK) {
        assert_true(fenced_answers_are_inside(answers, entry));
    } else {
        assert_int_equal(status, KILN_E_CORRUPT);
        assert_null(answers);
    }
    kilni_opencl_answers_free(&answers);
    fenced_entry_release(&entry);
    return status;
}

static void test_every_altered_byte(void **state)
{
    (void)state;
    recording r = {0};
    assert_int_equal(record(&sample, &r), KILN_OK);
    unsigned char *bytes = r.bytes;
    static const unsigned char changes[] = {0x01, 0x02, 0x04, 0x10, 0x40, 0x80, 0x7f, 0xff};
    size_t corrupt = 0;
    for (size_t i = 0; i < r.size; i++) {
        for (size_t c = 0; c < sizeof changes; c++) {
            bytes[i] ^= changes[c];
            corrupt += look_at(bytes, r.size) == KILN_E_CORRUPT;
            bytes[i] ^= changes[c];
        }
    }
    /* Every change of the version or of a length must be detected. Other changes may be. */
    assert_true(corrupt >= 4 * sizeof changes);
    assert_int_equal(look_at(bytes, r.size), KILN_OK);
    free_recording(&r);
}

static void test_every_truncation(void **state)
{
    (void)state;
    recording r = {0};
    assert_int_equal(record(&sample, &r), KILN_OK);
    for (size_t size = 0; size < r.size; size++) {
        assert_int_equal(look_at(r.bytes, size), KILN_E_CORRUPT);
    }
    /* One byte too many is detected too. */
    unsigned char *longer = calloc(1, r.size + 1);
    assert_non_null(longer);
    memcpy(longer, r.bytes, r.size);
    assert_int_equal(look_at(longer, r.size + 1), KILN_E_CORRUPT);
    free(longer);
    free_recording(&r);
}

/* The counts would need more memory than exists. */
static void test_oversized_counts(void **state)
{
    (void)state;
    unsigned char bytes[64] = {1};
    memset(bytes + 4, 0xff, 4);
    assert_int_equal(look_at(bytes, 8), KILN_E_CORRUPT);
    assert_int_equal(look_at(bytes, sizeof bytes), KILN_E_CORRUPT);
    /* One kernel that has no name, empty attributes, and that many arguments. */
    unsigned char one[4 * 8] = {1};
    one[4] = 1;
    memset(one + 4 * 5, 0xff, 4);
    assert_int_equal(look_at(one, sizeof one), KILN_E_CORRUPT);
}

static void test_unknown_version(void **state)
{
    (void)state;
    const unsigned char newer[] = {2, 0, 0, 0, 0, 0, 0, 0}, ours[] = {1, 0, 0, 0, 0, 0, 0, 0};
    assert_int_equal(look_at(newer, sizeof newer), KILN_E_CORRUPT);
    assert_int_equal(look_at(ours, sizeof ours), KILN_OK);
}

/* ---- replies ---- */

static void test_reply(void **state)
{
    (void)state;
    static const char value[] = "four";
    char room[8] = "xxxxxxx";
    size_t size = 99;
    assert_int_equal(kilni_opencl_return_info(value, 5, 0, NULL, NULL), CL_SUCCESS);
    assert_int_equal(kilni_opencl_return_info(value, 5, 0, NULL, &size), CL_SUCCESS);
    assert_int_equal(size, 5);
    size = 99;
    assert_int_equal(kilni_opencl_return_info(value, 5, 4, room, &size), CL_INVALID_VALUE);
    assert_int_equal(size, 99);
    assert_string_equal(room, "xxxxxxx");
    assert_int_equal(kilni_opencl_return_info(value, 5, 5, room, NULL), CL_SUCCESS);
    assert_memory_equal(room, "four\0xx", 8);
    assert_int_equal(kilni_opencl_return_info(value, 4, 8, room, &size), CL_SUCCESS);
    assert_int_equal(size, 4);
    assert_int_equal(kilni_opencl_return_info(NULL, 0, 0, room, &size), CL_SUCCESS);
    assert_int_equal(size, 0);
    assert_int_equal(kilni_opencl_return_info(NULL, 0, 0, NULL, &size), CL_SUCCESS);
}

/* ---- the answers of real runtimes ---- */

static const char real_source[] =
    "__attribute__((reqd_work_group_size(4, 1, 1)))\n"
    "kernel void scale(global float *restrict values, const float factor)\n"
    "{ values[get_global_id(0)] *= factor; }\n"
    "kernel void fill(global int *out, int value, local int *unused)\n"
    "{ out[get_global_id(0)] = value; }\n";

static const cl_kernel_arg_info questions[] = {
    CL_KERNEL_ARG_ADDRESS_QUALIFIER, CL_KERNEL_ARG_ACCESS_QUALIFIER, CL_KERNEL_ARG_TYPE_NAME,
    CL_KERNEL_ARG_TYPE_QUALIFIER, CL_KERNEL_ARG_NAME};

static void assert_same_argument(const cl_icd_dispatch *cl, const kilni_opencl_answers *answers,
                                 cl_kernel kernel, const char *name, cl_uint index)
{
    for (size_t q = 0; q < sizeof questions / sizeof questions[0]; q++) {
        char value[256] = "";
        size_t size = 0;
        const cl_int error =
            cl->clGetKernelArgInfo(kernel, index, questions[q], sizeof value, value, &size);
        const kilni_opencl_answer answer = argument(answers, name, index, questions[q]);
        assert_int_equal(answer.status, error);
        assert_true(error == CL_SUCCESS || answer.value.size == 0);
        if (error == CL_SUCCESS) {
            assert_bytes(&answer, value, size);
        }
    }
}

static void assert_same_kernel(const cl_icd_dispatch *cl, const kilni_opencl_answers *answers,
                               cl_program program, const char *name)
{
    cl_int error = CL_SUCCESS;
    cl_kernel kernel = cl->clCreateKernel(program, name, &error);
    assert_int_equal(error, CL_SUCCESS);
    char attributes[512] = "";
    size_t size = 0;
    error = cl->clGetKernelInfo(kernel, CL_KERNEL_ATTRIBUTES, sizeof attributes, attributes, &size);
    kilni_opencl_answer answer;
    assert_int_equal(kilni_opencl_answers_attributes(answers, name, &answer), KILN_OK);
    assert_int_equal(answer.status, error);
    if (error == CL_SUCCESS) {
        assert_bytes(&answer, attributes, size);
    }
    cl_uint arguments = 0;
    assert_int_equal(
        cl->clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof arguments, &arguments, NULL),
        CL_SUCCESS);
    /* The last index is beyond the kernel's arguments. */
    for (cl_uint i = 0; i <= arguments; i++) {
        assert_same_argument(cl, answers, kernel, name, i);
    }
    cl->clReleaseKernel(kernel);
}

static void check_platform(const cl_icd_dispatch *cl, const opencl_platform *platform,
                           const char *options)
{
    cl_int error = CL_SUCCESS;
    const char *text = real_source;
    cl_program program = cl->clCreateProgramWithSource(platform->context, 1, &text, NULL, &error);
    assert_int_equal(error, CL_SUCCESS);
    assert_int_equal(cl->clBuildProgram(program, 1, &platform->device, options, NULL, NULL),
                     CL_SUCCESS);
    recording r = {0};
    assert_int_equal(
        kilni_opencl_answers_record(cl, program, platform->device, &r.bytes, &r.size, &r.log),
        KILN_OK);
    kiln_entry *entry = entry_of(r.bytes, r.size, r.log);
    kilni_opencl_answers *answers = decode(entry);
    assert_same_kernel(cl, answers, program, "scale");
    assert_same_kernel(cl, answers, program, "fill");
    kilni_opencl_answers_free(&answers);
    fenced_entry_release(&entry);
    free_recording(&r);
    cl->clReleaseProgram(program);
}

static void test_real_runtimes(void **state)
{
    (void)state;
    static opencl_platforms found;
    opencl_open(&found);
    if (found.count == 0) {
        print_message("no OpenCL runtime\n");
        skip();
    }
    for (size_t i = 0; i < found.count; i++) {
        print_message("on %s\n", found.platforms[i].name);
        check_platform(&found.cl, &found.platforms[i], "-cl-kernel-arg-info");
        check_platform(&found.cl, &found.platforms[i], NULL);
    }
    opencl_close(&found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_unrecorded_read_is_a_miss),
        cmocka_unit_test(test_program_without_kernels),
        cmocka_unit_test(test_runtime_that_fails),
        cmocka_unit_test(test_failing_allocations),
        cmocka_unit_test(test_every_altered_byte),
        cmocka_unit_test(test_every_truncation),
        cmocka_unit_test(test_oversized_counts),
        cmocka_unit_test(test_unknown_version),
        cmocka_unit_test(test_reply),
        cmocka_unit_test(test_real_runtimes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
