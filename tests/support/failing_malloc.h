/* SPDX-License-Identifier: Apache-2.0
 *
 * Lets the n-th allocation fail. For test programs that are linked with
 * -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc: it sees the allocations of
 * all objects that are linked into the program, not those of shared libraries.
 *
 *     for (size_t n = 1;; n++) {
 *         failing_malloc_arm(n);
 *         status = call_to_be_tested();
 *         if (failing_malloc_disarm() < n) {
 *             break;                            // it made fewer than n: nothing failed
 *         }
 *         assert_int_equal(status, KILN_E_NO_MEMORY);
 *     }
 */
#pragma once

#include <stddef.h>

/* From here on the @n-th of these, counted from 1 over all threads, gives NULL;
 * those before and after it do what they always do. */
void failing_malloc_arm(size_t n);

/* Nothing fails any more. Returns how many allocations were asked for since the last arm. */
size_t failing_malloc_disarm(void);
