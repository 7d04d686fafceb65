/* SPDX-License-Identifier: Apache-2.0
 *
 * Leases on a real HTTP server: nginx with WebDAV, which also stands in for S3 servers, since it
 * ignores their signatures. Some of these honour conditional puts, some ignore and some refuse
 * them. Without an argument, the cases that last as long as a lease are left out.
 */
#include "support/lease_scene.h"

#include <sys/time.h>

#include "store/remote/loader.h"
#include "store/remote/state_path.h"
#include "support/fault_proxy.h"
#include "support/nginx_server.h"

/* How the store reaches the server. */
typedef struct server_kind {
    bool is_s3;
    const char *folder; /* of the entries, in the server's folder of data */
} server_kind;

static const server_kind http = {false, "open/store"};
static const server_kind ignoring = {true, "open/s3"};
static const server_kind refusing = {true, "unconditional"};
static const server_kind honouring = {true, "conditional"};
static const server_kind recorded = {true, "recorded"};

static nginx_server server;
static const server_kind *kind;

static const char *location_of(const char *options)
{
    static char location[SCRATCH_PATH_SIZE];
    if (kind->is_s3) {
        snprintf(location, sizeof location, "s3://%s?endpoint=http://127.0.0.1:%u&trust=any%s",
                 kind->folder, server.port, options);
    } else {
        snprintf(location, sizeof location, "http://127.0.0.1:%u/%s?trust=any%s", server.port,
                 kind->folder, options);
    }
    return location;
}

/* Returns the path of a key's marker in the server's folder. */
static const char *marker_of(uint64_t number)
{
    static char path[SCRATCH_PATH_SIZE];
    char text[KILN_DIGEST_TEXT_SIZE];
    kiln_key *key = scratch_key(number);
    const kiln_digest digest = kiln_key_digest(key);
    kiln_digest_format(&digest, text);
    snprintf(path, sizeof path, "%s/data/%s/kiln-v1/%s.lease", server.folder, kind->folder, text);
    kiln_key_release(&key);
    return path;
}

static bool has_marker(uint64_t number)
{
    return access(marker_of(number), F_OK) == 0;
}

static time_t time_of_marker(uint64_t number)
{
    struct stat stat;
    return lstat(marker_of(number), &stat) == 0 ? stat.st_mtime : 0;
}

/* Makes a marker some seconds older. */
static void age_marker(uint64_t number, time_t seconds)
{
    const time_t then = time(NULL) - seconds;
    const struct timeval times[2] = {{.tv_sec = then}, {.tv_sec = then}};
    assert_int_equal(utimes(marker_of(number), times), 0);
}

static int set_up(void **state)
{
    kind = *state;
    lease_location = location_of;
    return lease_set_up() && nginx_start(&server, scratch, NULL) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    nginx_stop(&server);
    lease_tear_down();
    return 0;
}

/* ---- one server ---- */

/* The first lease of a handle finds out whether the server honours conditions, so each of the
 * handles takes one before they compete. */
static void test_one_holder(void **state)
{
    (void)state;
    kiln_store *one = open_server("");
    kiln_store *other = open_server("");
    kiln_lease *first = NULL, *second = NULL, *third = NULL;
    assert_int_equal(take(one, 1, LONG_NS, &first), KILN_OK);
    assert_true(has_marker(1));
    assert_int_equal(take(one, 1, 0, &second), KILN_BUSY);
    assert_int_equal(take(other, 1, 30000000, &second), KILN_BUSY);
    assert_int_equal(take(other, 2, LONG_NS, &second), KILN_OK);
    assert_int_equal(take(one, 2, 0, &third), KILN_BUSY);
    kiln_lease_release(&first);
    assert_false(has_marker(1));
    assert_int_equal(take(other, 1, LONG_NS, &third), KILN_OK);
    assert_int_equal(take(one, 1, 0, &first), KILN_BUSY);
    kiln_lease_release(&second);
    kiln_lease_release(&third);
    assert_false(has_marker(1) || has_marker(2));
    kiln_store_close(&one);
    kiln_store_close(&other);
}

