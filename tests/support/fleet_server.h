/* SPDX-License-Identifier: Apache-2.0
 *
 * The kinds of servers that a fleet can share, each a real server on loopback. A test program that
 * includes this runs one of them at a time.
 */
#pragma once

#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "support/certificates.h"
#include "support/nginx_server.h"
#include "support/redis_cluster.h"
#include "support/store_scene.h"
#include "support/swift_server.h"

typedef struct fleet_server {
    const char *name;
    /* Ends the test program as skipped if the server is not installed. */
    void (*require)(void);
    bool (*start)(const char *folder);
    void (*stop)(void);
    /* Returns the port that a store needs; a cluster has several, and then it is NULL. */
    unsigned (*port)(void);
    /* Writes the location of a store on the server, which is reached at a port. */
    void (*locate)(char *location, size_t size, unsigned port);
    unsigned handover_ms; /* after the death of a holder, the longest time to the next one */
    unsigned after_ms;    /* how long a put and the release of a lease take, roughly */
    unsigned at_once;     /* how many programs the server can cope with at the same time */
    /* What can happen to a server. NULL: it is not tested with this server. */
    void (*set_silent)(bool is_silent);
    void (*restart)(void);
    void (*set_full)(bool is_full);
    void (*evict_leases)(void);
    void (*fail_over)(void); /* a master fails, and its replica takes over */
} fleet_server;

/* The path of swift_server.py. */
static const char *fleet_swift_script;

/* ---- Redis ---- */

static redis_server fleet_redis;
static unsigned fleet_redis_port; /* with TLS, the port for that */
static char fleet_folder[SCRATCH_DIRECTORY_SIZE];

static const char *const fleet_no_options[] = {NULL};

static inline bool fleet_redis_start(const char *folder)
{
    const bool is_up = redis_start(&fleet_redis, folder, fleet_no_options);
    fleet_redis_port = fleet_redis.port;
    return is_up;
}

static inline void fleet_redis_stop(void)
{
    redis_stop(&fleet_redis);
}

static inline unsigned fleet_redis_port_of(void)
{
    return fleet_redis_port;
}

static inline void fleet_redis_locate(char *location, size_t size, unsigned port)
{
    snprintf(location, size, "redis://127.0.0.1:%u?trust=any", port);
}

/* The server has no copy on disk, so it comes back empty. */
static inline void fleet_redis_restart(void)
{
    redis_stop(&fleet_redis);
    if (!redis_start_again(&fleet_redis, fleet_no_options)) {
        abort();
    }
}

static inline void fleet_redis_fill(const redis_server *server, bool is_full)
{
    redis_say(server, "CONFIG SET maxmemory-policy noeviction");
    redis_say(server, is_full ? "CONFIG SET maxmemory 1" : "CONFIG SET maxmemory 0");
}

static inline void fleet_redis_set_full(bool is_full)
{
    fleet_redis_fill(&fleet_redis, is_full);
}

static inline void fleet_redis_evict(const redis_server *server)
{
    redis_say(server, "EVAL \"for _, name in ipairs(redis.call('KEYS', '*:lease')) do "
                      "redis.call('DEL', name) end\" 0");
}

static inline void fleet_redis_evict_leases(void)
{
    fleet_redis_evict(&fleet_redis);
}

static inline void fleet_redis_set_silent(bool is_silent)
{
    kill(fleet_redis.process, is_silent ? SIGSTOP : SIGCONT);
}

/* ---- Redis through TLS ---- */

static inline void fleet_rediss_require(void)
{
    redis_require();
    certificates_require();
}

static inline bool fleet_make_certificates(const char *folder)
{
    snprintf(fleet_folder, sizeof fleet_folder, "%s", folder);
    return certificates_make_authority(folder, "ca") &&
           certificates_make(folder, "ca", "server", "IP:127.0.0.1");
}

