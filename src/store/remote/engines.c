/* SPDX-License-Identifier: Apache-2.0
 *
 * The store engines for servers, and their URLs.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "key/hash.h"
#include "os/os.h"
#include "store/remote/loader.h"
#include "store/remote/remote.h"
#include "store/remote/server.h"
#include "store/remote/state_path.h"

#define REDIS_PORT 6379u
#define HTTP_PORT 80u
#define HTTPS_PORT 443u
#define MAX_ENTRY_BYTES ((uint64_t)16 << 20)

/* What distinguishes one kind of server from another. */
typedef struct server_kind {
    const char *connector; /* the symbol of the connector */
    kilni_remote_naming naming;
} server_kind;

static uint32_t capabilities_of(uint32_t flags)
{
    const bool has_leases = !(flags & (KILN_STORE_READONLY | KILN_STORE_NO_LEASE));
    return KILNI_STORE_SENDS | KILNI_STORE_FOREIGN |
           (flags & KILN_STORE_READONLY ? 0u : KILNI_STORE_WRITABLE) |
           (has_leases ? KILNI_STORE_LEASES : 0u);
}

/* The braces make a cluster keep an entry and its lease on the same node. */
static const server_kind redis_kind = {
    KILNI_REDIS_CONNECTOR, {"kiln:v1:{", "}", "kiln:v1:{", "}:damaged", "kiln:v1:{", "}:device"}};

static void add_text(kilni_hasher *hasher, const char *text)
{
    kilni_hasher_add(hasher, text ? text : "", text ? strlen(text) + 1 : 1);
}

/* The containers of one machine may share the folder with the state files, although they have
 * separate networks or clocks. So a server's identity includes the namespaces of both. */
static void add_namespaces(kilni_hasher *hasher)
{
    static const char *const paths[] = {"/proc/self/ns/net", "/proc/self/ns/time"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        struct stat stat;
        const bool is_known = kilni_os()->fstatat(AT_FDCWD, paths[i], &stat, 0) == 0;
        const uint64_t number = is_known ? stat.st_ino : 0;
        kilni_hasher_add(hasher, &number, sizeof number);
    }
}

/* Returns a digest of everything that determines whether a server can be reached. */
static kiln_digest identity_of(const kilni_remote_server *server)
{
    const uint32_t numbers[] = {server->port, server->is_encrypted, server->is_cluster,
                                (uint32_t)server->other_count};
    kilni_hasher hasher;
    kilni_hasher_begin(&hasher);
    add_text(&hasher, server->host);
    add_text(&hasher, server->socket);
    add_text(&hasher, server->ca_file);
    add_text(&hasher, server->certificate_file);
    kilni_hasher_add(&hasher, numbers, sizeof numbers);
    for (size_t i = 0; i < server->other_count; i++) {
        const uint32_t port = server->others[i].port;
        add_text(&hasher, server->others[i].host);
        kilni_hasher_add(&hasher, &port, sizeof port);
    }
    add_namespaces(&hasher);
    return kilni_hasher_end(&hasher);
}

/* Returns a digest of the place where the server keeps its values. */
static kiln_digest place_of(const kilni_remote_server *server)
{
    const uint32_t numbers[] = {server->port, server->database};
    kilni_hasher hasher;
    kilni_hasher_begin(&hasher);
    add_text(&hasher, server->host);
    add_text(&hasher, server->socket);
    add_text(&hasher, server->path);
    kilni_hasher_add(&hasher, numbers, sizeof numbers);
    return kilni_hasher_end(&hasher);
}

static kiln_status load_and_open(const server_kind *kind, const char *name,
                                 kilni_remote_server *server, const kilni_store_options *options,
                                 kiln_store **ret_store, kiln_error *error)
{
    const kilni_connector *connector;
    const kiln_status status = kilni_remote_load(kind->connector, &connector, error);
    if (status != KILN_OK) {
        return status;
    }
    server->password_file = options->password_file;
    server->password = options->password;
    server->token_file = options->token_file;
    server->access_key = options->access_key;
    server->secret_key = options->secret_key;
    server->session_token = options->session_token;
    server->credentials_file = options->access_key ? NULL : options->credentials_file;
    server->ca_file = options->ca_file;
    server->certificate_file = options->certificate_file;
    server->key_file = options->certificate_key_file;
    const kiln_digest identity = identity_of(server);
    const kiln_digest place = place_of(server);
    char *state_path = kilni_remote_state_path(options, "server", &identity);
    char *uses_path = kilni_remote_state_path(options, "uses", &place);
    server->state_file = state_path;
    const kiln_status opened =
        kilni_remote_open(name, connector, server, &kind->naming, options,
                          capabilities_of(options->flags), uses_path, ret_store, error);
    free(state_path);
    free(uses_path);
    return opened;
}