/* The server has lost a lease, which a different holder has taken since. */
static void test_a_lost_lease_does_not_release_its_successor(void **state)
{
    (void)state;
    kiln_store *store = open_server("");
    kiln_lease *lost = NULL, *kept = NULL, *none = NULL;
    assert_int_equal(take(store, 1, LONG_NS, &lost), KILN_OK);
    assert_int_equal(unlink(marker_of(1)), 0);
    assert_int_equal(take(store, 1, LONG_NS, &kept), KILN_OK);
    kiln_lease_release(&lost);
    assert_true(has_marker(1));
    assert_int_equal(take(store, 1, 0, &none), KILN_BUSY);
    kiln_lease_release(&kept);
    assert_false(has_marker(1));
    kiln_store_close(&store);
}

/* A holder puts its marker again, and stops when the marker has gone. */
static void test_renewal(void **state)
{
    (void)state;
    kiln_store *store = open_server("");
    kiln_lease *lease = NULL, *lost = NULL;
    assert_int_equal(take(store, 1, LONG_NS, &lease), KILN_OK);
    assert_int_equal(take(store, 2, LONG_NS, &lost), KILN_OK);
    assert_int_equal(unlink(marker_of(2)), 0);
    age_marker(1, 5);
    const time_t before = time_of_marker(1);
    while (time_of_marker(1) == before) {
        kilni_sleep_ns(10000000);
    }
    assert_false(has_marker(2));
    kiln_lease_release(&lease);
    kiln_lease_release(&lost);
    kiln_store_close(&store);
}

/* Returns the last x-amz-date of the puts that the server has recorded; "": none. */
static const char *last_date(void)
{
    static char date[64];
    char path[SCRATCH_PATH_SIZE];
    char line[sizeof date];
    snprintf(path, sizeof path, "%s/run/recorded", server.folder);
    FILE *file = fopen(path, "r");
    date[0] = '\0';
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "PUT ", 4) == 0) {
            memcpy(date, line, sizeof date);
        }
    }
    if (file) {
        fclose(file);
    }
    return date;
}

/* S3 accepts a signature for a quarter of an hour, and a lease may be needed for longer. */
static void test_a_renewal_is_signed_anew(void **state)
{
    (void)state;
    char options[SCRATCH_PATH_SIZE];
    char first[64];
    kiln_lease *lease = NULL;
    FILE *file = fopen(scratch_path(scratch, "keys"), "w");
    assert_true(file && fchmod(fileno(file), 0600) == 0);
    fputs("[default]\naws_access_key_id=a\naws_secret_access_key=b\n", file);
    assert_int_equal(fclose(file), 0);
    snprintf(options, sizeof options, "&credentials-file=%s/keys", scratch);
    kiln_store *store = open_server(options);
    assert_int_equal(take(store, 1, LONG_NS, &lease), KILN_OK);
    snprintf(first, sizeof first, "%s", last_date());
    assert_true(strlen(first) > strlen("PUT -\n"));
    while (strcmp(last_date(), first) == 0) {
        kilni_sleep_ns(10000000);
    }
    kiln_lease_release(&lease);
    kiln_store_close(&store);
}

/* While a process waited, the last holder has stored the entry. So there is nothing to build, and
 * the process takes no lease. A process that did not wait may want to replace the entry. */
static void *release_later(void *lease)
{
    kilni_sleep_ns(200000000);
    kiln_lease *held = lease;
    kiln_lease_release(&held);
    return NULL;
}

static void test_a_waiter_finds_the_entry(void **state)
{
    (void)state;
    kiln_store *store = open_server("");
    kiln_store *other = open_server("");
    kiln_lease *lease = NULL, *next = NULL;
    pthread_t thread;
    for (unsigned i = 0; i < 2; i++) {
        const bool is_stored = i == 1;
        assert_int_equal(take(store, 1, LONG_NS, &lease), KILN_OK);
        if (is_stored) {
            assert_int_equal(scratch_put(store, 1, 100), KILN_OK);
        }
        assert_int_equal(pthread_create(&thread, NULL, release_later, lease), 0);
        assert_int_equal(take(other, 1, LONG_NS, &next), KILN_OK);
        assert_int_equal(next->is_shared, is_stored);
        assert_int_equal(has_marker(1), !is_stored);
        pthread_join(thread, NULL);
        kiln_lease_release(&next);
    }
    assert_int_equal(take(other, 1, LONG_NS, &next), KILN_OK);
    assert_true(has_marker(1));
    kiln_lease_release(&next);
    kiln_store_close(&store);
    kiln_store_close(&other);
}