static inline bool fleet_rediss_start(const char *folder)
{
    char port[16], pem[SCRATCH_PATH_SIZE], key[SCRATCH_PATH_SIZE], ca[SCRATCH_PATH_SIZE];
    const char *const options[] = {"--tls-port",
                                   port,
                                   "--tls-cert-file",
                                   pem,
                                   "--tls-key-file",
                                   key,
                                   "--tls-ca-cert-file",
                                   ca,
                                   "--tls-auth-clients",
                                   "no",
                                   NULL};
    bool is_up = false;
    snprintf(pem, sizeof pem, "%s/server.pem", folder);
    snprintf(key, sizeof key, "%s/server.key", folder);
    snprintf(ca, sizeof ca, "%s/ca.pem", folder);
    if (!fleet_make_certificates(folder)) {
        return false;
    }
    for (unsigned i = 0; i < 5 && !is_up; i++) {
        fleet_redis_port = free_port();
        snprintf(port, sizeof port, "%u", fleet_redis_port);
        is_up = redis_start(&fleet_redis, folder, options);
    }
    return is_up;
}

static inline void fleet_rediss_locate(char *location, size_t size, unsigned port)
{
    snprintf(location, size, "rediss://127.0.0.1:%u?trust=any&ca=%s/ca.pem", port, fleet_folder);
}

/* ---- a Redis cluster ---- */

static redis_cluster fleet_cluster;

#define FLEET_NAMES ".kiln.test" /* the end of the nodes' names */

/* Set by a test program that replaces getaddrinfo: the nodes announce names. */
static bool fleet_cluster_has_names;

static inline bool fleet_cluster_announce_names(void)
{
    char command[128], name[32];
    bool is_done = true;
    for (unsigned i = 0; i < REDIS_NODES; i++) {
        snprintf(command, sizeof command,
                 "CONFIG SET cluster-announce-hostname node-%u" FLEET_NAMES
                 " cluster-preferred-endpoint-type hostname",
                 i);
        is_done = is_done && strcmp(redis_say(&fleet_cluster.nodes[i], command), "+OK\r\n") == 0;
    }
    for (unsigned i = 0; i < REDIS_NODES * REDIS_NODES && is_done; i++) {
        snprintf(name, sizeof name, "node-%u" FLEET_NAMES, i % REDIS_NODES);
        is_done = redis_cluster_wait(&fleet_cluster.nodes[i / REDIS_NODES], "CLUSTER SLOTS", name);
    }
    return is_done;
}

static inline bool fleet_cluster_start(const char *folder)
{
    return fleet_make_certificates(folder) && redis_cluster_start(&fleet_cluster, folder, folder) &&
           (!fleet_cluster_has_names || fleet_cluster_announce_names());
}

static inline void fleet_cluster_stop(void)
{
    redis_cluster_stop(&fleet_cluster);
}

static inline void fleet_cluster_locate(char *location, size_t size, unsigned port)
{
    (void)port;
    const char *const hosts[] = {fleet_cluster_has_names ? "node-0" FLEET_NAMES : "127.0.0.1",
                                 fleet_cluster_has_names ? "node-1" FLEET_NAMES : "127.0.0.1"};
    snprintf(location, size, "redis-cluster://%s:%u,%s:%u?trust=any", hosts[0],
             fleet_cluster.nodes[0].port, hosts[1], fleet_cluster.nodes[1].port);
}

static inline void fleet_cluster_set_silent(bool is_silent)
{
    for (unsigned i = 0; i < REDIS_NODES; i++) {
        kill(fleet_cluster.nodes[i].process, is_silent ? SIGSTOP : SIGCONT);
    }
}

static inline void fleet_cluster_set_full(bool is_full)
{
    for (unsigned i = 0; i < REDIS_NODES; i++) {
        fleet_redis_fill(&fleet_cluster.nodes[i], is_full);
    }
}

static inline void fleet_cluster_evict_leases(void)
{
    for (unsigned i = 0; i < REDIS_MASTERS; i++) {
        fleet_redis_evict(&fleet_cluster.nodes[i]);
    }
}

/* Restarts the masters. A restarted node accepts writes again after two seconds. */
static inline void fleet_cluster_restart(void)
{
    for (unsigned i = 0; i < REDIS_MASTERS; i++) {
        redis_stop(&fleet_cluster.nodes[i]);
        if (!redis_cluster_run_node(&fleet_cluster, i)) {
            abort();
        }
    }
}

