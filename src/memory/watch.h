/* SPDX-License-Identifier: Apache-2.0
 *
 * Watches: one small structure with a count of references serves all watches on an object.
 */
#pragma once

#include "memory/memory.h"

/* Records in all watches of an object that it was removed from the cache. */
void kilni_watch_clear(kiln_watch *watch);
