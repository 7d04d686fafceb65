/* SPDX-License-Identifier: Apache-2.0
 *
 * From a command line to a cache that was read.
 */
#pragma once

#include "dpcpp.h"
#include "inspect.h"

/* Reads the cache that is meant. Returns EXIT_OK; else the fault was named, and this is what to
 * exit with. A cache that isn't there is named too, and empty. */
int root_read(const dpcpp_request *request, cache_tree *ret_tree);

/* Now, and the grace that was asked for, ten minutes else. The same way to exit. */
int rules_read(const dpcpp_request *request, const char *grace, inspection_rules *ret_rules);
