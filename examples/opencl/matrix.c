/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of two matrices of small integers, so floats hold every result exactly.
 */
#include "example.h"

#include <stdio.h>

enum { SIZE = 256, TILE = 32, WORK = 8, PRODUCT_COUNT = 3 };

static const char *const product_names[PRODUCT_COUNT] = {"multiply", "multiply_right_transposed",
                                                         "multiply_left_transposed"};

static float left[SIZE][SIZE], right[SIZE][SIZE];
static float results[PRODUCT_COUNT][SIZE][SIZE];

static void fill(float matrix[SIZE][SIZE], uint32_t seed)
{
    for (int i = 0; i < SIZE; i++) {
        for (int j = 0; j < SIZE; j++) {
            matrix[i][j] = (float)(next_number(&seed) % 9) - 4.0f;
        }
    }
}

void matrix_run(example *self)
{
    fill(left, 1);
    fill(right, 2);
    cl_mem left_buffer = example_buffer(self, left, sizeof left);
    cl_mem right_buffer = example_buffer(self, right, sizeof right);
    cl_mem result_buffer = example_buffer(self, NULL, sizeof results[0]);

    char options[64];
    snprintf(options, sizeof options, "-D TILE=%d -D WORK=%d", TILE, WORK);
    cl_program program = example_build(self, "matrix.cl", options);
    for (int i = 0; i < PRODUCT_COUNT; i++) {
        cl_kernel kernel = example_kernel(self, program, product_names[i]);
        example_argument(kernel, 0, sizeof left_buffer, &left_buffer);
        example_argument(kernel, 1, sizeof right_buffer, &right_buffer);
        example_argument(kernel, 2, sizeof result_buffer, &result_buffer);
        example_argument(kernel, 3, sizeof(cl_int), &(cl_int){SIZE});
        example_launch(self, kernel, (const size_t[]){SIZE / WORK, SIZE / WORK},
                       (const size_t[]){TILE / WORK, TILE / WORK});
        example_read(self, result_buffer, results[i], sizeof results[i]);
        clReleaseKernel(kernel);
    }
    clReleaseProgram(program);
    clReleaseMemObject(left_buffer);
    clReleaseMemObject(right_buffer);
    clReleaseMemObject(result_buffer);
}

static int expected(int product, int row, int column)
{
    int sum = 0;
    for (int k = 0; k < SIZE; k++) {
        const float a = product == 2 ? left[k][row] : left[row][k];
        const float b = product == 1 ? right[column][k] : right[k][column];
        sum += (int)a * (int)b;
    }
    return sum;
}

int matrix_check(void)
{
    uint32_t checksum = 0;
    int wrong = 0;
    for (int product = 0; product < PRODUCT_COUNT; product++) {
        for (int i = 0; i < SIZE; i++) {
            for (int j = 0; j < SIZE; j++) {
                const float result = results[product][i][j];
                wrong += result != (float)expected(product, i, j);
                checksum = checksum * 31u + (uint32_t)(int32_t)result;
            }
        }
    }
    printf("matrix     %d products of %d x %d, checksum %08x: %s\n", PRODUCT_COUNT, SIZE, SIZE,
           checksum, wrong == 0 ? "right" : "WRONG");
    return wrong == 0;
}
