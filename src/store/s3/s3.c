/* SPDX-License-Identifier: Apache-2.0
 *
 * The connector of S3. Each name is an object in a bucket, which is the first component of the
 * server's path.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "store/http/lease.h"
#include "store/http/objects.h"
#include "store/s3/credentials.h"
#include "store/s3/list.h"
#include "store/s3/sign.h"

#define NS_PER_MS UINT64_C(1000000)
#define PAGE_BYTES (UINT64_C(4) << 20) /* of a list of 1,000 keys with up to 1,024 bytes each */

/* ---- credentials ---- */

/* Reads the credentials again for each request, because they may have changed. */
static kiln_status authorize(const kilni_remote_server *server, const char *host,
                             const kilni_http_question *question, kilni_text *text)
{
    kilni_s3_credentials credentials;
    kiln_status status = kilni_s3_credentials_read(server, &credentials, NULL);
    if (status != KILN_OK) {
        return status;
    }
    if (credentials.access_key) {
        const kilni_s3_signer signer = {.access_key = credentials.access_key,
                                        .secret_key = credentials.secret_key,
                                        .session_token = credentials.session_token,
                                        .region = server->region};
        status = kilni_s3_append_signature(&signer, host, question, time(NULL), text);
    }
    kilni_s3_credentials_done(&credentials);
    return status;
}

static kiln_status check(const kilni_remote_server *server, kiln_error *error)
{
    kilni_s3_credentials credentials;
    const kiln_status status = kilni_s3_credentials_read(server, &credentials, error);
    if (status == KILN_OK) {
        kilni_s3_credentials_done(&credentials);
    }
    return status;
}

/* ---- lists ---- */

/* The argument of visit_key, which finds the name in each key and visits it. */
typedef struct name_visit {
    const char *before; /* the part of each key before the name, without the slash in between;
                           "": none */
    kilni_remote_visit_fn *visit;
    void *user;
} name_visit;

static void visit_key(void *user, const kilni_s3_key *key)
{
    const name_visit *names = user;
    const size_t length = strlen(names->before);
    kilni_remote_listed listed = {
        .name = key->text, .name_size = key->text_size, .size = key->size, .put_s = key->put_s};
    if (length > 0) {
        if (key->text_size <= length || memcmp(key->text, names->before, length) != 0 ||
            key->text[length] != '/') {
            return;
        }
        listed.name += length + 1;
        listed.name_size -= length + 1;
    }
    names->visit(names->user, &listed);
}

/* Returns the part of the path after the bucket. The keys of all names begin with this part. */
static const char *key_prefix_of(const kilni_remote_server *server)
{
    const char *behind = strchr(server->path + 1, '/');
    return behind ? behind + 1 : "";
}

/* Appends "list-type=2&prefix=…&start-after=…". The fields are in the order that signatures
 * require. */
static kiln_status append_query(const char *before, const char *prefix, const char *cursor,
                                kilni_text *query)
{
    kilni_text_append(query, "list-type=2&prefix=");
    kilni_http_append_escaped(query, before, false);
    kilni_http_append_escaped(query, before[0] != '\0' ? "/" : "", false);
    kilni_http_append_escaped(query, prefix, false);
    if (cursor[0] != '\0') {
        kilni_text_append(query, "&start-after=");
        kilni_http_append_escaped(query, cursor, false);
    }
    return query->has_failed ? KILN_E_NO_MEMORY : KILN_OK;
}

static bool is_behind(const char *key, size_t size, const char *cursor)
{
    const size_t length = strlen(cursor);
    const int order = memcmp(key, cursor, size < length ? size : length);
    return order > 0 || (order == 0 && size > length);
}

static kiln_status read_page(const kilni_remote_bytes *bytes, name_visit *names,
                             char cursor[KILNI_REMOTE_CURSOR_SIZE])
{
    kilni_s3_page page;
    const char *text = (const char *)bytes->data;
    if (!kilni_s3_page_read(text, bytes->size, visit_key, names, &page)) {
        return KILN_E_IO;
    }
    const bool has_next = page.has_more && page.last_key_size > 0;
    if (!has_next) {
        cursor[0] = '\0';
        return page.has_more ? KILN_E_IO : KILN_OK;
    }
    /* The next page must begin after this one. Otherwise the listing would never end. */
    if (page.last_key_size >= KILNI_REMOTE_CURSOR_SIZE ||
        memchr(page.last_key, '\0', page.last_key_size) ||
        !is_behind(page.last_key, page.last_key_size, cursor)) {
        return KILN_E_IO;
    }
    memcpy(cursor, page.last_key, page.last_key_size);
    cursor[page.last_key_size] = '\0';
    return KILN_OK;
}

static kiln_status list(kilni_remote *remote, const char *prefix,
                        char cursor[KILNI_REMOTE_CURSOR_SIZE], uint64_t deadline_ns,
                        kilni_remote_visit_fn *visit, void *user)
{
    const char *before = key_prefix_of(remote->server);
    char bucket[sizeof remote->server->path];
    const size_t bucket_size = strcspn(remote->server->path + 1, "/") + 1;
    memcpy(bucket, remote->server->path, bucket_size);
    bucket[bucket_size] = '\0';
    kilni_text query = {0};
    kilni_remote_bytes bytes = {0};
    kiln_status status = append_query(before, prefix, cursor, &query);
    if (status == KILN_OK) {
        status = kilni_http_get_text(remote, bucket, query.bytes, PAGE_BYTES, deadline_ns, &bytes);
        /* The bucket does not exist, or the answer is not a list. */
        status = status == KILN_MISS || status == KILN_E_TOO_LARGE ? KILN_E_IO : status;
    }
    if (status == KILN_OK) {
        name_visit names = {.before = before, .visit = visit, .user = user};
        status = read_page(&bytes, &names, cursor);
    }
    free(bytes.data);
    kilni_text_done(&query);
    return status;
}

/* ---- the connector ---- */

/* Amazon answers 400 if a session token has expired, or if the region is not that of the bucket. */
static const kilni_http_kind kind = {
    .authorize = authorize,
    .check = check,
    .refusal = 400,
    .has_conditions = true,
    .connecting_ns = 500 * NS_PER_MS,
    .new_answer_ns = 2000 * NS_PER_MS,
    .answer_ns = 2000 * NS_PER_MS,
    .put_answer_ns = 5000 * NS_PER_MS,
};

static kiln_status open(const kilni_remote_server *server, kilni_remote **ret_remote,
                        kiln_error *error)
{
    return kilni_http_open(&kind, server, ret_remote, error);
}

KILN_API extern const kilni_connector kiln_remote_s3_connector;

const kilni_connector kiln_remote_s3_connector = {
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
    .remove_judged = kilni_http_remove_judged,
    .list = list,
    .lease = kilni_http_lease_take,
    .lease_pause_ns = KILNI_HTTP_LEASE_PAUSE_NS,
    .lease_release = kilni_http_lease_release,
    .fault = kilni_http_fault,
    .is_away = kilni_http_is_away,
};
