/* SPDX-License-Identifier: Apache-2.0
 *
 * A small stand-in for the device runtime that a reader of docs/guide.md has. Its programs are
 * polynomials, and "compiling" one takes a while. It knows nothing of caching.
 */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct program program;

/* Identifies the compiler: changes if the compiler makes something different of a source. */
const char *runtime_version(void);

/* Compiles "3 0 2", which stands for 3 + 0 x + 2 x^2, and says so on standard output. NULL: the
 * source does not compile. */
program *runtime_compile(const char *source);

double program_run(const program *made, double x);
void program_release(program *made);

/* The size of a program in bytes. */
size_t program_size(const program *made);

/* A program's binary, of program_size bytes, which lives as long as the program. */
const void *program_binary(const program *made);

/* Makes a program from its binary. NULL: these bytes are no program. */
program *program_load(const void *binary, size_t size);

#ifdef __cplusplus
}
#endif
