/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the cache that a command line names, and the rules for its examination.
 */
#pragma once

#include "dpcpp.h"
#include "inspect.h"

/* Reads the cache that the request names. If the cache does not exist, reports this and returns an
 * empty tree. Ends the tool if the request is wrong or the cache cannot be read. */
cache_tree root_read(const dpcpp_request *request);

/* Returns rules with the current time and the requested grace period. If @grace is NULL, the grace
 * period is ten minutes. Ends the tool if @grace is not a number. */
inspection_rules rules_read(const dpcpp_request *request, const char *grace);
