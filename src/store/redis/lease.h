/* SPDX-License-Identifier: Apache-2.0
 *
 * A lease on a Redis server is a value that expires after a few seconds unless its holder renews
 * it. The I/O thread renews the lease until the lease is released or the process ends.
 */
#pragma once

#include "store/redis/client.h"

/* These functions implement the operations of kilni_connector with similar names. */
kiln_status kilni_redis_lease_take(kilni_redis_client *client, const char *name,
                                   uint64_t deadline_ns, kilni_remote_lease **ret_lease);
bool kilni_redis_lease_is_of_miss(const kilni_remote_lease *lease);
void kilni_redis_lease_release(kilni_remote_lease *lease);
