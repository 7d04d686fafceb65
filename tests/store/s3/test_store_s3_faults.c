/* SPDX-License-Identifier: Apache-2.0
 *
 * Stores in S3 buckets: locations and credentials that are refused, and answers that are late,
 * truncated, wrong or missing. The server is nginx, which keeps objects as S3 does, and ignores
 * signatures; lists and refusals are texts that a proxy sends in its place.
 */
#include "support/store_scene.h"

#include "os/clock.h"
#include "store/remote/loader.h"
#include "store/remote/state_path.h"
#include "support/fault_proxy.h"
#include "support/nginx_server.h"

#define SECRET "wJalrXUtnFEMI"
#define TOKEN "IQoJb3JpZ2lu"

static char scratch[SCRATCH_DIRECTORY_SIZE];
static nginx_server server;
static fault_proxy proxy;
static kiln_store *store; /* through the proxy */
static char messages[4096];

static void take_message(void *user, kiln_log_level level, const char *text)
{
    (void)user, (void)level;
    const size_t length = strlen(messages);
    snprintf(messages + length, sizeof messages - length, "%s\n", text);
}

static void expect_no_secret(const char *text)
{
    assert_null(strstr(text, SECRET));
    assert_null(strstr(text, TOKEN));
}

static kiln_status try_open(const char *location, const kiln_store_credentials *credentials,
                            kiln_error *error)
{
    const kiln_store_params params = {
        .struct_size = sizeof params, .log.write = take_message, .credentials = credentials};
    kiln_store_close(&store);
    return kiln_store_open(location, &params, &store, error);
}

static const char *location_of(const char *options)
{
    static char location[2 * SCRATCH_PATH_SIZE];
    snprintf(location, sizeof location, "s3://open/a?trust=any&endpoint=http://127.0.0.1:%u%s",
             proxy.port, options);
    return location;
}

/* A new store for each fault, since the breaker keeps its state. */
static void reopen(void)
{
    static const kiln_store_credentials credentials = {.struct_size = sizeof credentials,
                                                       .aws_access_key_id = "AKIAIOSFODNN7EXAMPLE",
                                                       .aws_secret_access_key = SECRET,
                                                       .aws_session_token = TOKEN};
    assert_int_equal(try_open(location_of(""), &credentials, NULL), KILN_OK);
}

static kiln_status put_first(void)
{
    return scratch_put(store, 1, 3000);
}

static kiln_status get_first(void)
{
    return scratch_get(store, 1);
}

/* A busy machine may miss the store's deadline, after which the store asks again later. */
static void expect(kiln_status (*do_it)(void))
{
    kiln_status status = KILN_E_IO;
    fault_proxy_set(&proxy, FAULT_NONE, 0, "");
    for (unsigned i = 0; i < 20 && status == KILN_E_IO; i++) {
        reopen();
        status = do_it();
    }
    assert_int_equal(status, KILN_OK);
}

static int set_up(void **state)
{
    (void)state;
    scratch_make(scratch);
    messages[0] = '\0';
    if (!nginx_start(&server, scratch, NULL)) {
        return -1;
    }
    fault_proxy_start(&proxy, server.port);
    expect(put_first);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    kiln_store_close(&store);
    fault_proxy_stop(&proxy);
    nginx_stop(&server);
    scratch_remove(scratch);
    return 0;
}

/* ---- what is refused at once ---- */

static void test_wrong_locations(void **state)
{
    (void)state;
    static const char *const locations[] = {
        "s3:kiln?trust=any",
        "s3://?trust=any",
        "s3://ab?trust=any",
        "s3://Kiln?trust=any",
        "s3://kiln//a?trust=any",
        "s3://kiln/../a?trust=any",
        "s3://kiln/a b?trust=any",
        "s3://a:" SECRET "@kiln?trust=any",
        "s3://kiln?trust=any&endpoint=ftp://a",
        "s3://kiln?trust=any&endpoint=http://",
        "s3://kiln?trust=any&endpoint=http://a/b",
        "s3://kiln?trust=any&endpoint=http://u@a",
        "s3://kiln?trust=any&endpoint=http://u%3A" SECRET "@a",
        "s3://kiln?trust=any&region=",
        "s3://kiln?trust=any&region=a.b",
    };
    for (size_t i = 0; i < sizeof locations / sizeof locations[0]; i++) {
        kiln_error error = {.struct_size = sizeof error};
        if (try_open(locations[i], NULL, &error) != KILN_E_PARSE) {
            fail_msg("%s: %s", locations[i], error.text);
        }
        expect_no_secret(error.text);
    }
}