static inline void fleet_cluster_fail_over(void)
{
    redis_stop(&fleet_cluster.nodes[0]);
    redis_say(&fleet_cluster.nodes[REDIS_REPLICA], "CLUSTER FAILOVER TAKEOVER");
}

/* ---- HTTP, and S3 ---- */

static nginx_server fleet_nginx;

static inline bool fleet_nginx_start(const char *folder)
{
    return nginx_start(&fleet_nginx, folder, NULL);
}

static inline void fleet_nginx_stop(void)
{
    nginx_stop(&fleet_nginx);
}

static inline unsigned fleet_nginx_port(void)
{
    return fleet_nginx.port;
}

static inline void fleet_http_locate(char *location, size_t size, unsigned port)
{
    snprintf(location, size, "http://127.0.0.1:%u/filling?trust=any", port);
}

/* S3 with conditional puts, for which nginx stands in. */
static inline void fleet_conditional_locate(char *location, size_t size, unsigned port)
{
    snprintf(location, size, "s3://conditional?endpoint=http://127.0.0.1:%u&trust=any", port);
}

static inline void fleet_nginx_set_silent(bool is_silent)
{
    kill(fleet_nginx.process, is_silent ? SIGSTOP : SIGCONT);
}

static inline void fleet_nginx_restart(void)
{
    nginx_stop(&fleet_nginx);
    if (!nginx_start_again(&fleet_nginx)) {
        abort();
    }
}

static inline void fleet_nginx_set_full(bool is_full)
{
    char path[400];
    snprintf(path, sizeof path, "%s/data/is-full", fleet_nginx.folder);
    if (is_full) {
        nginx_write(&fleet_nginx, "data/is-full", "");
    } else {
        unlink(path);
    }
}

static inline int fleet_remove_marker(const char *path, const struct stat *stat, int kind,
                                      struct FTW *place)
{
    (void)stat, (void)kind, (void)place;
    const char *end = strrchr(path, '.');
    return end && strcmp(end, ".lease") == 0 ? unlink(path) : 0;
}

static inline void fleet_nginx_evict_leases(void)
{
    char path[400];
    snprintf(path, sizeof path, "%s/data", fleet_nginx.folder);
    nftw(path, fleet_remove_marker, 16, FTW_PHYS);
}

static swift_server fleet_swift;

static inline void fleet_swift_require(void)
{
    char folder[SCRATCH_DIRECTORY_SIZE];
    scratch_make(folder);
    swift_require(folder);
    scratch_remove(folder);
}

static inline bool fleet_swift_start(const char *folder)
{
    char path[SCRATCH_PATH_SIZE];
    snprintf(fleet_folder, sizeof fleet_folder, "%s", folder);
    snprintf(path, sizeof path, "%s/writer", folder);
    FILE *file = fopen(path, "w");
    return file && fchmod(fileno(file), 0600) == 0 &&
           fputs("[default]\naws_access_key_id=kiln:writer\n"
                 "aws_secret_access_key=writer-secret\n",
                 file) >= 0 &&
           fclose(file) == 0 && swift_start(&fleet_swift, folder, fleet_swift_script);
}

static inline void fleet_swift_stop(void)
{
    swift_stop(&fleet_swift);
}

static inline unsigned fleet_swift_port(void)
{
    return fleet_swift.port;
}

static inline void fleet_swift_set_silent(bool is_silent)
{
    kill(fleet_swift.process, is_silent ? SIGUSR1 : SIGUSR2);
}

static inline void fleet_swift_restart(void)
{
    kill(fleet_swift.process, SIGHUP);
}

/* Removes a file of an object whose name ends as those of markers do. */
static inline int fleet_remove_object(const char *path, const struct stat *stat, int kind,
                                      struct FTW *place)
{
    (void)stat, (void)kind, (void)place;
    char metadata[4096];
    const ssize_t size = getxattr(path, "user.swift.metadata", metadata, sizeof metadata);
    return size > 0 && memmem(metadata, (size_t)size, ".lease", 6) ? unlink(path) : 0;
}

