/* SPDX-License-Identifier: Apache-2.0
 *
 * A store on a real HTTP server: nginx with WebDAV.
 */
#include "support/server_conformance.h"

#include "support/certificates.h"
#include "support/nginx_server.h"

static char scratch[SCRATCH_DIRECTORY_SIZE];
static char certificates[SCRATCH_DIRECTORY_SIZE];
static nginx_server server;
static char last_warning[512];

/* ---- the scene ---- */

static const char *location_in(const char *folder, const char *options)
{
    static char location[2 * SCRATCH_PATH_SIZE];
    snprintf(location, sizeof location, "http://127.0.0.1:%u/%s?%s", server.port, folder, options);
    return location;
}

static const char *location_of(const char *options)
{
    return location_in("open/store", options);
}

static void describe(kilni_remote_server *described)
{
    snprintf(described->host, sizeof described->host, "127.0.0.1");
    snprintf(described->path, sizeof described->path, "/open/store");
    described->port = (uint16_t)server.port;
}

static int set_up(void **state)
{
    (void)state;
    last_warning[0] = '\0';
    scratch_make(scratch);
    conformance = (conformance_scene){.location = location_of,
                                      .connector = KILNI_HTTP_CONNECTOR,
                                      .describe = describe,
                                      .before = "kiln-v1/",
                                      .behind = "",
                                      .folder = scratch};
    char tls[2048];
    snprintf(tls, sizeof tls,
             "ssl_certificate %s/server.pem; ssl_certificate_key %s/server.key;"
             "ssl_client_certificate %s/ca.pem; ssl_verify_client optional;"
             "set $w \"$request_method:$ssl_client_verify\";"
             "if ($w ~ ^(PUT|DELETE):(?!SUCCESS)) { return 403; }",
             certificates, certificates, certificates);
    if (!nginx_start(&server, scratch, tls)) {
        return -1;
    }
    open_store(location_of("trust=any"));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    kiln_store_close(&store);
    nginx_stop(&server);
    scratch_remove(scratch);
    return 0;
}

static int make_certificates(void **state)
{
    (void)state;
    scratch_make(certificates);
    return certificates_make_authority(certificates, "ca") &&
                   certificates_make_authority(certificates, "other") &&
                   certificates_make(certificates, "ca", "server", "DNS:localhost,IP:127.0.0.1") &&
                   certificates_make(certificates, "ca", "client", "DNS:client")
               ? 0
               : -1;
}

static int remove_certificates(void **state)
{
    (void)state;
    scratch_remove(certificates);
    return 0;
}

static void take_warning(void *user, kiln_log_level level, const char *text)
{
    (void)user, (void)level;
    snprintf(last_warning, sizeof last_warning, "%s", text);
}

static kiln_status try_open(const char *location, const char *token_file, kiln_error *error)
{
    const kiln_store_credentials credentials = {.struct_size = sizeof credentials,
                                                .http_token_file = token_file};
    const kiln_store_params params = {
        .struct_size = sizeof params, .log.write = take_warning, .credentials = &credentials};
    kiln_store_close(&store);
    return kiln_store_open(location, &params, &store, error);
}

static void open_with(const char *location, const char *token_file)
{
    kiln_error error = {.struct_size = sizeof error};
    if (try_open(location, token_file, &error) != KILN_OK) {
        fail_msg("%s: %s", location, error.text);
    }
}

/* ---- names ---- */

/* Files are in the folder of the URL, and a server's other files are not touched. */
static void test_places(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_SIZE];
    assert_int_equal(put(1, 1000), KILN_OK);
    snprintf(path, sizeof path, "%s/data/open/store/%s", server.folder, name_of(1));
    assert_int_equal(access(path, R_OK), 0);
    open_store(location_in("open/", "trust=any"));
    assert_int_equal(get(1), KILN_MISS);
    assert_int_equal(put(1, 1000), KILN_OK);
    snprintf(path, sizeof path, "%s/data/open/%s", server.folder, name_of(1));
    assert_int_equal(access(path, R_OK), 0);
    snprintf(path, sizeof path, "http://localhost:%u/open?trust=any", server.port);
    open_store(path);
    assert_int_equal(get(1), KILN_OK);
}

/* ---- users ---- */

static void test_passwords(void **state)
{
    (void)state;
    char location[3 * SCRATCH_PATH_SIZE];
    open_with(location_in("readers", "trust=any"), NULL);
    assert_int_equal(get(1), KILN_MISS);
    assert_int_equal(put(1, 100), KILN_E_DENIED);
    assert_non_null(strstr(last_warning, "refuses this user"));
    const char *file = file_with("password", "of a writer\n", 12, 0600);
    snprintf(location, sizeof location,
             "http://writer@127.0.0.1:%u/readers?trust=any&password-file=%s", server.port, file);
    open_with(location, NULL);
    assert_int_equal(put(1, 100), KILN_OK);
    assert_int_equal(get(1), KILN_OK);
    assert_int_equal(remove_number(1), KILN_OK);
    /* The file of the password is read again. */
    file_with("password", "of nobody\n", 10, 0600);
    assert_int_equal(put(1, 100), KILN_E_DENIED);
    assert_null(strstr(last_warning, "nobody"));
    assert_int_equal(get(1), KILN_MISS);
}

