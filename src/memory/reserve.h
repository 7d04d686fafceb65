/* SPDX-License-Identifier: Apache-2.0
 *
 * Reserves a key: the caller gets an object that exists, the answer of a flight that is under way,
 * or a ticket to build.
 */
#pragma once

#include <stdbool.h>

#include "memory/memory.h"

/* As kiln_cache_reserve.
 *
 * @ret_waited  whether another caller was building; written even if the call fails */
kiln_status kilni_cache_reserve(kiln_cache *cache, const kiln_key *key,
                                const kiln_reserve_params *params,
                                kiln_reservation *ret_reservation, bool *ret_waited,
                                kiln_error *error);
