/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls code in a separate process, because the code may crash, end the process or never return, as
 * broken drivers do.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

/* Calls a function in a forked child, which ends when this process ends, and which prints only to
 * stderr. This process must have one thread.
 *
 * @wait_ms  how long it may take before it is killed
 * Returns the function's result, an object or an array. NULL if there is none, with the reason,
 * such as "ended by signal 6 (Aborted)", which the caller frees. */
json_t *subprocess_call(json_t *(*function)(void *user), void *user, uint64_t wait_ms,
                        char **ret_why);