/* After a server has refused a put, it gets no further put for a minute. */
static void test_refused_puts_rest(void **state)
{
    (void)state;
    char location[3 * SCRATCH_PATH_SIZE];
    const char *file = file_with("password", "wrong\n", 6, 0600);
    snprintf(location, sizeof location,
             "http://writer@127.0.0.1:%u/readers?trust=any&password-file=%s", server.port, file);
    open_with(location, NULL);
    assert_int_equal(put(1, 100), KILN_E_DENIED);
    file_with("password", "of a writer\n", 12, 0600);
    assert_int_equal(put(1, 100), KILN_E_DENIED);
    open_with(location, NULL);
    assert_int_equal(put(1, 100), KILN_OK);
}

static void test_tokens(void **state)
{
    (void)state;
    char options[SCRATCH_PATH_SIZE];
    const char *file = file_with("token", "abc.DEF-123\n", 12, 0600);
    open_with(location_in("token", "trust=any"), file);
    assert_int_equal(put(1, 100), KILN_OK);
    assert_int_equal(get(1), KILN_OK);
    snprintf(options, sizeof options, "trust=any&token-file=%s",
             file_with("other", "wrong", 5, 0600));
    open_with(location_in("token", options), file);
    assert_int_equal(get(1), KILN_E_DENIED);
    assert_null(strstr(last_warning, "wrong"));
    open_with(location_in("token", "trust=any"), NULL);
    assert_int_equal(get(1), KILN_E_DENIED);
}

/* A chain opens its tiers after the caller's structure with the token's path no longer exists. */
static void test_a_token_in_a_chain(void **state)
{
    (void)state;
    char location[3 * SCRATCH_PATH_SIZE];
    char *file = strdup(file_with("token", "abc.DEF-123\n", 12, 0600));
    snprintf(location, sizeof location, "%s/local|%s", scratch, location_in("token", "trust=any"));
    open_with(location, file);
    memset(file, 'x', strlen(file));
    free(file);
    assert_int_equal(put(1, 100), KILN_OK);
    open_with(location_in("token", "trust=any"), scratch_path(scratch, "token"));
    assert_int_equal(get(1), KILN_OK);
}

static void test_wrong_credentials(void **state)
{
    (void)state;
    static const struct {
        const char *content;
        mode_t mode;
        kiln_status status;
    } files[] = {{"abc.DEF-123\n", 0644, KILN_E_DENIED},
                 {"\n", 0600, KILN_E_INVALID},
                 {"a\rHost: b\n", 0600, KILN_E_INVALID},
                 {"a b\n", 0600, KILN_E_INVALID}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        kiln_error error = {.struct_size = sizeof error};
        const char *file =
            file_with("token", files[i].content, strlen(files[i].content), files[i].mode);
        assert_int_equal(try_open(location_in("token", "trust=any"), file, &error),
                         files[i].status);
        assert_null(strstr(error.text, "abc"));
    }
    static const char *const locations[] = {
        "http://writer:secret@127.0.0.1/x?trust=any",
        "http://writer:sec/ret@127.0.0.1?trust=any",
        "https://:secret@127.0.0.1/?trust=any",
        "http://127.0.0.1/a//b?trust=any",
        "http://127.0.0.1/a/../b?trust=any",
        "http://127.0.0.1/a%2fb?trust=any",
        "http:/path?trust=any",
        "http://127.0.0.1/a b?trust=any",
    };
    for (size_t i = 0; i < sizeof locations / sizeof locations[0]; i++) {
        kiln_error error = {.struct_size = sizeof error};
        assert_int_equal(try_open(locations[i], NULL, &error), KILN_E_PARSE);
        assert_null(strstr(error.text, "sec"));
    }
    assert_int_equal(try_open("http://writer@127.0.0.1/?trust=any", NULL, NULL), KILN_E_INVALID);
}

/* ---- servers that lack something ---- */

static void test_a_server_without_puts(void **state)
{
    (void)state;
    assert_int_equal(put(1, 100), KILN_OK);
    open_with(location_in("readonly/store", "trust=any"), NULL);
    assert_int_equal(get(1), KILN_OK);
    assert_int_equal(put(1, 100), KILN_E_READONLY);
}

