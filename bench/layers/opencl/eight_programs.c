/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds eight programs from source, one after the other, and runs and checks each before it builds
 * the next. The programs are chacha.cl for eight streams. Nothing here is specific to Kiln.
 *
 *     eight_programs [FIRST]
 *
 * FIRST, 0 to 7, is the program to begin with. The others follow in order, and program 0 follows
 * program 7. The program prints "ready", and begins when its standard input ends, so that many
 * processes can begin together. Fails if a result is wrong.
 */
#include "example.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PROGRAM_COUNT = 8, KERNEL_COUNT = 3, BLOCK_COUNT = 256, BLOCK_WORDS = 16 };

static const char *const kernel_names[KERNEL_COUNT] = {"chacha_8", "chacha_12", "chacha_20"};
static const int kernel_rounds[KERNEL_COUNT] = {8, 12, 20};

static const cl_uint key[8] = {0x03020100, 0x07060504, 0x0b0a0908, 0x0f0e0d0c,
                               0x13121110, 0x17161514, 0x1b1a1918, 0x1f1e1d1c};

/* ---- expected results ---- */

static uint32_t rotated(uint32_t value, int bits)
{
    return value << bits | value >> (32 - bits);
}

static void quarter_round(uint32_t *a, uint32_t *b, uint32_t *c, uint32_t *d)
{
    *a += *b;
    *d = rotated(*d ^ *a, 16);
    *c += *d;
    *b = rotated(*b ^ *c, 12);
    *a += *b;
    *d = rotated(*d ^ *a, 8);
    *c += *d;
    *b = rotated(*b ^ *c, 7);
}

static void expected_block(uint32_t stream, uint32_t number, int rounds,
                           uint32_t ret_block[BLOCK_WORDS])
{
    uint32_t first[BLOCK_WORDS] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
    uint32_t s[BLOCK_WORDS];
    memcpy(first + 4, key, sizeof key);
    first[12] = number;
    first[14] = stream;
    memcpy(s, first, sizeof s);
    for (int i = 0; i < rounds; i += 2) {
        for (int column = 0; column < 4; column++) {
            quarter_round(&s[column], &s[4 + column], &s[8 + column], &s[12 + column]);
        }
        for (int column = 0; column < 4; column++) {
            quarter_round(&s[column], &s[4 + (column + 1) % 4], &s[8 + (column + 2) % 4],
                          &s[12 + (column + 3) % 4]);
        }
    }
    for (int i = 0; i < BLOCK_WORDS; i++) {
        ret_block[i] = s[i] + first[i];
    }
}

static int is_right(uint32_t stream, int rounds, cl_uint blocks[BLOCK_COUNT][BLOCK_WORDS])
{
    for (uint32_t number = 0; number < BLOCK_COUNT; number++) {
        uint32_t expected[BLOCK_WORDS];
        expected_block(stream, number, rounds, expected);
        if (memcmp(blocks[number], expected, sizeof expected) != 0) {
            return 0;
        }
    }
    return 1;
}

/* ---- one program ---- */

static int run_kernel(example *self, cl_program program, int index, uint32_t stream,
                      cl_mem key_buffer, cl_mem stream_buffer)
{
    static cl_uint blocks[BLOCK_COUNT][BLOCK_WORDS];
    cl_kernel kernel = example_kernel(self, program, kernel_names[index]);
    example_argument(kernel, 0, sizeof key_buffer, &key_buffer);
    example_argument(kernel, 1, sizeof stream_buffer, &stream_buffer);
    example_launch(self, kernel, (const size_t[]){BLOCK_COUNT, 1}, NULL);
    example_read(self, stream_buffer, blocks, sizeof blocks);
    clReleaseKernel(kernel);
    return is_right(stream, kernel_rounds[index], blocks);
}

/* Returns the number of its kernels with right results. */
static int run_program(example *self, uint32_t stream)
{
    cl_mem key_buffer = example_buffer(self, key, sizeof key);
    cl_mem stream_buffer = example_buffer(self, NULL, BLOCK_COUNT * BLOCK_WORDS * sizeof(cl_uint));
    char options[32];
    snprintf(options, sizeof options, "-D STREAM=%" PRIu32, stream);
    cl_program program = example_build(self, "chacha.cl", options);
    int right = 0;
    for (int i = 0; i < KERNEL_COUNT; i++) {
        right += run_kernel(self, program, i, stream, key_buffer, stream_buffer);
    }
    clReleaseProgram(program);
    clReleaseMemObject(key_buffer);
    clReleaseMemObject(stream_buffer);
    return right;
}

static void wait_for_start(void)
{
    char ignored[64];
    puts("ready");
    fflush(stdout);
    while (read(STDIN_FILENO, ignored, sizeof ignored) > 0) {
    }
}

int main(int argc, char **argv)
{
    const int first = argc > 1 ? atoi(argv[1]) : 0;
    example self = {.kernel_folder = KERNEL_FOLDER};
    int right = 0;
    wait_for_start();
    example_open(&self, NULL);
    for (int i = 0; i < PROGRAM_COUNT; i++) {
        right += run_program(&self, (uint32_t)(first + i) % PROGRAM_COUNT);
    }
    example_close(&self);
    return right == PROGRAM_COUNT * KERNEL_COUNT ? 0 : 2;
}
