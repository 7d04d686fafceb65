/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the cache and the rules that a command line asks for.
 */
#pragma once

#include "dpcpp.h"
#include "inspect.h"

/* Reads the cache that the request names. A cache that does not exist is reported, and empty.
 * Returns EXIT_OK; after a failure, which it has reported, the exit code. */
int root_read(const dpcpp_request *request, cache_tree *ret_tree);

/* Sets the present time, and the grace that was asked for or else ten minutes. Returns the same. */
int rules_read(const dpcpp_request *request, const char *grace, inspection_rules *ret_rules);
