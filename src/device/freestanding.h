/* SPDX-License-Identifier: Apache-2.0
 *
 * Substitutes for the few C library functions that the audit library of NVRTC's layer needs. The
 * audit library links no C library. A second C library in the process would slow down every start,
 * and would have its own heap and threads. The audit library also contains symbols.c.
 */
#pragma once

#include <stddef.h>

int kilni_bare_equal(const char *a, const char *b);
int kilni_bare_begins_with(const char *text, const char *prefix);
const char *kilni_bare_base_name(const char *path);

/* Makes a system call. Returns the kernel's result: a negated errno if it fails. */
long kilni_bare_call(long number, long first, long second, long third, long fourth);

/* Calls mprotect(2). Returns 0, or a negated errno. */
long kilni_bare_protect(void *start, size_t size, int protection);
