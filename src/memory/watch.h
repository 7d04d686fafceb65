/* SPDX-License-Identifier: Apache-2.0
 *
 * Watches. All watches on an object share one small structure, which counts its references.
 */
#pragma once

#include "memory/memory.h"

/* Tells all watches on an object that the object was removed from the cache. */
void kilni_watch_clear(kiln_watch *watch);
