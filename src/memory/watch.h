/* SPDX-License-Identifier: Apache-2.0
 *
 * Watches: one small counted word for all watches on an object.
 */
#pragma once

#include "memory/memory.h"

/* Says to all watches that the object left the cache. */
void kilni_watch_turn(kiln_watch *watch);