static void write_file(const char *path, const char *text, mode_t mode)
{
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
    assert_int_equal(fchmod(file, mode), 0);
    close(file);
}

static void test_files_of_credentials(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        mode_t mode;
        kiln_status status;
    } files[] = {
        {"[default]\naws_access_key_id=a\naws_secret_access_key=" SECRET "\n", 0600, KILN_OK},
        {"[a]\naws_access_key_id=a\n[default]\n# =\n ; =\nregion = b\n\taws_access_key_id\t=\ta "
         "\r\n"
         "aws_secret_access_key = " SECRET "\naws_session_token=" TOKEN "=",
         0640, KILN_OK},
        {"[default]\naws_access_key_id=a\naws_secret_access_key=" SECRET "\n", 0644, KILN_E_DENIED},
        {"[default]\naws_access_key_id=a\n", 0600, KILN_E_INVALID},
        {"[default]\naws_secret_access_key=" SECRET "\n", 0600, KILN_E_INVALID},
        {"aws_access_key_id=a\naws_secret_access_key=" SECRET "\n", 0600, KILN_E_INVALID},
        {"[other]\naws_access_key_id=a\naws_secret_access_key=" SECRET "\n", 0600, KILN_E_INVALID},
        {"[default]\naws_access_key_id=a\naws_secret_access_key=" SECRET " b\n", 0600,
         KILN_E_INVALID},
        {"[default]\naws_access_key_id=a\naws_secret_access_key=" SECRET "\n"
         "aws_session_token=" TOKEN "\x01\n",
         0600, KILN_E_INVALID},
        {"[default]\naws_access_key_id=\naws_secret_access_key=" SECRET "\n", 0600, KILN_E_INVALID},
        {"", 0600, KILN_E_INVALID},
    };
    char options[SCRATCH_PATH_SIZE];
    const char *path = scratch_path(scratch, "credentials");
    snprintf(options, sizeof options, "&credentials-file=%s", path);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        kiln_error error = {.struct_size = sizeof error};
        write_file(path, files[i].text, files[i].mode);
        const kiln_status status = try_open(location_of(options), NULL, &error);
        if (status != files[i].status) {
            fail_msg("%zu: %d %s", i, (int)status, error.text);
        }
        expect_no_secret(error.text);
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(try_open(location_of(options), NULL, NULL), KILN_E_INVALID);
    /* A file that the location names takes precedence over the caller's keys. */
    const kiln_store_credentials keys = {
        .struct_size = sizeof keys, .aws_access_key_id = "a", .aws_secret_access_key = SECRET};
    assert_int_equal(try_open(location_of(options), &keys, NULL), KILN_E_INVALID);
    assert_int_equal(try_open(location_of(""), &keys, NULL), KILN_OK);
}

