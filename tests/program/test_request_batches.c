/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests with several keys, as for several devices, and a real Redis server.
 */
#include "support/request_scene.h"

#include "store/remote/loader.h"
#include "store/remote/state_path.h"
#include "support/redis_server.h"

enum { COUNT = 12 };

static const char *const no_options[] = {NULL};

static char scratch[SCRATCH_DIRECTORY_SIZE];
static redis_server server;
static scripted_device device;
static environment at;
static kiln_key *keys[COUNT];

/* A machine is a directory in front of the server. */
static void open_machine(const char *name)
{
    char location[2 * SCRATCH_PATH_SIZE];
    snprintf(location, sizeof location, "%s/%s|redis://127.0.0.1:%u?trust=any", scratch, name,
             server.port);
    assert_true(open_environment(&at, &device, KILNI_KEEP_ENTRIES, location, 0));
}

static void move_to(const char *name)
{
    close_environment(&at);
    open_machine(name);
}

static int start_fleet(void **state)
{
    (void)state;
    scratch_make(scratch);
    if (!redis_start(&server, scratch, no_options)) {
        return -1;
    }
    for (size_t i = 0; i < COUNT; i++) {
        keys[i] = make_key("several", i);
    }
    open_machine("first");
    return 0;
}

static int stop_fleet(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        kiln_key_release(&keys[i]);
    }
    close_environment(&at);
    redis_stop(&server);
    scratch_remove(scratch);
    return atomic_load(&device.live_programs) == 0 && atomic_load(&device.wrong) == 0 ? 0 : -1;
}

/* Requests a program for some of the keys. The last key is requested twice. */
static void request_keys(size_t first, size_t count, kilni_source source)
{
    caller c = {.at = &at, .key_count = count + 1};
    for (size_t i = 0; i < count; i++) {
        c.keys[i] = keys[first + i];
    }
    c.keys[count] = keys[first + count - 1];
    run(&c);
    assert_got(&c, source);
    leave(&c);
    assert_int_equal(kilni_writer_drain(at.writer, DRAIN_NS), KILN_OK);
}

static unsigned long info_of(const char *section, const char *field)
{
    static int control = -1;
    static pid_t process;
    if (process != server.process) {
        close(control);
        control = redis_dial(&server);
        process = server.process;
    }
    return redis_info(control, section, field);
}

static unsigned long count_gets(void)
{
    return info_of("commandstats", "cmdstat_get:calls=");
}

static unsigned long count_reads(void)
{
    return info_of("stats", "total_reads_processed:");
}

/* The server reads once for the look-up, and once for the question how often it has read. */
static void test_one_round_trip(void **state)
{
    (void)state;
    request_keys(0, COUNT, KILNI_FROM_BUILD);
    move_to("second");
    request_keys(0, 1, KILNI_FROM_STORE); /* the connection is open */
    const unsigned long gets = count_gets(), reads = count_reads();
    request_keys(1, COUNT - 1, KILNI_FROM_STORE);
    assert_int_equal(count_reads(), reads + 2);
    assert_int_equal(count_gets(), gets + COUNT - 1);
    request_keys(0, COUNT, KILNI_FROM_MEMORY);
    assert_int_equal(count_gets(), gets + COUNT - 1);
    move_to("second");
    request_keys(0, COUNT, KILNI_FROM_STORE); /* the directory has them all */
    assert_int_equal(count_gets(), gets + COUNT - 1);
}

/* If one entry is missing or damaged, all are built, and only these are put. */
static void test_some_are_missing(void **state)
{
    (void)state;
    char command[128], text[KILN_DIGEST_TEXT_SIZE];
    request_keys(0, COUNT, KILNI_FROM_BUILD);
    for (size_t i = 0; i < 2; i++) {
        const kiln_digest digest = kiln_key_digest(keys[i]);
        kiln_digest_format(&digest, text);
        snprintf(command, sizeof command,
                 i == 0 ? "DEL kiln:v1:{%s}" : "SETRANGE kiln:v1:{%s} 90 x", text);
        assert_int_equal(redis_say(&server, command)[0], ':');
        move_to(i == 0 ? "second" : "third");
        request_keys(0, COUNT, KILNI_FROM_BUILD);
        move_to(i == 0 ? "fourth" : "fifth");
        request_keys(0, COUNT, KILNI_FROM_STORE);
    }
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_round_trip, start_fleet, stop_fleet),
        cmocka_unit_test_setup_teardown(test_some_are_missing, start_fleet, stop_fleet),
    };
    if (count != 2) {
        return 2;
    }
    redis_require();
    kilni_remote_set_library(arguments[1]);
    kilni_remote_set_runtime_folder("/nonexistent");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
