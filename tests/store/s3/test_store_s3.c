/* SPDX-License-Identifier: Apache-2.0
 *
 * A store in a bucket of a real S3 server: OpenStack Swift with s3api. All cases share the server,
 * and each has a prefix of its own.
 */
#include "support/server_conformance.h"

#include "support/swift_server.h"

static const char *script;
static char server_scratch[SCRATCH_DIRECTORY_SIZE];
static char scratch[SCRATCH_DIRECTORY_SIZE];
static swift_server server;
static unsigned case_number;
static char last_warning[512];

/* ---- the scene ---- */

/* The prefix has all characters that a prefix may have and that signatures escape. */
static const char *location_of_prefix(const char *prefix, const char *options)
{
    static char location[2 * SCRATCH_PATH_SIZE];
    snprintf(location, sizeof location, "s3://kiln/case-%u/%s?endpoint=http://127.0.0.1:%u&%s",
             case_number, prefix, server.port, options);
    return location;
}

static const char *location_of(const char *options)
{
    char all_options[SCRATCH_PATH_SIZE];
    snprintf(all_options, sizeof all_options, "credentials-file=%s/writer&%s", scratch, options);
    return location_of_prefix("a=,+~", all_options);
}

static void describe(kilni_remote_server *described)
{
    snprintf(described->host, sizeof described->host, "127.0.0.1");
    snprintf(described->path, sizeof described->path, "/kiln/case-%u/a=,+~", case_number);
    snprintf(described->region, sizeof described->region, "us-east-1");
    described->access_key = "kiln:writer";
    described->secret_key = "writer-secret";
    described->port = (uint16_t)server.port;
}

static void write_credentials(const char *name, const char *key, const char *secret)
{
    char text[512];
    const int length = snprintf(text, sizeof text,
                                "# of tests\n[other]\naws_access_key_id=x\n"
                                "[default]\naws_access_key_id = %s\n"
                                "aws_secret_access_key=%s\r\n[third]\naws_access_key_id=y\n",
                                key, secret);
    file_with(name, text, (size_t)length, 0600);
}

static int set_up(void **state)
{
    (void)state;
    last_warning[0] = '\0';
    case_number++;
    scratch_make(scratch);
    conformance = (conformance_scene){.location = location_of,
                                      .connector = KILNI_S3_CONNECTOR,
                                      .describe = describe,
                                      .before = "kiln-v1/",
                                      .behind = "",
                                      .before_damaged = "kiln-v1-damaged/",
                                      .behind_damaged = "",
                                      .folder = scratch,
                                      .has_lists = true,
                                      .is_trimmed = true};
    write_credentials("writer", "kiln:writer", "writer-secret");
    open_store(location_of("trust=any"));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    kiln_store_close(&store);
    scratch_remove(scratch);
    return 0;
}

static int start_server(void **state)
{
    (void)state;
    return swift_start(&server, server_scratch, script) ? 0 : -1;
}

static int stop_server(void **state)
{
    (void)state;
    swift_stop(&server);
    scratch_remove(server_scratch);
    return 0;
}

static void take_warning(void *user, kiln_log_level level, const char *text)
{
    (void)user, (void)level;
    snprintf(last_warning, sizeof last_warning, "%s", text);
}

static kiln_status try_open(const char *location, const kiln_store_credentials *credentials,
                            kiln_error *error)
{
    const kiln_store_params params = {
        .struct_size = sizeof params, .log.write = take_warning, .credentials = credentials};
    kiln_store_close(&store);
    return kiln_store_open(location, &params, &store, error);
}

/* ---- credentials ---- */

static kiln_store_credentials keys_of_writer(void)
{
    return (kiln_store_credentials){.struct_size = sizeof(kiln_store_credentials),
                                    .aws_access_key_id = "kiln:writer",
                                    .aws_secret_access_key = "writer-secret",
                                    .aws_region = "us-east-1"};
}

