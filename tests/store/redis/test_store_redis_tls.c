/* SPDX-License-Identifier: Apache-2.0
 *
 * A store on a real Redis server that is reached through TLS: a wrong server is not used, the
 * server accepts only clients with the right certificate, and faults on the connection are failures
 * and never yield a wrong value.
 */
#include "support/store_scene.h"

#include <pthread.h>

#include "store/remote/loader.h"
#include "store/remote/state_path.h"
#include "support/certificates.h"
#include "support/child.h"
#include "support/fault_proxy.h"
#include "support/redis_server.h"

static char certificates[SCRATCH_DIRECTORY_SIZE];
static char scratch[SCRATCH_DIRECTORY_SIZE];
static redis_server server;
static unsigned port; /* for TLS */
static kiln_store *store;
static char last_warning[512];

/* ---- set-up ---- */

static int make_certificates(void **state)
{
    (void)state;
    scratch_make(certificates);
    const bool is_made =
        certificates_make_authority(certificates, "ca") &&
        certificates_make_authority(certificates, "other-ca") &&
        certificates_make(certificates, "ca", "server", "DNS:localhost,IP:127.0.0.1") &&
        certificates_make(certificates, "ca", "elsewhere", "DNS:elsewhere,IP:127.0.0.2") &&
        certificates_make(certificates, "other-ca", "stranger", "DNS:localhost,IP:127.0.0.1") &&
        certificates_make(certificates, "ca", "client", "DNS:client");
    return is_made ? 0 : -1;
}

static int remove_certificates(void **state)
{
    (void)state;
    scratch_remove(certificates);
    return 0;
}

/* Starts the server with a certificate. A different program may take the TLS port in the meantime,
 * so several ports are tried. */
static void start_server(const char *certificate, const char *clients, const char *protocols)
{
    char certificate_file[SCRATCH_PATH_SIZE], key_file[SCRATCH_PATH_SIZE], ca[SCRATCH_PATH_SIZE];
    char text[16];
    snprintf(certificate_file, sizeof certificate_file, "%s/%s.pem", certificates, certificate);
    snprintf(key_file, sizeof key_file, "%s/%s.key", certificates, certificate);
    snprintf(ca, sizeof ca, "%s/ca.pem", certificates);
    const char *const options[] = {"--tls-port",
                                   text,
                                   "--tls-cert-file",
                                   certificate_file,
                                   "--tls-key-file",
                                   key_file,
                                   "--tls-ca-cert-file",
                                   ca,
                                   "--tls-auth-clients",
                                   clients,
                                   "--tls-protocols",
                                   protocols,
                                   NULL};
    bool is_up = false;
    for (unsigned i = 0; i < 5 && !is_up; i++) {
        port = free_port();
        snprintf(text, sizeof text, "%u", port);
        is_up = redis_start(&server, scratch, options);
    }
    assert_true(is_up);
}

static void take_warning(void *user, kiln_log_level level, const char *text)
{
    (void)user, (void)level;
    snprintf(last_warning, sizeof last_warning, "%s", text);
}

static kiln_status try_open(const char *host, unsigned at_port, const char *options,
                            kiln_error *error)
{
    char location[2 * SCRATCH_PATH_SIZE];
    const kiln_store_params params = {.struct_size = sizeof params, .log.write = take_warning};
    kiln_store_close(&store);
    snprintf(location, sizeof location, "rediss://%s:%u?trust=any%s", host, at_port, options);
    return kiln_store_open(location, &params, &store, error);
}

/* Returns an option of the URL that names one of the certificates' files. */
static const char *option(const char *name, const char *file)
{
    static char options[4][SCRATCH_PATH_SIZE];
    static unsigned next;
    char *text = options[next++ % 4];
    snprintf(text, SCRATCH_PATH_SIZE, "&%s=%s/%s", name, certificates, file);
    return text;
}

static void open_at(const char *host, unsigned at_port, const char *options)
{
    kiln_error error = {.struct_size = sizeof error};
    if (try_open(host, at_port, options, &error) != KILN_OK) {
        fail_msg("%s: %s", options, error.text);
    }
}

