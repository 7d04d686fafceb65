/* SPDX-License-Identifier: Apache-2.0
 *
 * A lease on a Redis server: a value that expires after a few seconds unless its holder renews it.
 * The I/O thread renews it until it is released or the process ends.
 */
#pragma once

#include "store/redis/client.h"

/* As the functions of kilni_connector with these names. */
kiln_status kilni_redis_lease_take(kilni_redis_client *client, const char *name,
                                   uint64_t deadline_ns, kilni_remote_lease **ret_lease);
bool kilni_redis_lease_is_of_miss(const kilni_remote_lease *lease);
void kilni_redis_lease_release(kilni_remote_lease *lease);
