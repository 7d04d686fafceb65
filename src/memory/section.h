/* SPDX-License-Identifier: Apache-2.0
 *
 * Read sections, and the objects that wait for them to be left.
 */
#pragma once

#include "memory/memory.h"

/* Takes an object that nothing but a section can reach. */
void kilni_section_retire_locked(kilni_object *object);

/* What no section can see any more, to be destroyed once the lock is free. */
kilni_queue kilni_section_collect_locked(kiln_cache *cache);