static const char *const url_options[] = {"readonly", "write",     "key-file", "secret-key-file",
                                          "valid",    "max-entry", "trust",    "password-file",
                                          "expire",   "lease",     "policy",   NULL};
static const char *const encrypted_options[] = {
    "readonly",  "write", "key-file",      "secret-key-file", "valid",
    "max-entry", "trust", "password-file", "expire",          "lease",
    "ca",        "cert",  "key",           "policy",          NULL};

/* ---- redis://[USER@]HOST[:PORT][/DATABASE], and rediss:// for encrypted connections ---- */

/* Refuses a URL with a password. A password can contain any character. Text that seems to begin the
 * options might still be part of the password. So any text with a colon before an @ is treated as a
 * password, and the message repeats no part of the URL. */
static kiln_status check_authority(const char *text, const char *path, kiln_error *error)
{
    const char *at = strrchr(path, '@');
    if (at && memchr(path, ':', (size_t)(at - path))) {
        return kilni_error_set(error, KILN_E_PARSE, 0,
                               "a URL must not contain a password, which others could read: "
                               "use password-file= (in an option, write %%40 for an @)");
    }
    return path == text ? kilni_error_set(error, KILN_E_PARSE, 0, "a URL needs // and a host")
                        : KILN_OK;
}

static kiln_status check_redis_url(const char *text, const char *path, kiln_error *error)
{
    kilni_remote_server server;
    const kiln_status status = check_authority(text, path, error);
    if (status != KILN_OK) {
        return status;
    }
    return kilni_remote_server_parse(path, strcspn(path, "?"), REDIS_PORT, &server, error);
}

static kiln_status open_host(const char *path, bool is_encrypted,
                             const kilni_store_options *options, kiln_store **ret_store,
                             kiln_error *error)
{
    kilni_remote_server server;
    const kiln_status status =
        kilni_remote_server_parse(path, strlen(path), REDIS_PORT, &server, error);
    server.is_encrypted = is_encrypted;
    return status == KILN_OK ? load_and_open(&redis_kind, path, &server, options, ret_store, error)
                             : status;
}

static kiln_status open_redis(const char *path, const kilni_store_options *options,
                              kiln_store **ret_store, kiln_error *error)
{
    return open_host(path, false, options, ret_store, error);
}

static kiln_status open_rediss(const char *path, const kilni_store_options *options,
                               kiln_store **ret_store, kiln_error *error)
{
    return open_host(path, true, options, ret_store, error);
}

const kilni_store_engine kilni_redis_engine = {
    .noun = "a Redis server",
    .scheme = "redis:",
    .options = url_options,
    .check_url = check_redis_url,
    .open = open_redis,
    .max_entry_bytes = MAX_ENTRY_BYTES,
    .needs_trust = true,
    .capabilities = capabilities_of,
};

const kilni_store_engine kilni_rediss_engine = {
    .noun = "a Redis server",
    .scheme = "rediss:",
    .options = encrypted_options,
    .check_url = check_redis_url,
    .open = open_rediss,
    .max_entry_bytes = MAX_ENTRY_BYTES,
    .needs_trust = true,
    .capabilities = capabilities_of,
};

/* ---- redis-cluster://[USER@]HOST[:PORT][,HOST[:PORT]…], and rediss-cluster:// ---- */

static kiln_status check_cluster_url(const char *text, const char *path, kiln_error *error)
{
    kilni_remote_server server;
    const kiln_status status = check_authority(text, path, error);
    return status == KILN_OK ? kilni_remote_server_parse_cluster(path, strcspn(path, "?"),
                                                                 REDIS_PORT, &server, error)
                             : status;
}

