/* SPDX-License-Identifier: Apache-2.0
 *
 * The connector of plain HTTP servers. Each name is a file.
 */
#include <openssl/evp.h>
#include <string.h>

#include "base/error.h"
#include "store/http/lease.h"
#include "store/http/objects.h"
#include "store/network/secret_file.h"

#define NS_PER_MS UINT64_C(1000000)

/* ---- credentials ---- */

/* Returns true if a text contains only characters that are allowed in a line of a request. */
static bool is_visible(const char *text)
{
    for (; *text; text++) {
        if (*text <= ' ' || *text > '~') {
            return false;
        }
    }
    return true;
}

static kiln_status append_token(const char *path, kilni_text *text, kiln_error *error)
{
    char token[KILNI_SECRET_SIZE];
    kiln_status status = kilni_secret_file_read_line(path, "token file", token, error);
    if (status == KILN_OK && !is_visible(token)) {
        status =
            kilni_error_set(error, KILN_E_INVALID, 0,
                            "token file %s: must begin with a line of visible characters", path);
    }
    if (status == KILN_OK) {
        status = kilni_text_printf(text, "Authorization: Bearer %s\r\n", token);
    }
    explicit_bzero(token, sizeof token);
    return status;
}

/* Appends the header line with "USER:PASSWORD", encoded in Base64. */
static kiln_status append_encoded(const char *user, const char *password, kilni_text *text)
{
    unsigned char encoded[4 * (KILNI_SECRET_SIZE + 64) / 3 + 4];
    kilni_text plain = {0};
    kiln_status status = kilni_text_reserve(&plain, strlen(user) + strlen(password) + 1);
    if (status == KILN_OK) {
        status = kilni_text_printf(&plain, "%s:%s", user, password);
    }
    if (status == KILN_OK) {
        EVP_EncodeBlock(encoded, (const unsigned char *)plain.bytes, (int)plain.length);
        status = kilni_text_printf(text, "Authorization: Basic %s\r\n", (const char *)encoded);
    }
    if (plain.bytes) {
        explicit_bzero(plain.bytes, plain.length);
    }
    explicit_bzero(encoded, sizeof encoded);
    kilni_text_done(&plain);
    return status;
}

static kiln_status append_password(const kilni_remote_server *server, kilni_text *text,
                                   kiln_error *error)
{
    char password[KILNI_SECRET_SIZE];
    kiln_status status =
        kilni_secret_file_read_line(server->password_file, "password file", password, error);
    if (status == KILN_OK) {
        status = append_encoded(server->user, password, text);
    }
    explicit_bzero(password, sizeof password);
    return status;
}

static kiln_status append_credentials(const kilni_remote_server *server, kilni_text *text,
                                      kiln_error *error)
{
    if (server->password_file) {
        return append_password(server, text, error);
    }
    return server->token_file ? append_token(server->token_file, text, error) : KILN_OK;
}

/* Reads the files again for each request, because they may have changed. */
static kiln_status authorize(const kilni_remote_server *server, const char *host,
                             const kilni_http_question *question, kilni_text *text)
{
    (void)host, (void)question;
    return append_credentials(server, text, NULL);
}

static kiln_status check(const kilni_remote_server *server, kiln_error *error)
{
    if ((server->user[0] != '\0') != (server->password_file != NULL)) {
        return kilni_error_set(error, KILN_E_INVALID, 0,
                               "a user and password-file= need each other");
    }
    kilni_text text = {0};
    const kiln_status status = append_credentials(server, &text, error);
    if (text.bytes) {
        explicit_bzero(text.bytes, text.length);
    }
    kilni_text_done(&text);
    return status;
}

/* ---- the connector ---- */

static const kilni_http_kind kind = {
    .authorize = authorize,
    .check = check,
    .connecting_ns = 250 * NS_PER_MS,
    .new_answer_ns = 250 * NS_PER_MS,
    .answer_ns = 500 * NS_PER_MS,
    .put_answer_ns = 2000 * NS_PER_MS,
};

static kiln_status open(const kilni_remote_server *server, kilni_remote **ret_remote,
                        kiln_error *error)
{
    return kilni_http_open(&kind, server, ret_remote, error);
}

/* HTTP has no standard way to list files. */
static kiln_status list(kilni_remote *remote, const char *prefix,
                        char cursor[KILNI_REMOTE_CURSOR_SIZE], uint64_t deadline_ns,
                        kilni_remote_visit_fn *visit, void *user)
{
    (void)remote, (void)prefix, (void)cursor, (void)deadline_ns, (void)visit, (void)user;
    return KILN_E_UNSUPPORTED;
}

KILN_API extern const kilni_connector kiln_remote_http_connector;

const kilni_connector kiln_remote_http_connector = {
    .version = KILNI_CONNECTOR_VERSION,
    .open = open,
    .close = kilni_http_close,
    .limit_calls = kilni_call_limit_thread,
    .get = kilni_http_get,
    .get_head = kilni_http_get_head,
    .ask_many = kilni_http_ask_many,
    .contains = kilni_http_contains,
    .put = kilni_http_put,
    .remove = kilni_http_remove,
    .list = list,
    .lease = kilni_http_lease_take,
    .lease_pause_ns = KILNI_HTTP_LEASE_PAUSE_NS,
    .lease_release = kilni_http_lease_release,
    .fault = kilni_http_fault,
    .is_away = kilni_http_is_away,
};
