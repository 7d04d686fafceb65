/* SPDX-License-Identifier: Apache-2.0
 *
 * Reserves a key. The caller gets an object that exists already, or the answer of a flight that is
 * under way, or a ticket with which it builds the object.
 */
#pragma once

#include <stdbool.h>

#include "memory/memory.h"

/* Does the same as kiln_cache_reserve, and returns one more result:
 *
 * @ret_waited  [out] true if another caller was already building; written even if the call fails */
kiln_status kilni_cache_reserve(kiln_cache *cache, const kiln_key *key,
                                const kiln_reserve_params *params,
                                kiln_reservation *ret_reservation, bool *ret_waited,
                                kiln_error *error);
