/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls into what may crash, end the process or never come back, as broken drivers do: they are
 * made in a process of their own.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

/* Calls a function in a copy of this process, which ends with this one and prints to stderr alone.
 * This process has to have one thread.
 *
 * @wait_ms  how long it may take; then it is killed
 * Returns what the function returned, an object or an array; NULL where nothing came back, with
 * what became of that process, to be freed: "ended by signal 6 (Aborted)". */
json_t *apart_call(json_t *(*function)(void *user), void *user, uint64_t wait_ms, char **ret_why);
