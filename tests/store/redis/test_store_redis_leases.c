/* SPDX-License-Identifier: Apache-2.0
 *
 * Leases on a real Redis server ensure that each key is built once in the whole fleet, whether the
 * holders of leases exit or are killed, and even if the server restarts. Each machine is
 * represented by a directory.
 */
#include "support/lease_scene.h"

#include "store/remote/loader.h"
#include "store/remote/state_path.h"
#include "support/redis_server.h"

static const char *const no_options[] = {NULL};

static redis_server server;

static const char *location_of(const char *options)
{
    static char location[256];
    snprintf(location, sizeof location, "redis://127.0.0.1:%u?trust=any%s", server.port, options);
    return location;
}

/* The name of a key's lease on the server. */
static const char *lease_of(uint64_t number)
{
    static char name[80];
    char text[KILN_DIGEST_TEXT_SIZE];
    kiln_key *key = scratch_key(number);
    const kiln_digest digest = kiln_key_digest(key);
    kiln_digest_format(&digest, text);
    snprintf(name, sizeof name, "kiln:v1:{%s}:lease", text);
    kiln_key_release(&key);
    return name;
}

static const char *say(const char *command, const char *name)
{
    char line[256];
    snprintf(line, sizeof line, "%s %s", command, name);
    return redis_say(&server, line);
}

static int set_up(void **state)
{
    (void)state;
    lease_location = location_of;
    return lease_set_up() && redis_start(&server, scratch, no_options) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    redis_stop(&server);
    lease_tear_down();
    return 0;
}

/* ---- one server ---- */

static void test_one_holder(void **state)
{
    (void)state;
    kiln_store *one = open_server("");
    kiln_store *other = open_server("");
    kiln_lease *first = NULL, *second = NULL, *third = NULL;
    assert_int_equal(take(one, 1, LONG_NS, &first), KILN_OK);
    assert_int_equal(take(one, 1, 0, &second), KILN_BUSY);
    assert_int_equal(take(other, 1, 30000000, &second), KILN_BUSY);
    assert_int_equal(take(other, 2, LONG_NS, &second), KILN_OK);
    kiln_lease_release(&first);
    assert_string_equal(say("EXISTS", lease_of(1)), ":0\r\n");
    assert_int_equal(take(other, 1, LONG_NS, &third), KILN_OK);
    kiln_lease_release(&second);
    kiln_lease_release(&third);
    assert_string_equal(redis_say(&server, "DBSIZE"), ":0\r\n");
    kiln_store_close(&one);
    kiln_store_close(&other);
}

/* Looks for an entry, as the holder of a lease. */
static kiln_status look(kiln_store *store, uint64_t number, const kiln_lease *lease)
{
    kiln_key *key = scratch_key(number);
    kiln_entry *entry = NULL;
    size_t fill;
    const kiln_status status = kilni_store_find(store, key, lease, false, &entry, &fill);
    kiln_entry_release(&entry);
    kiln_key_release(&key);
    return status;
}

static bool has_got_a_get(void)
{
    return strstr(redis_say(&server, "INFO commandstats"), "cmdstat_get:") != NULL;
}

/* If the server granted the lease and reported that it lacks the entry, the holder need not ask it
 * for the entry. */
static void test_a_lease_tells_of_a_miss(void **state)
{
    (void)state;
    kiln_lease *lease = NULL;
    kiln_store *one = open_server("");
    kiln_store *machine = open_machine(0);
    kiln_store *stores[] = {one, machine};
    for (uint64_t i = 0; i < 2; i++) {
        assert_string_equal(redis_say(&server, "CONFIG RESETSTAT"), "+OK\r\n");
        assert_int_equal(take(stores[i], i, LONG_NS, &lease), KILN_OK);
        assert_int_equal(look(stores[i], i, lease), KILN_MISS);
        assert_false(has_got_a_get());
        kiln_lease_release(&lease);
        assert_int_equal(look(stores[i], i, NULL), KILN_MISS);
        assert_true(has_got_a_get());
    }
    /* The holder still asks the machine's own store. */
    assert_int_equal(take(machine, 2, LONG_NS, &lease), KILN_OK);
    assert_int_equal(scratch_put(machine, 2, 100), KILN_OK);
    assert_int_equal(look(machine, 2, lease), KILN_OK);
    kiln_lease_release(&lease);
    /* The server has the entry. */
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(take(stores[i], 2, LONG_NS, &lease), KILN_OK);
        assert_null(lease->missed_in);
        assert_int_equal(look(stores[i], 2, lease), KILN_OK);
        kiln_lease_release(&lease);
    }
    kiln_store_close(&one);
    kiln_store_close(&machine);
}

