/* SPDX-License-Identifier: Apache-2.0
 *
 * A device runtime such as the reader of docs/guide.md has one, but small: its programs are
 * polynomials, and "compiling" one takes a while. Nothing in it knows of caching.
 */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct program program;

/* What compiles: whatever changes what it makes of a source changes this text. */
const char *runtime_version(void);

/* Compiles "3 0 2", which stands for 3 + 0 x + 2 x^2, and says so on standard output. NULL: it does
 * not compile. */
program *runtime_compile(const char *source);

double program_run(const program *made, double x);
void program_release(program *made);

/* How many bytes a program occupies. */
size_t program_size(const program *made);

/* A program's binary, of program_size bytes; lives as long as it. */
const void *program_binary(const program *made);

/* A program of its binary. NULL: these bytes are none. */
program *program_load(const void *binary, size_t size);

#ifdef __cplusplus
}
#endif