/* The same holds if the last holder was another process of the same machine. */
static void test_a_waiter_of_the_machine(void **state)
{
    (void)state;
    kiln_store *machine = open_machine(0);
    kiln_store *again = open_machine(0);
    kiln_lease *lease = NULL, *next = NULL;
    pthread_t thread;
    assert_int_equal(take(machine, 1, LONG_NS, &lease), KILN_OK);
    assert_int_equal(scratch_put(machine, 1, 100), KILN_OK);
    assert_int_equal(pthread_create(&thread, NULL, release_later, lease), 0);
    assert_int_equal(take(again, 1, LONG_NS, &next), KILN_OK);
    assert_true(next->is_shared);
    pthread_join(thread, NULL);
    assert_false(has_marker(1));
    kiln_lease_release(&next);
    assert_int_equal(take(again, 1, LONG_NS, &next), KILN_OK);
    assert_false(next->is_shared);
    assert_true(has_marker(1));
    kiln_lease_release(&next);
    kiln_store_close(&machine);
    kiln_store_close(&again);
}

static kiln_status take_for(kiln_store *store, uint64_t build_ns)
{
    kiln_lease *lease = NULL;
    kiln_key *key = scratch_key(1);
    const kiln_status status = kilni_store_lease(store, key, build_ns, 0, &lease);
    kiln_key_release(&key);
    kiln_lease_release(&lease);
    return status;
}

/* A lease takes too long for a short build, except if one request is sufficient. */
static void test_short_builds(void **state)
{
    (void)state;
    kiln_store *store = open_server("");
    assert_int_equal(take_for(store, 0), KILN_OK);
    assert_int_equal(take_for(store, 99000000), KILN_E_UNSUPPORTED);
    assert_int_equal(take_for(store, 500000000), kind == &honouring ? KILN_OK : KILN_E_UNSUPPORTED);
    assert_int_equal(take_for(store, NS_PER_S), KILN_OK);
    kiln_store_close(&store);
}

/* ---- servers without leases ---- */

static void test_stores_without_leases(void **state)
{
    (void)state;
    kiln_lease *none = NULL;
    static const char *const options[] = {"&readonly=1", "&lease=off"};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        kiln_store *store = open_server(options[i]);
        assert_int_equal(take(store, 1, 0, &none), KILN_E_UNSUPPORTED);
        kiln_store_close(&store);
    }
    assert_false(has_marker(1));
}

/* The server accepts entries but no markers, or refuses all puts. */
static void test_refusals(void **state)
{
    (void)state;
    static const server_kind kinds[] = {
        {false, "nomarkers"}, {true, "nomarkers"}, {false, "readonly"},
        {false, "full"},      {false, "token"},    {false, "moved"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        kiln_lease *none = NULL;
        kind = &kinds[i];
        kiln_store *store = open_server("");
        assert_true(take(store, 1, LONG_NS, &none) < 0);
        assert_null(none);
        assert_int_equal(scratch_put(store, 1, 100) == KILN_OK, i < 2);
        kiln_store_close(&store);
    }
}

/* ---- markers of others ---- */

static void test_an_expired_marker(void **state)
{
    (void)state;
    kiln_store *store = open_server("");
    kiln_store *other = open_server("");
    kiln_lease *old = NULL, *next = NULL, *none = NULL;
    assert_int_equal(take(store, 1, LONG_NS, &old), KILN_OK);
    age_marker(1, 6);
    assert_int_equal(take(other, 1, 0, &none), KILN_BUSY);
    age_marker(1, 60);
    assert_int_equal(take(other, 1, 0, &next), KILN_OK);
    kiln_lease_release(&old);
    assert_true(has_marker(1));
    kiln_lease_release(&next);
    assert_false(has_marker(1));
    kiln_store_close(&store);
    kiln_store_close(&other);
}

/* ---- answers of a broken server ---- */

static const char *const answers[] = {
    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", /* without times */
    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>",
    "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
    "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 412 Precondition Failed\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 204 No Content\r\n\r\n",
    "HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
    "no answer\r\n\r\n",
};

/* Whatever the server answers, the call returns, and nobody gets a lease. */
static void test_answers(void **state)
{
    (void)state;
    fault_proxy proxy;
    nginx_server direct = server;
    fault_proxy_start(&proxy, server.port);
    server.port = proxy.port;
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        kiln_lease *none = NULL;
        kiln_store *store = open_server("");
        fault_proxy_set(&proxy, FAULT_TEXT, 0, answers[i]);
        const kiln_status status = take(store, 1, 100000000, &none);
        if (status == KILN_OK) {
            fail_msg("%s", answers[i]);
        }
        kiln_store_close(&store);
    }
    fault_proxy_stop(&proxy);
    server = direct;
}