static void test_keys_of_the_caller(void **state)
{
    (void)state;
    static const kiln_store_credentials wrong[] = {
        {.struct_size = sizeof wrong[0], .aws_access_key_id = "a"},
        {.struct_size = sizeof wrong[0], .aws_secret_access_key = SECRET},
        {.struct_size = sizeof wrong[0],
         .aws_access_key_id = "a\r\nHost: b",
         .aws_secret_access_key = SECRET},
        {.struct_size = sizeof wrong[0],
         .aws_access_key_id = "a",
         .aws_secret_access_key = SECRET,
         .aws_session_token = TOKEN " b"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        kiln_error error = {.struct_size = sizeof error};
        assert_int_equal(try_open(location_of(""), &wrong[i], &error), KILN_E_INVALID);
        expect_no_secret(error.text);
    }
}

/* ---- answers ---- */

#define LENGTH(bytes) "Content-Length: " #bytes "\r\n\r\n"
#define CHUNKED "Transfer-Encoding: chunked\r\n\r\n"

/* What a look-up and a list return; texts are sent once, or endlessly. */
static const struct answer {
    const char *text;
    fault fault;
    kiln_status looked_up, listed;
    bool is_logged; /* as a refusal */
} answers[] = {
    {"HTTP/1.1 404 Not Found\r\n" LENGTH(0), FAULT_TEXT, KILN_MISS, KILN_E_IO, false},
    {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\n" LENGTH(0), FAULT_TEXT, KILN_MISS,
     KILN_E_IO, false},
    {"HTTP/1.1 403 Forbidden\r\n" LENGTH(48) "<Error><Code>RequestTimeTooSkewed</Code></Error>",
     FAULT_TEXT, KILN_E_DENIED, KILN_E_DENIED, true},
    {"HTTP/1.1 400 Bad Request\r\n" LENGTH(40) "<Error><Code>ExpiredToken</Code></Error>",
     FAULT_TEXT, KILN_E_DENIED, KILN_E_DENIED, true},
    {"HTTP/1.1 301 Moved Permanently\r\nx-amz-bucket-region: eu-west-1\r\n"
     "Location: http://127.0.0.1:1/\r\n" LENGTH(0),
     FAULT_TEXT, KILN_E_IO, KILN_E_IO, false},
    {"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:1/\r\n" LENGTH(0), FAULT_TEXT,
     KILN_E_IO, KILN_E_IO, false},
    {"HTTP/1.1 503 Slow Down\r\n" LENGTH(0), FAULT_TEXT, KILN_E_IO, KILN_E_IO, false},
    {"HTTP/1.1 200 OK\r\n" LENGTH(6) "<html>", FAULT_TEXT, KILN_E_CORRUPT, KILN_E_IO, false},
    {"HTTP/1.1 200 OK\r\n" LENGTH(0), FAULT_TEXT, KILN_E_CORRUPT, KILN_E_IO, false},
    {"HTTP/1.1 200 OK\r\n" LENGTH(19) "<ListBucketResult/>", FAULT_TEXT, KILN_E_CORRUPT, KILN_E_IO,
     false},
    /* Truncated bodies. */
    {"HTTP/1.1 200 OK\r\n" LENGTH(1000) "<ListBucketResult>", FAULT_TEXT, KILN_E_IO, KILN_E_IO,
     false},
    {"HTTP/1.1 200 OK\r\n" CHUNKED "3e8\r\n<ListBucketResult>", FAULT_TEXT, KILN_E_IO, KILN_E_IO,
     false},
    {"HTTP/1.1 403 Forbidden\r\n" LENGTH(1000) "<Error>", FAULT_TEXT, KILN_E_IO, KILN_E_IO, false},
    /* Bodies that are too large are not kept, and errors that are too large are not read to their
     * end. */
    {"HTTP/1.1 200 OK\r\n" LENGTH(1000000000000), FAULT_ENDLESS, KILN_MISS, KILN_E_IO, false},
    {"HTTP/1.1 200 OK\r\n" LENGTH(99999999999999999999), FAULT_TEXT, KILN_E_IO, KILN_E_IO, false},
    {"HTTP/1.1 404 Not Found\r\n" LENGTH(1000000000000), FAULT_ENDLESS, KILN_MISS, KILN_E_IO,
     false},
    {"HTTP/1.1 403 Forbidden\r\n" CHUNKED "fffffffff\r\n", FAULT_ENDLESS, KILN_E_DENIED,
     KILN_E_DENIED, true},
};

static int count_one(void *user, kiln_item *item)
{
    (void)item;
    ++*(unsigned *)user;
    return 0;
}

static kiln_status list_all(void)
{
    unsigned count = 0;
    const kiln_status status = kiln_store_each(store, count_one, &count);
    assert_int_equal(count, 0);
    return status;
}

/* A busy machine may miss the deadline, so this tries again unless a failure is expected. */
static void expect_status(kiln_status (*do_it)(void), kiln_status expected, const char *text)
{
    kiln_status status = KILN_E_IO;
    for (unsigned i = 0; i < (expected == KILN_E_IO ? 1 : 20) && status == KILN_E_IO; i++) {
        reopen();
        status = do_it();
    }
    if (status != expected) {
        fail_msg("%s: %d", text, (int)status);
    }
}

static void check_answer(const struct answer *answer)
{
    messages[0] = '\0';
    fault_proxy_set(&proxy, answer->fault, 0, answer->text);
    expect_status(get_first, answer->looked_up, answer->text);
    expect_status(list_all, answer->listed, answer->text);
    assert_int_equal(strstr(messages, "refuses this user") != NULL, answer->is_logged);
    expect_no_secret(messages);
}

static void test_answers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        check_answer(&answers[i]);
    }
    expect(get_first);
}

/* ---- lists ---- */

#define PAGE_BEGIN "<ListBucketResult><IsTruncated>"
#define PAGE_END "</ListBucketResult>"

