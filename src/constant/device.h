/* SPDX-License-Identifier: Apache-2.0
 *
 * The caches of this process, one for each device, and the handles of devices.
 */
#pragma once

#include "constant/constants.h"

/* Returns the cache of a device, or NULL if there is none yet. The caller need not hold the lock.
 */
kiln_constant_cache *kilni_constant_cache_find(const kilni_constants *constants, uint32_t kind,
                                               uint32_t index);

/* Reads the limits of a device by its handle: the limits of its cache if the handle is bound,
 * otherwise the limits that are remembered for the handle. Returns KILN_OK; KILN_MISS: the handle
 * is not bound, and nothing was set for it. */
kiln_status kilni_constant_limits_of_device(kilni_constants *constants, const void *device,
                                            kilni_constant_limits *ret_limits);

/* Remembers limits for a device until a backend binds its handle.
 *
 * @ret_cache  [out] the cache if the handle is bound, in which case nothing is remembered;
 *                   otherwise NULL
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_constant_remember(kilni_constants *constants, const void *device,
                                    kilni_constant_limits wanted, kiln_constant_cache **ret_cache);

/* Returns the cache of a device, and makes it if there is none.
 *
 * @kind  a known kind
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_constant_cache_of(kilni_constants *constants, uint32_t kind, uint32_t index,
                                    kiln_constant_cache **ret_cache);

/* Binds a handle to a cache. The cache gets the limits that were remembered for the handle, unless
 * the limits of the cache's kind were set since then. Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_constant_bind(kilni_constants *constants, const void *device,
                                kiln_constant_cache *cache);
