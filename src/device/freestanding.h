/* SPDX-License-Identifier: Apache-2.0
 *
 * What the audit library of NVRTC's layer needs of a C library, which it has none of: a second one
 * in the process would cost every start, and have a heap and threads of its own. symbols.c is in
 * it.
 */
#pragma once

#include <stddef.h>

int kilni_bare_equal(const char *a, const char *b);
int kilni_bare_begins_with(const char *text, const char *prefix);
const char *kilni_bare_base_name(const char *path);

/* A system call. Returns what the system says: a negated errno if it fails. */
long kilni_bare_call(long number, long first, long second, long third, long fourth);

/* mprotect(2). Returns 0, or what the system said. */
long kilni_bare_protect(void *start, size_t size, int protection);