/* The server does not answer while a holder waits for it. */
static void test_a_silent_server(void **state)
{
    (void)state;
    kiln_lease *lease = NULL, *next = NULL;
    kiln_store *store = open_server("");
    assert_int_equal(take(store, 1, LONG_NS, &lease), KILN_OK);
    kill(server.process, SIGSTOP);
    kiln_lease_release(&lease);
    assert_int_equal(take(store, 2, LONG_NS, &next), KILN_E_IO);
    kill(server.process, SIGCONT);
    kiln_store_close(&store);
}

/* ---- machines ---- */

/* Without the server, a lease excludes only the processes of the same machine. */
static void test_machine_and_fleet(void **state)
{
    (void)state;
    kiln_store *machines[2] = {open_machine(0), open_machine(1)};
    kiln_lease *lease = NULL, *none = NULL;
    assert_int_equal(take(machines[0], 1, LONG_NS, &lease), KILN_OK);
    assert_int_equal(take(machines[0], 1, 0, &none), KILN_BUSY);
    assert_int_equal(take(machines[1], 1, 0, &none), KILN_BUSY);
    kiln_lease_release(&lease);
    nginx_stop(&server);
    assert_int_equal(take(machines[0], 1, LONG_NS, &lease), KILN_OK);
    assert_int_equal(take(machines[0], 1, 0, &none), KILN_BUSY);
    assert_int_equal(take(machines[1], 1, LONG_NS, &none), KILN_OK);
    kiln_lease_release(&lease);
    kiln_lease_release(&none);
    kiln_store_close(&machines[0]);
    kiln_store_close(&machines[1]);
}

/* A successor need not wait if the marker is old. */
static void test_a_holder_is_killed(void **state)
{
    (void)state;
    kiln_store *store = open_machine(1);
    kiln_lease *next = NULL, *none = NULL;
    kill_holder(start_holder(0));
    assert_int_equal(take(store, 1, 0, &none), KILN_BUSY);
    age_marker(1, 20);
    assert_int_equal(take(store, 1, 0, &next), KILN_OK);
    kiln_lease_release(&next);
    assert_false(has_marker(1));
    kiln_store_close(&store);
}

#define CASE(test, kind)                                                                           \
    {                                                                                              \
#test ", " #kind, test, set_up, tear_down, (void *)(uintptr_t) & (kind)                    \
    }

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        CASE(test_one_holder, http),
        CASE(test_one_holder, ignoring),
        CASE(test_one_holder, refusing),
        CASE(test_one_holder, honouring),
        CASE(test_a_lost_lease_does_not_release_its_successor, http),
        CASE(test_a_lost_lease_does_not_release_its_successor, honouring),
        CASE(test_a_waiter_finds_the_entry, http),
        CASE(test_a_waiter_finds_the_entry, honouring),
        CASE(test_a_waiter_of_the_machine, http),
        CASE(test_short_builds, http),
        CASE(test_short_builds, ignoring),
        CASE(test_short_builds, honouring),
        CASE(test_a_child_releases_nothing, http),
        CASE(test_stores_without_leases, http),
        CASE(test_stores_without_leases, honouring),
        CASE(test_refusals, http),
        CASE(test_an_expired_marker, http),
        CASE(test_an_expired_marker, honouring),
        CASE(test_answers, http),
        CASE(test_answers, honouring),
        CASE(test_a_silent_server, http),
        CASE(test_machine_and_fleet, http),
        CASE(test_machine_and_fleet, honouring),
        CASE(test_one_build, http),
        CASE(test_one_build_of_each_key, honouring),
        CASE(test_a_holder_is_killed, http),
        CASE(test_a_holder_is_killed, honouring),
    };
    const struct CMUnitTest slow_tests[] = {
        CASE(test_renewal, http),
        CASE(test_a_renewal_is_signed_anew, recorded),
        CASE(test_leases_in_time, http),
        CASE(test_leases_in_time, honouring),
    };
    if (count < 2) {
        return 2;
    }
    nginx_require();
    kilni_remote_set_library(arguments[1]);
    kilni_remote_set_runtime_folder("/nonexistent");
    return count > 2 ? cmocka_run_group_tests(slow_tests, NULL, NULL)
                     : cmocka_run_group_tests(tests, NULL, NULL);
}
