/* SPDX-License-Identifier: Apache-2.0
 *
 * The caches of this process, one for each device, and the handles that devices go by.
 */
#pragma once

#include "constant/constants.h"

/* The cache of a device, if there is one yet; else NULL. Without the lock. */
kiln_constant_cache *kilni_constant_cache_find(const kilni_constants *constants, uint32_t kind,
                                               uint32_t index);

/* The cache of a device by its handle; NULL: not bound. */
kiln_constant_cache *kilni_constant_cache_of_device(kilni_constants *constants, const void *device);

/* The cache of a device, which is made if there is none. @kind  a known one
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_constant_cache_of(kilni_constants *constants, uint32_t kind, uint32_t index,
                                    kiln_constant_cache **ret_cache);

/* Gives a cache a handle to be found by. Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_constant_bind(kilni_constants *constants, const void *device,
                                kiln_constant_cache *cache);
