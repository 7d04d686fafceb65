/* SPDX-License-Identifier: Apache-2.0
 *
 * Watches: one small structure with a count of references serves all watches on an object.
 */
#pragma once

#include "memory/memory.h"

/* Tells all watches that the object left the cache. */
void kilni_watch_clear(kiln_watch *watch);