static int set_up(void **state)
{
    (void)state;
    last_warning[0] = '\0';
    scratch_make(scratch);
    start_server("server", "no", "TLSv1.2 TLSv1.3");
    open_at("127.0.0.1", port, option("ca", "ca.pem"));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    kiln_store_close(&store);
    redis_stop(&server);
    scratch_remove(scratch);
    return 0;
}

/* A busy machine may miss the deadline of a look-up. */
static kiln_status get_patiently(uint64_t number)
{
    kiln_status status = KILN_E_IO;
    for (unsigned i = 0; i < 1000 && status == KILN_E_IO; i++) {
        status = scratch_get(store, number);
        if (status == KILN_E_IO) {
            kilni_sleep_ns(10000000);
        }
    }
    return status;
}

static void put_patiently(uint64_t number, size_t size)
{
    kiln_status status = KILN_E_IO;
    for (unsigned i = 0; i < 1000 && status == KILN_E_IO; i++) {
        status = scratch_put(store, number, size);
        if (status == KILN_E_IO) {
            kilni_sleep_ns(10000000);
        }
    }
    assert_int_equal(status, KILN_OK);
}

/* ---- the right server ---- */

static void test_all_sizes(void **state)
{
    (void)state;
    assert_int_equal(get_patiently(1), KILN_MISS);
    for (size_t size = 0; size <= 4000000; size = 7 * size + 3) {
        put_patiently(1, size);
        assert_int_equal(get_patiently(1), KILN_OK);
    }
}

static void test_version_1_2(void **state)
{
    (void)state;
    redis_stop(&server);
    start_server("server", "no", "TLSv1.2");
    open_at("127.0.0.1", port, option("ca", "ca.pem"));
    put_patiently(1, 1000000);
    assert_int_equal(get_patiently(1), KILN_OK);
}

static void test_a_host_by_name(void **state)
{
    (void)state;
    open_at("localhost", port, option("ca", "ca.pem"));
    put_patiently(1, 1000);
    assert_int_equal(get_patiently(1), KILN_OK);
}

static void *put_and_get(void *argument)
{
    const uint64_t own = (uint64_t)(uintptr_t)argument;
    uintptr_t wrong = 0;
    for (unsigned i = 0; i < 20; i++) {
        scratch_put(store, own, 3000 * i);
        wrong += scratch_get(store, own) == KILN_E_REFUSED;
    }
    return (void *)wrong; /* NOLINT */
}

static void test_many_threads(void **state)
{
    (void)state;
    pthread_t threads[6];
    for (uintptr_t i = 0; i < 6; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, put_and_get, (void *)(i + 2)), 0);
    }
    for (unsigned i = 0; i < 6; i++) {
        void *wrong = NULL;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
}

static void get_in_child(void)
{
    CHECK(get_patiently(1) == KILN_OK);
    kiln_store_close(&store);
    _exit(0); /* memory that only threads of the parent knew is lost here, and a leak checker would
                 report it */
}

static void *keep_busy(void *argument)
{
    _Atomic bool *is_ending = argument;
    while (!atomic_load(is_ending)) {
        scratch_get(store, 1);
    }
    return NULL;
}

/* Some of the forks happen while the I/O thread is inside OpenSSL. */
static void test_forks(void **state)
{
    (void)state;
    SKIP_FORKS_BESIDE_ALLOCATIONS();
    _Atomic bool is_ending = false;
    pthread_t thread;
    put_patiently(1, 100000);
    assert_int_equal(pthread_create(&thread, NULL, keep_busy, &is_ending), 0);
    int failed = 0;
    for (unsigned i = 0; i < 20; i++) {
        failed |= run_in_child(get_in_child);
    }
    atomic_store(&is_ending, true);
    pthread_join(thread, NULL);
    assert_int_equal(failed, 0);
    assert_int_equal(get_patiently(1), KILN_OK);
}

/* The child exits while its I/O thread has connections. This test runs before this process has such
 * a thread. */
