/* SPDX-License-Identifier: Apache-2.0
 *
 * The same constants as C++ asks for them, with a promise and a future.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Functions of a face, whose user is nothing: one of a constant by a key that was made before, and
 * one by a key that is made each time. */
uint64_t run_constant_hpp(void *user, size_t count);
uint64_t run_constant_hpp_with_key(void *user, size_t count);

#ifdef __cplusplus
}
#endif