static kiln_status open_cluster_of(const char *path, bool is_encrypted,
                                   const kilni_store_options *options, kiln_store **ret_store,
                                   kiln_error *error)
{
    kilni_remote_server server;
    char *name = NULL;
    kiln_status status =
        kilni_remote_server_parse_cluster(path, strlen(path), REDIS_PORT, &server, error);
    if (status != KILN_OK) {
        return status;
    }
    if (asprintf(&name, "a node of the cluster %s", path) < 0) {
        return kilni_error_set(error, KILN_E_NO_MEMORY, 0, "out of memory");
    }
    server.is_encrypted = is_encrypted;
    status = load_and_open(&redis_kind, name, &server, options, ret_store, error);
    free(name);
    return status;
}

static kiln_status open_cluster(const char *path, const kilni_store_options *options,
                                kiln_store **ret_store, kiln_error *error)
{
    return open_cluster_of(path, false, options, ret_store, error);
}

static kiln_status open_encrypted_cluster(const char *path, const kilni_store_options *options,
                                          kiln_store **ret_store, kiln_error *error)
{
    return open_cluster_of(path, true, options, ret_store, error);
}

const kilni_store_engine kilni_redis_cluster_engine = {
    .noun = "a Redis cluster",
    .scheme = "redis-cluster:",
    .options = url_options,
    .check_url = check_cluster_url,
    .open = open_cluster,
    .max_entry_bytes = MAX_ENTRY_BYTES,
    .needs_trust = true,
    .capabilities = capabilities_of,
};

const kilni_store_engine kilni_rediss_cluster_engine = {
    .noun = "a Redis cluster",
    .scheme = "rediss-cluster:",
    .options = encrypted_options,
    .check_url = check_cluster_url,
    .open = open_encrypted_cluster,
    .max_entry_bytes = MAX_ENTRY_BYTES,
    .needs_trust = true,
    .capabilities = capabilities_of,
};

/* ---- redis+unix:///PATH ---- */

static kiln_status check_socket_url(const char *text, const char *path, kiln_error *error)
{
    (void)text;
    return path[0] == '/' ? KILN_OK
                          : kilni_error_set(error, KILN_E_PARSE, 0,
                                            "redis+unix: expected the absolute path of a socket, "
                                            "as in redis+unix:///path");
}

static kiln_status open_socket(const char *path, const kilni_store_options *options,
                               kiln_store **ret_store, kiln_error *error)
{
    kilni_remote_server server;
    const kiln_status status = kilni_remote_server_parse_socket(path, &server, error);
    return status == KILN_OK ? load_and_open(&redis_kind, path, &server, options, ret_store, error)
                             : status;
}

const kilni_store_engine kilni_redis_socket_engine = {
    .noun = "a Redis server",
    .scheme = "redis+unix:",
    .options = url_options,
    .check_url = check_socket_url,
    .open = open_socket,
    .max_entry_bytes = MAX_ENTRY_BYTES,
    .needs_trust = true,
    .capabilities = capabilities_of,
};

/* ---- http://[USER@]HOST[:PORT][/PATH], and https:// for encrypted connections ---- */

static const server_kind http_kind = {
    KILNI_HTTP_CONNECTOR, {"kiln-v1/", "", "kiln-v1-damaged/", "", "kiln-v1-devices/", ""}};

static const char *const http_options[] = {
    "secret-key-file", "valid",         "readonly",   "write", "key-file", "max-entry",
    "trust",           "password-file", "token-file", "lease", NULL};
static const char *const https_options[] = {
    "secret-key-file", "valid",      "readonly", "write", "key-file", "max-entry", "trust",
    "password-file",   "token-file", "ca",       "cert",  "key",      "lease",     NULL};

static kiln_status check_http_url(const char *text, const char *path, kiln_error *error)
{
    kilni_remote_server server;
    const kiln_status status = check_authority(text, path, error);
    return status == KILN_OK
               ? kilni_remote_server_parse_http(path, strcspn(path, "?"), HTTP_PORT, &server, error)
               : status;
}

static kiln_status open_http_host(const char *path, bool is_encrypted,
                                  const kilni_store_options *options, kiln_store **ret_store,
                                  kiln_error *error)
{
    kilni_remote_server server;
    const kiln_status status = kilni_remote_server_parse_http(
        path, strlen(path), is_encrypted ? HTTPS_PORT : HTTP_PORT, &server, error);
    server.is_encrypted = is_encrypted;
    return status == KILN_OK ? load_and_open(&http_kind, path, &server, options, ret_store, error)
                             : status;
}

static kiln_status open_http(const char *path, const kilni_store_options *options,
                             kiln_store **ret_store, kiln_error *error)
{
    return open_http_host(path, false, options, ret_store, error);
}