static void test_exit(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 10; i++) {
        const pid_t child = fork();
        if (child == 0) {
            put_patiently(1, 1000);
            exit(get_patiently(1) == KILN_OK ? 0 : 1);
        }
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}

/* ---- the wrong server ---- */

/* The number is one that no test has asked for: what the server has just denied to have is not
 * asked for again. */
static void expect_denied(const char *word)
{
    const uint64_t number = 1000;
    kiln_status status = KILN_E_IO;
    for (unsigned i = 0; i < 1000 && status == KILN_E_IO; i++) {
        status = scratch_get(store, number);
        if (status == KILN_E_IO) {
            kilni_sleep_ns(10000000);
        }
    }
    assert_int_equal(status, KILN_E_DENIED);
    assert_non_null(strstr(last_warning, word));
    assert_int_equal(scratch_get(store, number), KILN_E_DENIED); /* without contacting the server */
}

static void test_an_unknown_authority(void **state)
{
    (void)state;
    open_at("127.0.0.1", port, "");
    expect_denied("certificate");
    last_warning[0] = '\0';
    open_at("127.0.0.1", port, option("ca", "other-ca.pem"));
    expect_denied("certificate");
}

static void test_a_certificate_of_another_host(void **state)
{
    (void)state;
    redis_stop(&server);
    start_server("elsewhere", "no", "TLSv1.2 TLSv1.3");
    open_at("127.0.0.1", port, option("ca", "ca.pem"));
    expect_denied("certificate");
    last_warning[0] = '\0';
    open_at("localhost", port, option("ca", "ca.pem"));
    expect_denied("certificate");
}

static void test_a_server_with_a_different_authority(void **state)
{
    (void)state;
    redis_stop(&server);
    start_server("stranger", "no", "TLSv1.2 TLSv1.3");
    open_at("127.0.0.1", port, option("ca", "ca.pem"));
    expect_denied("certificate");
}

/* The file of the certificate authority is read again for each connection. */
static void test_an_authority_is_replaced(void **state)
{
    (void)state;
    char command[2 * SCRATCH_PATH_SIZE], options[SCRATCH_PATH_SIZE];
    char kill_all[] = "CLIENT KILL TYPE normal";
    snprintf(command, sizeof command, "cp '%s/other-ca.pem' '%s/trusted'", certificates, scratch);
    assert_int_equal(system(command), 0); /* NOLINT */
    redis_stop(&server);
    start_server("stranger", "no", "TLSv1.2 TLSv1.3");
    snprintf(options, sizeof options, "&ca=%s/trusted", scratch);
    open_at("127.0.0.1", port, options);
    assert_int_equal(get_patiently(1), KILN_MISS);
    snprintf(command, sizeof command, "cp '%s/ca.pem' '%s/trusted'", certificates, scratch);
    assert_int_equal(system(command), 0); /* NOLINT */
    redis_say(&server, kill_all);
    expect_denied("certificate");
}

/* ---- which clients the server accepts ---- */

static void test_client_certificates(void **state)
{
    (void)state;
    char options[4 * SCRATCH_PATH_SIZE];
    redis_stop(&server);
    start_server("server", "yes", "TLSv1.2 TLSv1.3");
    snprintf(options, sizeof options, "%s%s%s", option("ca", "ca.pem"),
             option("cert", "client.pem"), option("key", "client.key"));
    open_at("127.0.0.1", port, options);
    put_patiently(1, 1000);
    assert_int_equal(get_patiently(1), KILN_OK);
    open_at("127.0.0.1", port, option("ca", "ca.pem"));
    expect_denied("refuses");
    last_warning[0] = '\0';
    snprintf(options, sizeof options, "%s%s%s", option("ca", "ca.pem"),
             option("cert", "stranger.pem"), option("key", "stranger.key"));
    open_at("127.0.0.1", port, options);
    expect_denied("refuses");
}

static void expect_refused(const char *options, kiln_status expected, const char *word)
{
    kiln_error error = {.struct_size = sizeof error};
    const kiln_status status = try_open("127.0.0.1", port, options, &error);
    if (status != expected || !strstr(error.text, word)) {
        fail_msg("%s: status %d: %s", options, status, error.text);
    }
}

