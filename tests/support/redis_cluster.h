/* SPDX-License-Identifier: Apache-2.0
 *
 * A real Redis cluster for tests, on loopback: three masters, and a replica of the first one. The
 * nodes serve with and without TLS.
 */
#pragma once

#include "support/redis_server.h"

#define REDIS_MASTERS 3u
#define REDIS_REPLICA 3u /* the index of the replica */
#define REDIS_NODES 4u
#define REDIS_SLOTS 16384u

typedef struct redis_cluster {
    redis_server nodes[REDIS_NODES];
    unsigned tls_ports[REDIS_NODES], bus_ports[REDIS_NODES];
    const char *folder, *certificates; /* as in redis_cluster_start */
    char ids[REDIS_NODES][41];
} redis_cluster;

/* Starts a node at its ports. A node that runs again has the slots that it had, and no entries. */
static inline bool redis_cluster_run_node(redis_cluster *cluster, unsigned index)
{
    redis_server *node = &cluster->nodes[index];
    char file[32], bus[16], tls[16], pem[280], key[280], ca[280];
    snprintf(file, sizeof file, "nodes-%u.conf", node->port);
    snprintf(tls, sizeof tls, "%u", cluster->tls_ports[index]);
    snprintf(bus, sizeof bus, "%u", cluster->bus_ports[index]);
    snprintf(pem, sizeof pem, "%.256s/server.pem", cluster->certificates);
    snprintf(key, sizeof key, "%.256s/server.key", cluster->certificates);
    snprintf(ca, sizeof ca, "%.256s/ca.pem", cluster->certificates);
    const char *const options[] = {"--dir",
                                   cluster->folder,
                                   "--cluster-enabled",
                                   "yes",
                                   "--cluster-config-file",
                                   file,
                                   "--cluster-port",
                                   bus,
                                   "--cluster-require-full-coverage",
                                   "no",
                                   "--repl-diskless-sync-delay",
                                   "0",
                                   "--tls-cluster",
                                   "yes",
                                   "--tls-replication",
                                   "yes",
                                   "--tls-port",
                                   tls,
                                   "--tls-cert-file",
                                   pem,
                                   "--tls-key-file",
                                   key,
                                   "--tls-ca-cert-file",
                                   ca,
                                   "--tls-auth-clients",
                                   "no",
                                   NULL};
    return redis_start_again(node, options);
}

/* Starts a node. Tries several ports, because another program may take a port that has just been
 * free. */
static inline bool redis_cluster_start_node(redis_cluster *cluster, unsigned index)
{
    redis_server *node = &cluster->nodes[index];
    bool is_up = false;
    snprintf(node->socket, sizeof node->socket, "%.80s/node-%u", cluster->folder, index);
    for (unsigned i = 0; i < 5 && !is_up; i++) {
        node->port = free_port();
        cluster->tls_ports[index] = free_port();
        cluster->bus_ports[index] = free_port();
        is_up = redis_cluster_run_node(cluster, index);
    }
    return is_up;
}

/* Waits until the reply of a node to a command contains a text. */
static inline bool redis_cluster_wait(const redis_server *node, const char *command,
                                      const char *text)
{
    for (unsigned i = 0; i < 3000; i++) {
        if (strstr(redis_say(node, command), text)) {
            return true;
        }
        kilni_sleep_ns(10000000);
    }
    return false;
}

static inline void redis_cluster_introduce(redis_cluster *cluster, unsigned index)
{
    const redis_server *node = &cluster->nodes[index];
    char command[256];
    const char *id = strchr(redis_say(node, "CLUSTER MYID"), '\n');
    snprintf(cluster->ids[index], sizeof cluster->ids[index], "%.40s", id ? id + 1 : "");
    snprintf(command, sizeof command, "CLUSTER SET-CONFIG-EPOCH %u", index + 1);
    redis_say(node, command);
    if (index < REDIS_MASTERS) {
        snprintf(command, sizeof command, "CLUSTER ADDSLOTSRANGE %u %u",
                 index * REDIS_SLOTS / REDIS_MASTERS,
                 (index + 1) * REDIS_SLOTS / REDIS_MASTERS - 1);
        redis_say(node, command);
    }
    if (index > 0) {
        snprintf(command, sizeof command, "CLUSTER MEET 127.0.0.1 %u %u", cluster->tls_ports[0],
                 cluster->bus_ports[0]);
        redis_say(node, command);
    }
}

/* Starts a cluster. Takes about three seconds, since a node accepts writes only then.
 *
 * @folder        the folder for the sockets and the nodes' files
 * @certificates  the folder of server.pem, server.key and ca.pem
 * Both must outlive the cluster. */
static inline bool redis_cluster_start(redis_cluster *cluster, const char *folder,
                                       const char *certificates)
{
    char command[64];
    bool is_up = true;
    cluster->folder = folder;
    cluster->certificates = certificates;
    for (unsigned i = 0; i < REDIS_NODES && is_up; i++) {
        is_up = redis_cluster_start_node(cluster, i);
    }
    for (unsigned i = 0; i < REDIS_NODES && is_up; i++) {
        redis_cluster_introduce(cluster, i);
    }
    for (unsigned i = 0; i < REDIS_NODES && is_up; i++) {
        is_up = redis_cluster_wait(&cluster->nodes[i], "CLUSTER INFO", "cluster_known_nodes:4");
    }
    snprintf(command, sizeof command, "CLUSTER REPLICATE %s", cluster->ids[0]);
    is_up = is_up && redis_cluster_wait(&cluster->nodes[REDIS_REPLICA], command, "+OK") &&
            redis_cluster_wait(&cluster->nodes[REDIS_REPLICA], "INFO replication",
                               "master_link_status:up");
    for (unsigned i = 0; i < REDIS_NODES && is_up; i++) {
        is_up =
            redis_cluster_wait(&cluster->nodes[i], "CLUSTER INFO", "cluster_state:ok") &&
            redis_cluster_wait(&cluster->nodes[i], "CLUSTER INFO", "cluster_slots_assigned:16384");
    }
    return is_up;
}

static inline void redis_cluster_stop(redis_cluster *cluster)
{
    for (unsigned i = 0; i < REDIS_NODES; i++) {
        redis_stop(&cluster->nodes[i]);
    }
}
