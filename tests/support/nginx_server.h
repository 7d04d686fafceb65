/* SPDX-License-Identifier: Apache-2.0
 *
 * Real nginx servers for tests, with WebDAV's PUT and DELETE, on free ports of loopback. Their
 * files are below a scratch directory. A server is killed when the test ends.
 *
 *     /open/      anyone may do anything
 *     /readers/   anyone may GET, and user "writer" (password "of a writer") may do the rest
 *     /token/     only a client with the token "abc.DEF-123"
 *     /readonly/  no PUT
 *     /full/      no room
 *     /small/     files of at most 1,000 bytes
 *     /html/      the files have the type text/html
 *     /moved/     a redirection to /open/
 *     /conditional/    "If-None-Match: *" is honoured in a PUT (in the other places it is ignored)
 *     /unconditional/  a PUT with "If-None-Match" gets the answer 501
 *     /nomarkers/      names that end with ".lease" cannot be put
 *     /filling/        no room while there is a file data/is-full
 *     /recorded/       the method and the x-amz-date of each request are recorded in run/recorded
 */
#pragma once

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/clock.h"
#include "support/free_port.h"

typedef struct nginx_server {
    pid_t process; /* 0: the server does not run */
    unsigned port, tls_port;
    char folder[300]; /* of the server; the files are in its folder "data" */
} nginx_server;

/* Ends the test program as skipped if there is no server to test with. */
static inline void nginx_require(void)
{
    if (access("/usr/sbin/nginx", X_OK) != 0) {
        printf("no nginx: scripts/install-deps --fleet installs it\n");
        exit(77);
    }
}

static const char nginx_common[] =
    "daemon off; master_process off; pid run/pid; error_log run/error.log;\n"
    "events { worker_connections 256; }\n"
    "http {\n"
    "  access_log off; types {} default_type application/octet-stream;\n"
    "  client_body_temp_path run/b; proxy_temp_path run/p; fastcgi_temp_path run/f;\n"
    "  uwsgi_temp_path run/u; scgi_temp_path run/s;\n"
    "  client_max_body_size 64m; keepalive_requests 1000000; root data;\n"
    "  dav_methods PUT DELETE; create_full_put_path on;\n"
    "  log_format dated '$request_method $http_x_amz_date';\n"
    "  map $http_authorization $is_known { default 0; \"Bearer abc.DEF-123\" 1; }\n";

static const char nginx_locations[] =
    "    location /open/ {}\n"
    "    location /readers/ { limit_except GET {\n"
    "      auth_basic kiln; auth_basic_user_file users; } }\n"
    "    location /token/ { if ($is_known = 0) { return 401; } }\n"
    "    location /readonly/ { dav_methods off; alias data/open/; }\n"
    "    location /full/ { if ($request_method = PUT) { return 507; } }\n"
    "    location /small/ { client_max_body_size 1000; }\n"
    "    location /html/ { dav_methods off; default_type text/html; alias data/open/; }\n"
    "    location /moved/ { return 302 /open/; }\n"
    "    location /conditional/ { set $condition $request_method$http_if_none_match;\n"
    "      if (-f $request_filename) { set $condition $condition+; }\n"
    "      if ($condition = PUT*+) { return 412; } }\n"
    "    location /unconditional/ { if ($http_if_none_match) { return 501; } }\n"
    "    location ~ ^/nomarkers/.*\\.lease$ { return 403; }\n"
    "    location /nomarkers/ {}\n"
    "    location /filling/ { set $refused '';\n"
    "      if (-f $document_root/is-full) { set $refused $request_method; }\n"
    "      if ($refused = PUT) { return 507; } }\n"
    "    location /recorded/ { access_log run/recorded dated; }\n";

static inline void nginx_write(const nginx_server *server, const char *name, const char *text)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s", server->folder, name);
    FILE *file = fopen(path, "w");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0) {
        abort();
    }
}

static inline void nginx_configure(const nginx_server *server, const char *tls)
{
    char text[8192];
    char encrypted[4096] = "";
    if (tls) {
        snprintf(encrypted, sizeof encrypted, "  server { listen 127.0.0.1:%u ssl; %s\n%s  }\n",
                 server->tls_port, tls, nginx_locations);
    }
    const int length =
        snprintf(text, sizeof text, "%s  server { listen 127.0.0.1:%u;\n%s  }\n%s}\n", nginx_common,
                 server->port, nginx_locations, encrypted);
    if (length >= (int)sizeof text) {
        abort();
    }
    nginx_write(server, "nginx.conf", text);
    nginx_write(server, "users", "writer:{PLAIN}of a writer\n");
}

static inline void nginx_run(const nginx_server *server)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr)) {
        _exit(126);
    }
    execl("/usr/sbin/nginx", "nginx", "-p", server->folder, "-c", "nginx.conf", "-e",
          "run/error.log", (char *)NULL);
    _exit(127);
}

/* Starts a server on its ports. Returns false if it does not accept connections. */
static inline bool nginx_start_again(nginx_server *server)
{
    server->process = fork();
    if (server->process == 0) {
        nginx_run(server);
    }
    for (unsigned i = 0; i < 1000; i++) {
        if (port_is_open(server->port)) {
            return true;
        }
        if (waitpid(server->process, NULL, WNOHANG) == server->process) {
            server->process = 0;
            return false;
        }
        kilni_sleep_ns(10000000);
    }
    return false;
}

/* Starts a server. Tries several ports, because another program may take a port that has just been
 * free.
 *
 * @folder  a scratch directory
 * @tls     the lines of nginx's configuration about certificates; NULL: only plain connections */
static inline bool nginx_start(nginx_server *server, const char *folder, const char *tls)
{
    static const char *const folders[] = {"", "/run", "/data", "/data/open"};
    char path[400];
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        snprintf(server->folder, sizeof server->folder, "%s/nginx", folder);
        snprintf(path, sizeof path, "%s%s", server->folder, folders[i]);
        mkdir(path, 0700);
    }
    for (unsigned i = 0; i < 5; i++) {
        server->port = free_port();
        server->tls_port = free_port();
        nginx_configure(server, tls);
        if (nginx_start_again(server)) {
            return true;
        }
    }
    return false;
}

static inline void nginx_stop(nginx_server *server)
{
    if (server->process > 0) {
        kill(server->process, SIGKILL);
        while (waitpid(server->process, NULL, 0) < 0 && errno == EINTR) {
        }
        server->process = 0;
    }
}