static void test_files_that_cannot_be_used(void **state)
{
    (void)state;
    char options[4 * SCRATCH_PATH_SIZE], path[SCRATCH_PATH_SIZE];
    expect_refused(option("ca", "none.pem"), KILN_E_INVALID, "none.pem: No such file");
    expect_refused(option("ca", "server.key"), KILN_E_INVALID, "ca file");
    expect_refused(option("cert", "client.pem"), KILN_E_INVALID, "need each other");
    expect_refused("&ca=relative", KILN_E_PARSE, "absolute");
    snprintf(options, sizeof options, "%s%s", option("cert", "client.pem"),
             option("key", "server.key"));
    expect_refused(options, KILN_E_INVALID, "mismatch");
    snprintf(options, sizeof options, "%s%s", option("cert", "client.pem"),
             option("key", "client.key"));
    snprintf(path, sizeof path, "%s/client.key", certificates);
    assert_int_equal(chmod(path, 0644), 0);
    expect_refused(options, KILN_E_DENIED, "0600");
    assert_int_equal(chmod(path, 0600), 0);
    expect_refused("&key-file=/none", KILN_E_INVALID, "/none");
}

/* ---- what is not TLS, and faults ---- */

static void test_not_tls(void **state)
{
    (void)state;
    char location[128];
    open_at("127.0.0.1", server.port, option("ca", "ca.pem"));
    assert_int_equal(scratch_get(store, 1), KILN_E_IO);
    kiln_store_close(&store);
    snprintf(location, sizeof location, "redis://127.0.0.1:%u?trust=any", port);
    assert_int_equal(kiln_store_open(location, NULL, &store, NULL), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_E_IO);
}

/* The faults are in the handshake and in the data after it. */
static void test_faults_everywhere(void **state)
{
    (void)state;
    static const fault kinds[] = {FAULT_CUT, FAULT_RESET, FAULT_FLIP, FAULT_TEXT};
    fault_proxy proxy;
    put_patiently(1, 3000);
    fault_proxy_start(&proxy, port);
    for (size_t after = 0; after < 4000; after += after < 20 ? 1 : 211) {
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
            fault_proxy_set(&proxy, kinds[i], after, "nonsense that is no record of TLS");
            open_at("127.0.0.1", proxy.port, option("ca", "ca.pem"));
            const kiln_status status = scratch_get(store, 1);
            /* A fault after the end of the answer is harmless, and so is one in the version of a
             * record, which is ignored. */
            const bool may_do_no_harm = after > 1000 || kinds[i] == FAULT_FLIP;
            if (status != KILN_E_IO && status != KILN_E_DENIED &&
                !(status == KILN_OK && may_do_no_harm)) {
                fail_msg("fault %d after %zu: status %d", kinds[i], after, status);
            }
        }
    }
    fault_proxy_set(&proxy, FAULT_SILENCE, 1000, "");
    open_at("127.0.0.1", proxy.port, option("ca", "ca.pem"));
    assert_int_equal(scratch_get(store, 1), KILN_E_IO);
    fault_proxy_set(&proxy, FAULT_NONE, 0, "");
    open_at("127.0.0.1", proxy.port, option("ca", "ca.pem"));
    assert_int_equal(get_patiently(1), KILN_OK);
    fault_proxy_stop(&proxy);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_exit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_all_sizes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_version_1_2, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_host_by_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_threads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_forks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_an_unknown_authority, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_certificate_of_another_host, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_server_with_a_different_authority, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_an_authority_is_replaced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_client_certificates, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_files_that_cannot_be_used, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_not_tls, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_faults_everywhere, set_up, tear_down),
    };
    if (count != 2) {
        return 2;
    }
    redis_require();
    certificates_require();
    kilni_remote_set_library(arguments[1]);
    kilni_remote_set_runtime_folder("/nonexistent");
    return cmocka_run_group_tests(tests, make_certificates, remove_certificates);
}