static void expect_refusal(const kiln_store_credentials *credentials)
{
    last_warning[0] = '\0';
    assert_int_equal(try_open(location_of_prefix("a", "trust=any"), credentials, NULL), KILN_OK);
    assert_int_equal(get(1), KILN_E_DENIED);
    assert_non_null(strstr(last_warning, "refuses this user"));
    assert_null(strstr(last_warning, credentials->aws_secret_access_key));
}

static void test_keys_of_the_caller(void **state)
{
    (void)state;
    kiln_store_credentials credentials = keys_of_writer();
    assert_int_equal(try_open(location_of_prefix("a", "trust=any"), &credentials, NULL), KILN_OK);
    assert_int_equal(put(1, 1000), KILN_OK);
    assert_int_equal(get(1), KILN_OK);
    credentials.aws_secret_access_key = "secret-of-nobody";
    expect_refusal(&credentials);
    credentials = keys_of_writer();
    credentials.aws_region = "eu-west-1";
    expect_refusal(&credentials);
}

/* The server ignores the token, but the signature must cover it. */
static void test_a_session_token(void **state)
{
    (void)state;
    kiln_store_credentials credentials = keys_of_writer();
    credentials.aws_session_token = "IQoJb3JpZ2luX2VjEXAMPLE//token==";
    assert_int_equal(try_open(location_of_prefix("a", "trust=any"), &credentials, NULL), KILN_OK);
    assert_int_equal(put(1, 1000), KILN_OK);
    assert_int_equal(get(1), KILN_OK);
}

static void test_a_reader(void **state)
{
    (void)state;
    char options[SCRATCH_PATH_SIZE];
    assert_int_equal(put(1, 1000), KILN_OK);
    write_credentials("reader", "kiln:reader", "reader-secret");
    snprintf(options, sizeof options, "trust=any&credentials-file=%s/reader", scratch);
    open_store(location_of_prefix("a=,+~", options));
    assert_int_equal(get(1), KILN_OK);
    assert_int_equal(get(2), KILN_MISS);
    assert_int_equal(put(2, 1000), KILN_E_DENIED);
    assert_int_equal(trim_to(store, 0, NULL), KILN_E_DENIED);
    assert_int_equal(get(1), KILN_OK);
}

/* The file is read for each question, because credentials that expire are renewed in it. */
static void test_credentials_change(void **state)
{
    (void)state;
    assert_int_equal(put(1, 1000), KILN_OK);
    write_credentials("writer", "kiln:writer", "wrong");
    assert_int_equal(get(1), KILN_E_DENIED);
    write_credentials("writer", "kiln:writer", "writer-secret");
    assert_int_equal(get(1), KILN_OK);
}

/* ---- lists ---- */

static int count_one(void *user, kiln_item *item)
{
    (void)item;
    ++*(unsigned *)user;
    return 0;
}

/* The bucket also has other keys, including an entry below a prefix that begins as ours does. A
 * page has four keys. */
static void test_lists_have_only_entries(void **state)
{
    (void)state;
    static const char *const others[] = {"kiln-v1/",      "kiln-v1/a&b", "kiln-v1/a<b",
                                         "kiln-v1/other", "kiln-v1/z",   "other"};
    unsigned count = 0;
    const kiln_store_credentials credentials = keys_of_writer();
    for (uint64_t i = 0; i < 6; i++) {
        assert_int_equal(put(i, 100), KILN_OK);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        plant_value(others[i], "x", 1);
    }
    assert_int_equal(try_open(location_of_prefix("a=,+~b", "trust=any"), &credentials, NULL),
                     KILN_OK);
    assert_int_equal(put(7, 100), KILN_OK);
    open_store(location_of("trust=any"));
    assert_int_equal(kiln_store_each(store, count_one, &count), KILN_OK);
    assert_int_equal(count, 6);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        CONFORMANCE_CASES(set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_keys_of_the_caller, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_session_token, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_reader, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_credentials_change, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lists_have_only_entries, set_up, tear_down),
    };
    if (count != 3) {
        return 2;
    }
    script = arguments[2];
    scratch_make(server_scratch);
    swift_require(server_scratch);
    kilni_remote_set_library(arguments[1]);
    kilni_remote_set_runtime_folder("/nonexistent");
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