static const char *page_of(char text[1024], const char *is_truncated, const char *more)
{
    char digest_text[KILN_DIGEST_TEXT_SIZE];
    char body[768];
    kiln_key *key = scratch_key(1);
    const kiln_digest digest = kiln_key_digest(key);
    kiln_key_release(&key);
    kiln_digest_format(&digest, digest_text);
    const int length = snprintf(body, sizeof body,
                                PAGE_BEGIN "%s</IsTruncated><Contents><Key>a/kiln-v1/%s</Key>"
                                           "</Contents>%s" PAGE_END,
                                is_truncated, digest_text, more);
    snprintf(text, 1024, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", length, body);
    return text;
}

static kiln_status list_of(const char *text, unsigned *ret_count)
{
    kiln_status status = KILN_E_IO;
    fault_proxy_set(&proxy, FAULT_TEXT, 0, text);
    for (unsigned i = 0; i < 20 && status == KILN_E_IO; i++) {
        reopen();
        *ret_count = 0;
        status = kiln_store_each(store, count_one, ret_count);
    }
    return status;
}

static void test_lists(void **state)
{
    (void)state;
    static char texts[3][1024]; /* the proxy may read them until it is stopped */
    unsigned count;
    assert_int_equal(list_of(page_of(texts[0], "false", ""), &count), KILN_OK);
    assert_int_equal(count, 1);
    /* Keys that nobody asked for. */
    assert_int_equal(list_of(page_of(texts[1], "false",
                                     "<Contents><Key>a</Key></Contents>"
                                     "<Contents><Key>a/kiln-v1/</Key></Contents>"
                                     "<Contents><Key></Key></Contents>"
                                     "<Contents><Key>b/kiln-v1/00000000000000000000000000000000"
                                     "</Key></Contents>"),
                             &count),
                     KILN_OK);
    assert_int_equal(count, 1);
    /* The server always sends the same page, and says that more pages follow. */
    assert_int_equal(list_of(page_of(texts[2], "true", ""), &count), KILN_E_IO);
    assert_int_equal(count, 1);
}

static kiln_status trim_all(kiln_trim_report *ret_report)
{
    const kiln_trim_params params = {.struct_size = sizeof params, .flags = KILN_TRIM_BY_SIZE};
    kiln_status status = KILN_E_IO;
    for (unsigned i = 0; i < 20 && status == KILN_E_IO; i++) {
        reopen();
        *ret_report = (kiln_trim_report){.struct_size = sizeof *ret_report};
        status = kiln_store_trim(store, &params, ret_report);
    }
    return status;
}

/* The answer to everything: a list of one entry, whose size is that of the answer. */
static const char *page_of_itself(char text[1024], const char *header)
{
    char digest_text[KILN_DIGEST_TEXT_SIZE];
    char body[768];
    int length = 0;
    kiln_key *key = scratch_key(1);
    const kiln_digest digest = kiln_key_digest(key);
    kiln_key_release(&key);
    kiln_digest_format(&digest, digest_text);
    for (unsigned i = 0; i < 3; i++) {
        length = snprintf(
            body, sizeof body,
            PAGE_BEGIN "false</IsTruncated><Contents><Key>a/kiln-v1/%s</Key><Size>%d</Size>"
                       "<LastModified>1994-11-06T08:49:37.000Z</LastModified></Contents>" PAGE_END,
            digest_text, length);
    }
    snprintf(text, 1024, "HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s", header, length, body);
    return text;
}

/* An entry may have been replaced after it was listed, unless the server says when it was put. */
static void test_removals_without_times(void **state)
{
    (void)state;
    static char texts[3][1024];
    kiln_trim_report report;
    fault_proxy_set(&proxy, FAULT_TEXT, 0, page_of_itself(texts[0], ""));
    assert_int_equal(trim_all(&report), KILN_OK);
    assert_int_equal(report.removed, 0);
    fault_proxy_set(&proxy, FAULT_TEXT, 0,
                    page_of_itself(texts[1], "Last-Modified: Sun, 06 Nov 1994 08:49:39 GMT\r\n"));
    assert_int_equal(trim_all(&report), KILN_OK);
    assert_int_equal(report.removed, 0);
    fault_proxy_set(&proxy, FAULT_TEXT, 0,
                    page_of_itself(texts[2], "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n"));
    assert_int_equal(trim_all(&report), KILN_OK);
    assert_int_equal(report.removed, 1);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_wrong_locations, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_files_of_credentials, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_keys_of_the_caller, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_answers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lists, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_removals_without_times, set_up, tear_down),
    };
    if (count != 2) {
        return 2;
    }
    nginx_require();
    kilni_remote_set_library(arguments[1]);
    kilni_remote_set_runtime_folder("/nonexistent");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
