/* SPDX-License-Identifier: Apache-2.0
 *
 * Caches in a process that forks: the child gets them whole, with no lock held, and without what
 * only the parent's other threads could have ended.
 */
#pragma once

#include "memory/memory.h"

/* Sees to forks from now on. KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_process_begin(void);

/* For a thread that ends: others needn't wait for what it owns, in any cache. */
void kilni_process_end_thread(void);

/* Each cache is known from its making to its last reference. */
void kilni_process_add(kiln_cache *cache);
void kilni_process_remove(kiln_cache *cache);
