/* SPDX-License-Identifier: Apache-2.0
 *
 * The nodes of a Redis cluster. An exchange goes to the node that has its slot; if that node names
 * a different one, the exchange is sent there. Which node has which slot is asked when it is first
 * needed, and again when a node fails or names a different one.
 *
 * Each node has its own breaker, since the others still serve their slots if it fails. The cluster
 * has one more, which opens if no node says who has which slot. Only the I/O thread uses a cluster,
 * except as noted.
 */
#pragma once

#include "store/network/prober.h"
#include "store/redis/exchange.h"
#include "store/remote/connector.h"

typedef struct kilni_redis_cluster kilni_redis_cluster;

/* Makes a cluster of which only the nodes in @server are known, which must outlive it. Connects to
 * nothing. Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_redis_cluster_new(const kilni_remote_server *server,
                                    kilni_redis_cluster **ret_cluster);

/* Frees a cluster that this process has stopped, or that it has never used. */
void kilni_redis_cluster_free(kilni_redis_cluster *cluster);

/* Of the cluster, not of a node. Threads: any. */
kilni_breaker *kilni_redis_cluster_breaker(kilni_redis_cluster *cluster);
kilni_prober *kilni_redis_cluster_prober(kilni_redis_cluster *cluster);

/* Whether it is known who has which slot. From then on, the cluster's breaker counts no more.
 * Threads: any. */
bool kilni_redis_cluster_has_map(const kilni_redis_cluster *cluster);

/* Returns why an exchange failed last. Threads: any. */
kilni_server_fault kilni_redis_cluster_fault(const kilni_redis_cluster *cluster);

/* Returns the number of the node that has a slot; 0: it is not known. Only a hint, since a slot may
 * move at any time. Threads: any. */
unsigned kilni_redis_cluster_owner(const kilni_redis_cluster *cluster, unsigned slot);

/* Returns the lowest slot above @slot that is the lowest one of its node; KILNI_REDIS_SLOTS: there
 * is none. Threads: any. */
unsigned kilni_redis_cluster_next(const kilni_redis_cluster *cluster, unsigned slot);

/* Sends an exchange. Ends it if that fails. */
void kilni_redis_cluster_send(kilni_redis_cluster *cluster, kilni_redis_exchange *exchange);

/* Closes all connections, and ends all exchanges with KILN_E_IO. Nothing may be sent later. */
void kilni_redis_cluster_stop(kilni_redis_cluster *cluster);
