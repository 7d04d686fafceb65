/* SPDX-License-Identifier: Apache-2.0 */
#include "store/remote/server.h"

#include <string.h>

#include "base/error.h"

/* A part of the text of a location. */
typedef struct span {
    const char *at;
    size_t length;
} span;

static kiln_status complain(kiln_error *error, const char *what)
{
    return kilni_error_set(error, KILN_E_PARSE, 0,
                           "%s: expected [USER@]HOST[:PORT] after the //, and then %s", what,
                           "a /DATABASE, a /PATH or ,HOST[:PORT]…, as this kind of server has it");
}

/* Truncates @text at the first occurrence of a character, and sets @ret_rest to the text after that
 * character. Returns true if the character occurs. */
static bool cut(span *text, char at, span *ret_rest)
{
    const char *found = memchr(text->at, at, text->length);
    if (!found) {
        return false;
    }
    const size_t before = (size_t)(found - text->at);
    *ret_rest = (span){found + 1, text->length - before - 1};
    text->length = before;
    return true;
}

/* Copies a name. Returns false if the name is empty or too long, or if it contains a '%' or an
 * invisible character. */
static bool copy_name(span name, char *to, size_t size)
{
    if (name.length == 0 || name.length >= size) {
        return false;
    }
    for (size_t i = 0; i < name.length; i++) {
        if (name.at[i] <= ' ' || name.at[i] > '~' || name.at[i] == '%') {
            return false;
        }
    }
    memcpy(to, name.at, name.length);
    to[name.length] = '\0';
    return true;
}

static bool read_number(span digits, uint32_t most, uint32_t *ret_number)
{
    uint32_t number = 0;
    for (size_t i = 0; i < digits.length; i++) {
        if (digits.at[i] < '0' || digits.at[i] > '9') {
            return false;
        }
        number = 10 * number + (uint32_t)(digits.at[i] - '0');
        if (number > most) {
            return false;
        }
    }
    *ret_number = number;
    return digits.length > 0;
}

/* Splits "HOST", "HOST:PORT", "[ADDRESS]" or "[ADDRESS]:PORT". Sets @ret_port to an empty span if
 * there is no port. */
static bool split_host(span text, span *ret_host, span *ret_port)
{
    *ret_port = (span){0};
    if (text.length > 0 && text.at[0] == '[') {
        span address = {text.at + 1, text.length - 1};
        span rest;
        if (!cut(&address, ']', &rest)) {
            return false;
        }
        *ret_host = address;
        *ret_port = rest.length > 0 ? (span){rest.at + 1, rest.length - 1} : rest;
        return rest.length == 0 || (rest.at[0] == ':' && rest.length > 1);
    }
    const bool has_port = cut(&text, ':', ret_port);
    *ret_host = text;
    return !has_port || ret_port->length > 0;
}

/* Reads a host into @host, which has room for @size bytes. If there is a port, reads it too. */
static kiln_status read_host(span text, char *host, size_t size, uint16_t *port, kiln_error *error)
{
    span name;
    span digits;
    uint32_t number = *port;
    if (!split_host(text, &name, &digits) || !copy_name(name, host, size)) {
        return complain(error, "no host, or not a valid one");
    }
    if (digits.length > 0 && (!read_number(digits, UINT16_MAX, &number) || number == 0)) {
        return complain(error, "not a valid port");
    }
    *port = (uint16_t)number;
    return KILN_OK;
}

/* Reads the user name, which ends at the last @. A malformed name might contain another @. */
static kiln_status read_user(span *text, kilni_remote_server *server, kiln_error *error)
{
    const char *at = memrchr(text->at, '@', text->length);
    if (!at) {
        return KILN_OK;
    }
    const span user = {text->at, (size_t)(at - text->at)};
    text->length -= user.length + 1;
    text->at = at + 1;
    if (memchr(user.at, ':', user.length)) {
        return kilni_error_set(error, KILN_E_PARSE, 0,
                               "a URL must not contain a password, which others could read: use "
                               "password-file=");
    }
    return copy_name(user, server->user, sizeof server->user) ? KILN_OK
                                                              : complain(error, "not a valid user");
}

/* Reads "[USER@]HOST[:PORT]". If a '/' follows, sets @ret_rest to the text after it. The user is
 * checked first, so that no message shows a password that contains a slash. */
static kiln_status read_authority(span text, kilni_remote_server *server, span *ret_rest,
                                  kiln_error *error)
{
    const kiln_status status = read_user(&text, server, error);
    if (status != KILN_OK) {
        return status;
    }
    *ret_rest = (span){0};
    cut(&text, '/', ret_rest);
    return read_host(text, server->host, sizeof server->host, &server->port, error);
}