static bool has_run_a_script(void)
{
    return strstr(redis_say(&server, "INFO commandstats"), "cmdstat_eval:") != NULL;
}

/* Takes a lease for a build of the given duration. Returns whether the server was asked. */
static bool asks_for_lease(kiln_store *store, uint64_t build_ns)
{
    kiln_lease *lease = NULL;
    kiln_key *key = scratch_key(1);
    assert_string_equal(redis_say(&server, "CONFIG RESETSTAT"), "+OK\r\n");
    assert_int_equal(kilni_store_lease(store, key, build_ns, 0, &lease), KILN_OK);
    kiln_lease_release(&lease);
    kiln_key_release(&key);
    return has_run_a_script();
}

/* No answer arrives within a nanosecond, and each arrives within an hour. */
static void test_a_build_that_is_faster_than_the_server(void **state)
{
    (void)state;
    const uint64_t hour_ns = UINT64_C(3600000000000);
    kiln_store *machine = open_machine(0);
    assert_true(asks_for_lease(machine, 1)); /* it is not known how fast the server is */
    assert_int_equal(look(machine, 2, NULL), KILN_MISS);
    assert_false(asks_for_lease(machine, 1));
    assert_true(asks_for_lease(machine, hour_ns));
    assert_true(asks_for_lease(machine, 0));
    kiln_store_close(&machine);
}

/* A chain's lease has a part for the machine and one for the fleet. Each part ends when a tier has
 * stored the entry, or with the lease. */
static void test_each_part_of_a_lease_ends_by_itself(void **state)
{
    (void)state;
    kiln_store *machine = open_machine(0);
    char path[SCRATCH_PATH_SIZE];
    snprintf(path, sizeof path, "%s/machine-0", scratch);
    kiln_store *directory = open_at(path);
    for (unsigned stored_in = 0; stored_in < 2; stored_in++) {
        kiln_lease *lease = NULL, *of_machine = NULL;
        assert_int_equal(take(machine, 1, LONG_NS, &lease), KILN_OK);
        for (int i = 0; i < 2; i++) { /* the second call finds nothing to release */
            kilni_lease_note_stored(lease, stored_in);
        }
        assert_string_equal(say("EXISTS", lease_of(1)), stored_in == 0 ? ":1\r\n" : ":0\r\n");
        assert_int_equal(take(directory, 1, 0, &of_machine), stored_in == 0 ? KILN_OK : KILN_BUSY);
        kiln_lease_release(&of_machine);
        kiln_lease_release(&lease);
        assert_string_equal(say("EXISTS", lease_of(1)), ":0\r\n");
        assert_int_equal(take(directory, 1, 0, &of_machine), KILN_OK);
        kiln_lease_release(&of_machine);
    }
    kiln_store_close(&directory);
    kiln_store_close(&machine);
}

/* The holder's entry is in the directory, and still on its way to the server. A process that missed
 * the entry before does not wait for the server. */
static void test_an_entry_of_this_machine_is_enough(void **state)
{
    (void)state;
    kiln_store *machine = open_machine(0), *other = open_machine(0);
    char path[SCRATCH_PATH_SIZE];
    snprintf(path, sizeof path, "%s/machine-0", scratch);
    kiln_store *directory = open_at(path);
    kiln_lease *lease = NULL, *second = NULL;
    assert_int_equal(take(machine, 1, LONG_NS, &lease), KILN_OK);
    assert_int_equal(scratch_put(directory, 1, 100), KILN_OK);
    kilni_lease_note_stored(lease, 0);
    assert_int_equal(take(other, 1, 0, &second), KILN_OK);
    assert_int_equal(look(other, 1, second), KILN_OK);
    assert_string_equal(say("EXISTS", lease_of(1)), ":1\r\n");
    kiln_lease_release(&second);
    kiln_lease_release(&lease);
    kiln_store_close(&directory);
    kiln_store_close(&machine);
    kiln_store_close(&other);
}

/* The server has forgotten a lease, which a different holder has taken since. */
static void test_a_lost_lease_does_not_release_its_successor(void **state)
{
    (void)state;
    kiln_store *store = open_server("");
    kiln_lease *lost = NULL, *kept = NULL, *none = NULL;
    assert_int_equal(take(store, 1, LONG_NS, &lost), KILN_OK);
    assert_string_equal(say("DEL", lease_of(1)), ":1\r\n");
    assert_int_equal(take(store, 1, LONG_NS, &kept), KILN_OK);
    kiln_lease_release(&lost);
    assert_int_equal(take(store, 1, 0, &none), KILN_BUSY);
    kiln_lease_release(&kept);
    kiln_store_close(&store);
}

