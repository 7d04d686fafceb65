/* SPDX-License-Identifier: Apache-2.0
 *
 * Sum, minimum and maximum of many integers, as integers and as floats that hold them exactly.
 */
#include "example.h"

#include <stdio.h>

enum { COUNT = 1 << 16, GROUP = 128, GROUP_COUNT = 16, FOLD_COUNT = 3 };

static const char *const int_names[FOLD_COUNT] = {"sum_int", "min_int", "max_int"};
static const char *const float_names[FOLD_COUNT] = {"sum_float", "min_float", "max_float"};

static cl_int int_input[COUNT], int_results[FOLD_COUNT];
static cl_float float_input[COUNT], float_results[FOLD_COUNT];

/* Reduces @count numbers of 4 bytes. The first launch leaves one number for each group. */
static void fold(example *self, cl_kernel kernel, cl_mem input, cl_mem partial, cl_uint count)
{
    const cl_mem buffers[] = {input, partial, partial};
    const cl_uint counts[] = {count, GROUP_COUNT};
    const size_t groups[] = {GROUP_COUNT, 1};
    for (int pass = 0; pass < 2; pass++) {
        example_argument(kernel, 0, sizeof(cl_mem), &buffers[pass]);
        example_argument(kernel, 1, sizeof(cl_mem), &buffers[pass + 1]);
        example_argument(kernel, 2, sizeof(cl_uint), &counts[pass]);
        example_launch(self, kernel, (const size_t[]){groups[pass] * GROUP, 1},
                       (const size_t[]){GROUP, 1});
    }
}

static void fold_all(example *self, cl_program program, const char *const names[FOLD_COUNT],
                     const void *numbers, void *ret_results)
{
    cl_mem input = example_buffer(self, numbers, COUNT * 4);
    cl_mem partial = example_buffer(self, NULL, GROUP_COUNT * 4);
    for (int i = 0; i < FOLD_COUNT; i++) {
        cl_kernel kernel = example_kernel(self, program, names[i]);
        fold(self, kernel, input, partial, COUNT);
        example_read(self, partial, (char *)ret_results + i * 4, 4);
        clReleaseKernel(kernel);
    }
    clReleaseMemObject(input);
    clReleaseMemObject(partial);
}

void reduction_run(example *self)
{
    uint32_t seed = 3;
    for (int i = 0; i < COUNT; i++) {
        int_input[i] = (cl_int)(next_number(&seed) % 201) - 100;
        float_input[i] = (cl_float)int_input[i];
    }
    char options[64];
    snprintf(options, sizeof options, "-D GROUP=%d", GROUP);
    cl_program program = example_build(self, "reduction.cl", options);
    fold_all(self, program, int_names, int_input, int_results);
    fold_all(self, program, float_names, float_input, float_results);
    clReleaseProgram(program);
}

int reduction_check(void)
{
    cl_int expected[FOLD_COUNT] = {0, int_input[0], int_input[0]};
    for (int i = 0; i < COUNT; i++) {
        expected[0] += int_input[i];
        expected[1] = int_input[i] < expected[1] ? int_input[i] : expected[1];
        expected[2] = int_input[i] > expected[2] ? int_input[i] : expected[2];
    }
    int wrong = 0;
    for (int i = 0; i < FOLD_COUNT; i++) {
        wrong += int_results[i] != expected[i] || float_results[i] != (cl_float)expected[i];
    }
    printf("reduction  of %d numbers, sum %d, least %d, greatest %d: %s\n", COUNT, int_results[0],
           int_results[1], int_results[2], wrong == 0 ? "right" : "WRONG");
    return wrong == 0;
}
