/* SPDX-License-Identifier: Apache-2.0
 *
 * The nodes of a Redis cluster. An exchange goes to the node that has its slot. If that node names
 * a different node, the exchange is sent there. The cluster asks which node has which slot when it
 * first needs to know, and asks again when a node fails or names a different node.
 *
 * Each node has its own breaker, because the other nodes still serve their slots if one fails. The
 * cluster has an additional breaker, which opens if no node reports which node has which slot.
 * Except as noted, only the I/O thread uses a cluster.
 */
#pragma once

#include "store/network/prober.h"
#include "store/redis/exchange.h"
#include "store/remote/connector.h"

typedef struct kilni_redis_cluster kilni_redis_cluster;

/* Makes a cluster. At first, only the nodes in @server are known. @server must outlive the cluster.
 * The function connects to nothing. Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_redis_cluster_new(const kilni_remote_server *server,
                                    kilni_redis_cluster **ret_cluster);

/* Frees a cluster. This process must have stopped it, or must never have used it. */
void kilni_redis_cluster_free(kilni_redis_cluster *cluster);

/* Returns the breaker of the cluster, not of a node. Threads: any. */
kilni_breaker *kilni_redis_cluster_breaker(kilni_redis_cluster *cluster);
kilni_prober *kilni_redis_cluster_prober(kilni_redis_cluster *cluster);

/* Returns true if the cluster knows which node has which slot. From then on, the cluster's breaker
 * is ignored. Threads: any. */
bool kilni_redis_cluster_has_map(const kilni_redis_cluster *cluster);

/* Returns why an exchange last failed. Threads: any. */
kilni_server_fault kilni_redis_cluster_fault(const kilni_redis_cluster *cluster);

/* Returns the number of the node that has a slot; 0: unknown. The number is only a hint, because a
 * slot can move at any time. Threads: any. */
unsigned kilni_redis_cluster_owner(const kilni_redis_cluster *cluster, unsigned slot);

/* Returns the lowest slot above @slot that is the lowest slot of its node; KILNI_REDIS_SLOTS: there
 * is no such slot. Threads: any. */
unsigned kilni_redis_cluster_next(const kilni_redis_cluster *cluster, unsigned slot);

/* Sends an exchange, or ends it on failure. */
void kilni_redis_cluster_send(kilni_redis_cluster *cluster, kilni_redis_exchange *exchange);

/* Closes all connections, and ends all exchanges with KILN_E_IO. The caller must not send anything
 * later. */
void kilni_redis_cluster_stop(kilni_redis_cluster *cluster);
