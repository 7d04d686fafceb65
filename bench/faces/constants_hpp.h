/* SPDX-License-Identifier: Apache-2.0
 *
 * The same constants, requested from C++ with a promise and a future.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Functions of a face; they ignore their user pointer. The first requests a constant by a key made
 * in advance, the second by a key made each time. */
uint64_t run_constant_hpp(void *user, size_t count);
uint64_t run_constant_hpp_with_key(void *user, size_t count);

#ifdef __cplusplus
}
#endif
