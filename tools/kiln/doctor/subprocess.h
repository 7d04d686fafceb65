/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls code in a separate process. This is for code that might crash, end its process or never
 * return, as broken drivers do.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

/* Calls a function in a forked child, which prints only to stderr. If this process ends, the child
 * is ended too. This process must have only one thread.
 *
 * @wait_ms  the child is killed after this many milliseconds
 * Returns the function's result, an object or an array. If there is none, returns NULL and stores a
 * reason, such as "ended by signal 6 (Aborted)". The caller frees the reason. */
json_t *subprocess_call(json_t *(*function)(void *user), void *user, uint64_t wait_ms,
                        char **ret_why);
