/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps caches usable after a fork. All locks are taken before a fork, so that the child finds
 * every cache in a consistent state. The child forgets the parent's other threads: their flights,
 * their open sections and their waits.
 */
#pragma once

#include <stdbool.h>

/* Registers the fork handlers for all caches. Returns false if that fails. Called once. */
bool kilni_forks_handle(void);
