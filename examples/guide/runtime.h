/* SPDX-License-Identifier: Apache-2.0
 *
 * A small stand-in for the device runtime that a reader of docs/guide.md has. Its programs are
 * polynomials, and "compiling" one takes a while. It does not cache anything.
 */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct program program;

/* Identifies the compiler: versions whose results may differ return different texts. */
const char *runtime_version(void);

/* Compiles a source such as "3 0 2", which stands for 3 + 0 x + 2 x^2, and prints a line on
 * standard output. Returns NULL if the source does not compile. */
program *runtime_compile(const char *source);

double program_run(const program *made, double x);
void program_release(program *made);

/* The size of a program in bytes. */
size_t program_size(const program *made);

/* Returns a program's binary, of program_size bytes. It is valid as long as the program exists. */
const void *program_binary(const program *made);

/* Makes a program from its binary. Returns NULL if these bytes are not a program. */
program *program_load(const void *binary, size_t size);

#ifdef __cplusplus
}
#endif
