/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the n-th allocation fail, for test programs linked with
 * -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc. It counts the allocations of
 * all objects that are linked into the program, but not those of shared libraries.
 *
 *     for (size_t n = 1;; n++) {
 *         failing_malloc_arm(n);
 *         status = call_to_be_tested();
 *         if (failing_malloc_disarm() < n) {
 *             break; // fewer than n allocations: none failed
 *         }
 *         assert_int_equal(status, KILN_E_NO_MEMORY);
 *     }
 */
#pragma once

#include <stddef.h>

/* From now on, the @n-th allocation, counted from 1 over all threads, returns NULL; all others are
 * normal. */
void failing_malloc_arm(size_t n);

/* Lets all allocations succeed again. Returns how many were requested since the last arm. */
size_t failing_malloc_disarm(void);