static void test_a_server_without_room(void **state)
{
    (void)state;
    open_with(location_in("full", "trust=any"), NULL);
    assert_int_equal(put(1, 100), KILN_E_FULL);
    assert_int_equal(get(1), KILN_MISS);
    open_with(location_in("small", "trust=any"), NULL);
    assert_int_equal(put(1, 4000000), KILN_E_TOO_LARGE);
    assert_int_equal(put(1, 100), KILN_OK);
    assert_int_equal(get(1), KILN_OK);
}

/* An HTML page is not an entry, even if its bytes are those of an entry. */
static void test_pages_are_not_entries(void **state)
{
    (void)state;
    assert_int_equal(put(1, 100), KILN_OK);
    open_with(location_in("html/store", "trust=any"), NULL);
    assert_int_equal(scratch_get(store, 1), KILN_E_IO);
}

/* If a redirection were followed, a different server would answer. */
static void test_redirections_are_not_followed(void **state)
{
    (void)state;
    open_store(location_in("open", "trust=any"));
    assert_int_equal(put(1, 100), KILN_OK);
    open_store(location_in("moved", "trust=any"));
    assert_int_equal(scratch_get(store, 1), KILN_E_IO);
    assert_int_equal(scratch_put(store, 1, 100), KILN_E_IO);
}

/* ---- servers that restart, end or stop answering ---- */

static void test_a_restart_costs_nothing(void **state)
{
    (void)state;
    assert_int_equal(put(1, 100), KILN_OK);
    assert_int_equal(get(1), KILN_OK);
    nginx_stop(&server);
    assert_true(nginx_start_again(&server));
    assert_int_equal(get(1), KILN_OK);
}

static void test_a_dead_server(void **state)
{
    (void)state;
    nginx_stop(&server);
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(scratch_get(store, 1), KILN_E_IO);
        assert_int_equal(scratch_put(store, 1, 10), KILN_E_IO);
    }
    assert_true(nginx_start_again(&server));
    assert_int_equal(get(1), KILN_MISS);
}

static void test_a_silent_server(void **state)
{
    (void)state;
    kill(server.process, SIGSTOP);
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(scratch_get(store, 1), KILN_E_IO);
    }
    kill(server.process, SIGCONT);
    assert_int_equal(get(1), KILN_MISS);
}

/* ---- TLS ---- */

static const char *https(const char *host, const char *options)
{
    static char location[4 * SCRATCH_PATH_SIZE];
    snprintf(location, sizeof location, "https://%s:%u/open/store?trust=any&ca=%s/ca.pem%s", host,
             server.tls_port, certificates, options);
    return location;
}

static void test_tls(void **state)
{
    (void)state;
    char options[3 * SCRATCH_PATH_SIZE];
    snprintf(options, sizeof options, "&cert=%s/client.pem&key=%s/client.key", certificates,
             certificates);
    open_with(https("127.0.0.1", options), NULL);
    for (size_t size = 0; size <= 4000000; size = 17 * size + 3) {
        assert_int_equal(put(1, size), KILN_OK);
        assert_int_equal(get(1), KILN_OK);
    }
    open_with(https("localhost", ""), NULL);
    assert_int_equal(get(1), KILN_OK);
    assert_int_equal(put(1, 100), KILN_E_DENIED);
}

static void test_a_server_that_is_not_trusted(void **state)
{
    (void)state;
    char location[2 * SCRATCH_PATH_SIZE];
    snprintf(location, sizeof location, "https://127.0.0.1:%u/open?trust=any&ca=%s/other.pem",
             server.tls_port, certificates);
    open_with(location, NULL);
    assert_int_equal(get(1), KILN_E_DENIED);
    assert_non_null(strstr(last_warning, "certificate"));
    /* Plain requests to a TLS port, and the reverse. */
    snprintf(location, sizeof location, "http://127.0.0.1:%u/open?trust=any", server.tls_port);
    open_with(location, NULL);
    assert_int_equal(scratch_get(store, 1), KILN_E_IO);
    snprintf(location, sizeof location, "https://127.0.0.1:%u/open?trust=any&ca=%s/ca.pem",
             server.port, certificates);
    open_with(location, NULL);
    assert_int_equal(scratch_get(store, 1), KILN_E_IO);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        CONFORMANCE_CASES(set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_places, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_passwords, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused_puts_rest, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tokens, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_token_in_a_chain, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_wrong_credentials, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_server_without_puts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_server_without_room, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pages_are_not_entries, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_redirections_are_not_followed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_restart_costs_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_dead_server, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_silent_server, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tls, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_server_that_is_not_trusted, set_up, tear_down),
    };
    if (count != 2) {
        return 2;
    }
    nginx_require();
    certificates_require();
    kilni_remote_set_library(arguments[1]);
    kilni_remote_set_runtime_folder("/nonexistent");
    return cmocka_run_group_tests(tests, make_certificates, remove_certificates);
}