static void test_stores_without_leases(void **state)
{
    (void)state;
    kiln_lease *none = NULL;
    kiln_store *store = open_server("&readonly=1");
    assert_int_equal(take(store, 1, 0, &none), KILN_E_UNSUPPORTED);
    kiln_store_close(&store);
    store = open_server("&lease=off");
    assert_int_equal(take(store, 1, 0, &none), KILN_E_UNSUPPORTED);
    kiln_store_close(&store);
    /* The user may put, but may not run scripts. */
    assert_string_equal(
        redis_say(&server, "ACL SETUSER default on nopass ~* -@all +get +set +strlen +getrange "
                           "+info +ping"),
        "+OK\r\n");
    store = open_server("");
    assert_int_equal(take(store, 1, LONG_NS, &none), KILN_E_UNSUPPORTED);
    assert_int_equal(scratch_put(store, 1, 100), KILN_OK);
    kiln_store_close(&store);
}

/* ---- machines ---- */

static void test_machine_and_fleet(void **state)
{
    (void)state;
    kiln_store *machines[2] = {open_machine(0), open_machine(1)};
    kiln_lease *lease = NULL, *none = NULL;
    assert_int_equal(take(machines[0], 1, LONG_NS, &lease), KILN_OK);
    assert_int_equal(take(machines[0], 1, 0, &none), KILN_BUSY);
    assert_int_equal(take(machines[1], 1, 0, &none), KILN_BUSY);
    kiln_lease_release(&lease);
    /* Without the server, a lease excludes only the processes of the same machine. */
    redis_stop(&server);
    assert_int_equal(take(machines[0], 1, LONG_NS, &lease), KILN_OK);
    assert_int_equal(take(machines[0], 1, 0, &none), KILN_BUSY);
    assert_int_equal(take(machines[1], 1, LONG_NS, &none), KILN_OK);
    kiln_lease_release(&lease);
    kiln_lease_release(&none);
    kiln_store_close(&machines[0]);
    kiln_store_close(&machines[1]);
}

/* The server loses entries and leases while processes hold them, and refuses connections. Still,
 * each process gets every entry, and there are no more builds than if each process built alone. */
static void test_the_server_restarts(void **state)
{
    (void)state;
    pid_t children[PROCESSES];
    start_all(children);
    kilni_sleep_ns(50000000);
    redis_stop(&server);
    kilni_sleep_ns(50000000);
    assert_true(redis_start_again(&server, no_options));
    expect_success_of_all(children);
    for (unsigned i = 1; i <= KEYS; i++) {
        assert_in_range(atomic_load(&shared->builds[i]), 1, PROCESSES);
    }
}

/* ---- the death of a holder ---- */

/* The lease of a killed process ends by itself; the lease of a running process does not. */
static void test_a_holder_is_killed(void **state)
{
    (void)state;
    kiln_store *store = open_machine(1);
    kiln_lease *own = NULL, *next = NULL, *none = NULL;
    const pid_t holder = start_holder(0);
    assert_int_equal(take(store, 2, LONG_NS, &own), KILN_OK);
    assert_int_equal(take(store, 1, 0, &none), KILN_BUSY);
    kill_holder(holder);
    assert_in_range(strtol(say("PTTL", lease_of(1)) + 1, NULL, 10), 1, 4000);
    assert_int_equal(take(store, 1, LONG_NS, &next), KILN_OK);
    kiln_lease_release(&next);
    /* This wait is longer than the first holder's lease lasted. */
    kiln_store *elsewhere = open_machine(2);
    assert_int_equal(take(elsewhere, 2, NS_PER_S, &none), KILN_BUSY);
    kiln_lease_release(&own);
    assert_int_equal(take(elsewhere, 2, LONG_NS, &none), KILN_OK);
    kiln_lease_release(&none);
    kiln_store_close(&elsewhere);
    kiln_store_close(&store);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_holder, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_lease_tells_of_a_miss, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_build_that_is_faster_than_the_server, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_each_part_of_a_lease_ends_by_itself, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_an_entry_of_this_machine_is_enough, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_lost_lease_does_not_release_its_successor, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_stores_without_leases, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_child_releases_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_machine_and_fleet, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_one_build_of_each_key, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_server_restarts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_holder_is_killed, set_up, tear_down),
    };
    if (count != 2) {
        return 2;
    }
    redis_require();
    kilni_remote_set_library(arguments[1]);
    kilni_remote_set_runtime_folder("/nonexistent");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