kiln_status kilni_remote_server_parse(const char *text, size_t length, uint16_t default_port,
                                      kilni_remote_server *ret_server, kiln_error *error)
{
    kilni_remote_server server = {.port = default_port};
    span database;
    const kiln_status status = read_authority((span){text, length}, &server, &database, error);
    if (status != KILN_OK) {
        return status;
    }
    if (database.length > 0 && !read_number(database, 1000000, &server.database)) {
        return complain(error, "not a valid database");
    }
    *ret_server = server;
    return KILN_OK;
}

kiln_status kilni_remote_server_parse_cluster(const char *text, size_t length,
                                              uint16_t default_port,
                                              kilni_remote_server *ret_server, kiln_error *error)
{
    kilni_remote_server server = {.port = default_port, .is_cluster = true};
    span rest = {text, length};
    span host = rest;
    kiln_status status = read_user(&host, &server, error);
    if (status == KILN_OK && memchr(text, '/', length)) {
        return complain(error, "a cluster has neither databases nor paths");
    }
    bool has_next = cut(&host, ',', &rest);
    if (status == KILN_OK) {
        status = read_host(host, server.host, sizeof server.host, &server.port, error);
    }
    while (status == KILN_OK && has_next && server.other_count < KILNI_REMOTE_OTHERS_MAX) {
        kilni_remote_node *node = &server.others[server.other_count++];
        host = rest;
        has_next = cut(&host, ',', &rest);
        node->port = default_port;
        status = read_host(host, node->host, sizeof node->host, &node->port, error);
    }
    if (status == KILN_OK && has_next) {
        return complain(error, "more than eight nodes");
    }
    if (status == KILN_OK) {
        *ret_server = server;
    }
    return status;
}

/* Returns true if a text is allowed as a part of a path. Excludes characters that have a meaning in
 * a URL, and characters that can be written in several ways. */
static bool is_segment(span text)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789-._~=,+";
    for (size_t i = 0; i < text.length; i++) {
        if (text.at[i] == '\0' || !strchr(allowed, text.at[i])) {
            return false;
        }
    }
    const bool is_relative =
        text.at && text.length <= 2 && text.at[0] == '.' && text.at[text.length - 1] == '.';
    return text.length > 0 && !is_relative;
}

bool kilni_remote_path_read(const char *text, size_t length, char *ret_path, size_t size)
{
    span rest = {text, length > 0 && text[length - 1] == '/' ? length - 1 : length};
    size_t at = 0;
    if (rest.length + 2 > size) {
        return false;
    }
    while (rest.length > 0) {
        span next = {0};
        const bool has_next = cut(&rest, '/', &next);
        if (!is_segment(rest) || (has_next && next.length == 0)) {
            return false;
        }
        ret_path[at++] = '/';
        memcpy(ret_path + at, rest.at, rest.length);
        at += rest.length;
        rest = next;
    }
    ret_path[at] = '\0';
    return true;
}

bool kilni_remote_bucket_read(const char *text, size_t length, char *ret_path, size_t size)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789.-_";
    const char *end = memchr(text, '/', length);
    const size_t bucket = end ? (size_t)(end - text) : length;
    return bucket >= 3 && bucket <= 63 && strspn(text, allowed) >= bucket &&
           kilni_remote_path_read(text, length, ret_path, size);
}

kiln_status kilni_remote_server_parse_http(const char *text, size_t length, uint16_t default_port,
                                           kilni_remote_server *ret_server, kiln_error *error)
{
    kilni_remote_server server = {.port = default_port};
    span path;
    const kiln_status status = read_authority((span){text, length}, &server, &path, error);
    if (status != KILN_OK) {
        return status;
    }
    if (!kilni_remote_path_read(path.at, path.length, server.path, sizeof server.path)) {
        return complain(error, "not a valid path, which consists of letters, digits and -._~=,+/");
    }
    *ret_server = server;
    return KILN_OK;
}

kiln_status kilni_remote_server_parse_socket(const char *path, kilni_remote_server *ret_server,
                                             kiln_error *error)
{
    kilni_remote_server server = {0};
    const size_t length = strlen(path);
    if (path[0] != '/' || length >= sizeof server.socket) {
        return kilni_error_set(error, KILN_E_PARSE, 0,
                               "expected the absolute path of a socket, of at most %zu bytes",
                               sizeof server.socket - 1);
    }
    memcpy(server.socket, path, length);
    *ret_server = server;
    return KILN_OK;
}
