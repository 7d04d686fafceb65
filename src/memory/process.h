/* SPDX-License-Identifier: Apache-2.0
 *
 * Caches in a process that forks. The child gets them whole, with no lock held, and without
 * anything that only the parent's other threads could have ended.
 */
#pragma once

#include "memory/memory.h"

/* Handles forks from now on. Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_process_begin(void);

/* For a thread that ends: from now on no thread waits for what it owns, in any cache. */
void kilni_process_end_thread(void);

/* A cache is in the list from its creation to its last reference. */
void kilni_process_add(kiln_cache *cache);
void kilni_process_remove(kiln_cache *cache);
