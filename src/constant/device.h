/* SPDX-License-Identifier: Apache-2.0
 *
 * The caches of this process, one for each device, and the handles that devices go by.
 */
#pragma once

#include "constant/constants.h"

/* The first cache, from which next leads to the others; NULL: there is none. Without the lock. */
kiln_constant_cache *kilni_constant_cache_first(const kilni_constants *constants);

/* Whether this thread is in a function of a backend that one of them called, which is to wait for
 * no other: two such that waited for each other would never return. NULL: false. No lock held. */
bool kilni_constants_are_departing(const kilni_constants *constants);

/* The cache of a device, if there is one yet; else NULL. Without the lock. */
kiln_constant_cache *kilni_constant_cache_find(const kilni_constants *constants, uint32_t kind,
                                               uint32_t index);

/* The cache of a device by its handle; NULL: not bound. */
kiln_constant_cache *kilni_constant_cache_of_device(kilni_constants *constants, const void *device);