static kiln_status open_https(const char *path, const kilni_store_options *options,
                              kiln_store **ret_store, kiln_error *error)
{
    return open_http_host(path, true, options, ret_store, error);
}

const kilni_store_engine kilni_http_engine = {
    .noun = "an HTTP server",
    .scheme = "http:",
    .options = http_options,
    .check_url = check_http_url,
    .open = open_http,
    .max_entry_bytes = MAX_ENTRY_BYTES,
    .needs_trust = true,
    .capabilities = capabilities_of,
};

const kilni_store_engine kilni_https_engine = {
    .noun = "an HTTPS server",
    .scheme = "https:",
    .options = https_options,
    .check_url = check_http_url,
    .open = open_https,
    .max_entry_bytes = MAX_ENTRY_BYTES,
    .needs_trust = true,
    .capabilities = capabilities_of,
};

/* ---- s3://BUCKET[/PREFIX]?endpoint=…&region=… ---- */

#define USUAL_REGION "us-east-1"

static const server_kind s3_kind = {
    KILNI_S3_CONNECTOR, {"kiln-v1/", "", "kiln-v1-damaged/", "", "kiln-v1-devices/", ""}};

static const char *const s3_options[] = {"secret-key-file",
                                         "valid",
                                         "readonly",
                                         "write",
                                         "key-file",
                                         "max-entry",
                                         "trust",
                                         "endpoint",
                                         "region",
                                         "credentials-file",
                                         "ca",
                                         "cert",
                                         "key",
                                         "lease",
                                         NULL};

static kiln_status check_s3_url(const char *text, const char *path, kiln_error *error)
{
    char checked[sizeof((kilni_remote_server *)0)->path];
    const kiln_status status = check_authority(text, path, error);
    return status != KILN_OK ||
                   kilni_remote_bucket_read(path, strcspn(path, "?"), checked, sizeof checked)
               ? status
               : kilni_error_set(error, KILN_E_PARSE, 0,
                                 "s3: expected BUCKET[/PREFIX] after the //, of letters, digits "
                                 "and -._~=,+/");
}

/* Reads the endpoint. If there is none, uses Amazon's endpoint for the region. */
static kiln_status read_endpoint(const kilni_store_options *options, const char *region,
                                 kilni_remote_server *ret_server, kiln_error *error)
{
    char amazon[128];
    snprintf(amazon, sizeof amazon, "https://s3.%s.amazonaws.com", region);
    const char *endpoint = options->endpoint ? options->endpoint : amazon;
    const bool is_encrypted = strncmp(endpoint, "https:", 6) == 0;
    const char *host = strstr(endpoint, "//") + 2;
    kilni_remote_server server;
    const kiln_status status = kilni_remote_server_parse_http(
        host, strlen(host), is_encrypted ? HTTPS_PORT : HTTP_PORT, &server, error);
    if (status != KILN_OK) {
        return status;
    }
    if (server.user[0] != '\0' || server.path[0] != '\0') {
        return kilni_error_set(error, KILN_E_PARSE, 0,
                               "endpoint= expects http:// or https:// and HOST[:PORT]");
    }
    server.is_encrypted = is_encrypted;
    *ret_server = server;
    return KILN_OK;
}

static kiln_status open_s3(const char *path, const kilni_store_options *options,
                           kiln_store **ret_store, kiln_error *error)
{
    kilni_remote_server server = {.port = 0};
    const char *region = options->region ? options->region : USUAL_REGION;
    if (strlen(region) >= sizeof server.region ||
        strspn(region, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(region)) {
        return kilni_error_set(error, KILN_E_PARSE, 0,
                               "s3: a region consists of lowercase letters, digits and '-'");
    }
    const kiln_status status = read_endpoint(options, region, &server, error);
    if (status != KILN_OK) {
        return status;
    }
    kilni_remote_bucket_read(path, strlen(path), server.path, sizeof server.path);
    memcpy(server.region, region, strlen(region));
    return load_and_open(&s3_kind, path, &server, options, ret_store, error);
}

const kilni_store_engine kilni_s3_engine = {
    .noun = "a bucket of S3",
    .scheme = "s3:",
    .options = s3_options,
    .check_url = check_s3_url,
    .open = open_s3,
    .max_entry_bytes = MAX_ENTRY_BYTES,
    .needs_trust = true,
    .capabilities = capabilities_of,
};
