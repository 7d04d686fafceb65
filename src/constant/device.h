/* SPDX-License-Identifier: Apache-2.0
 *
 * The caches of this process, one for each device, and the handles of devices.
 */
#pragma once

#include "constant/constants.h"

/* Returns the cache of a device, or NULL if there is none yet. The caller does not hold the lock.
 */
kiln_constant_cache *kilni_constant_cache_find(const kilni_constants *constants, uint32_t kind,
                                               uint32_t index);

/* Returns the cache of a device by its handle; NULL: not bound. */
kiln_constant_cache *kilni_constant_cache_of_device(kilni_constants *constants, const void *device);

/* Returns the cache of a device, and makes it if there is none.
 *
 * @kind  a known one
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_constant_cache_of(kilni_constants *constants, uint32_t kind, uint32_t index,
                                    kiln_constant_cache **ret_cache);

/* Binds a handle to a cache. Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_constant_bind(kilni_constants *constants, const void *device,
                                kiln_constant_cache *cache);