static inline void fleet_swift_evict_leases(void)
{
    char path[SCRATCH_PATH_SIZE];
    snprintf(path, sizeof path, "%s/devices", fleet_folder);
    nftw(path, fleet_remove_object, 16, FTW_PHYS);
}

static inline void fleet_swift_locate(char *location, size_t size, unsigned port)
{
    snprintf(location, size,
             "s3://kiln/fleet?endpoint=http://127.0.0.1:%u&credentials-file=%s/writer&trust=any",
             port, fleet_folder);
}

/* ---- all of them ---- */

static const fleet_server fleet_servers[] = {
    {
        .name = "redis",
        .require = redis_require,
        .start = fleet_redis_start,
        .stop = fleet_redis_stop,
        .port = fleet_redis_port_of,
        .locate = fleet_redis_locate,
        .handover_ms = 5000,
        .after_ms = 15,
        .at_once = 20,
        .set_silent = fleet_redis_set_silent,
        .restart = fleet_redis_restart,
        .set_full = fleet_redis_set_full,
        .evict_leases = fleet_redis_evict_leases,
    },
    {
        .name = "rediss",
        .require = fleet_rediss_require,
        .start = fleet_rediss_start,
        .stop = fleet_redis_stop,
        .port = fleet_redis_port_of,
        .locate = fleet_rediss_locate,
        .handover_ms = 5000,
        .after_ms = 15,
        .at_once = 5,
        .set_silent = fleet_redis_set_silent,
        .set_full = fleet_redis_set_full,
        .evict_leases = fleet_redis_evict_leases,
    },
    {
        .name = "redis-cluster",
        .require = fleet_rediss_require,
        .start = fleet_cluster_start,
        .stop = fleet_cluster_stop,
        .locate = fleet_cluster_locate,
        .handover_ms = 5000,
        .after_ms = 15,
        .at_once = 20,
        .set_silent = fleet_cluster_set_silent,
        .restart = fleet_cluster_restart,
        .set_full = fleet_cluster_set_full,
        .evict_leases = fleet_cluster_evict_leases,
        .fail_over = fleet_cluster_fail_over,
    },
    {
        .name = "http",
        .require = nginx_require,
        .start = fleet_nginx_start,
        .stop = fleet_nginx_stop,
        .port = fleet_nginx_port,
        .locate = fleet_http_locate,
        .handover_ms = 15000,
        .after_ms = 15,
        .at_once = 20,
        .set_silent = fleet_nginx_set_silent,
        .restart = fleet_nginx_restart,
        .set_full = fleet_nginx_set_full,
        .evict_leases = fleet_nginx_evict_leases,
    },
    {
        .name = "s3-conditional",
        .require = nginx_require,
        .start = fleet_nginx_start,
        .stop = fleet_nginx_stop,
        .port = fleet_nginx_port,
        .locate = fleet_conditional_locate,
        .handover_ms = 15000,
        .after_ms = 15,
        .at_once = 20,
        .set_silent = fleet_nginx_set_silent,
        .restart = fleet_nginx_restart,
        .evict_leases = fleet_nginx_evict_leases,
    },
    {
        .name = "s3",
        .require = fleet_swift_require,
        .start = fleet_swift_start,
        .stop = fleet_swift_stop,
        .port = fleet_swift_port,
        .locate = fleet_swift_locate,
        .handover_ms = 15000,
        .after_ms = 100,
        .at_once = 5,
        .set_silent = fleet_swift_set_silent,
        .restart = fleet_swift_restart,
        .evict_leases = fleet_swift_evict_leases,
    },
};

/* Returns the server of this name; NULL: there is none. */
static inline const fleet_server *fleet_server_named(const char *name)
{
    for (size_t i = 0; i < sizeof fleet_servers / sizeof fleet_servers[0]; i++) {
        if (strcmp(fleet_servers[i].name, name) == 0) {
            return &fleet_servers[i];
        }
    }
    return NULL;
}
