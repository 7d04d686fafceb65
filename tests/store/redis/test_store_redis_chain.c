/* SPDX-License-Identifier: Apache-2.0
 *
 * A chain of a directory and a real Redis server, as programs use it.
 */
#include "support/store_scene.h"

#include "os/clock.h"
#include "store/remote/loader.h"
#include "store/remote/state_path.h"
#include "store/store.h"
#include "support/redis_server.h"

static const char *const no_options[] = {NULL};

static char scratch[SCRATCH_DIRECTORY_SIZE];
static redis_server server;
static kiln_store *store;

static const char *server_location(const char *options)
{
    static char location[SCRATCH_PATH_SIZE];
    snprintf(location, sizeof location, "redis://127.0.0.1:%u?trust=any%s", server.port, options);
    return location;
}

static void open_location(const char *location)
{
    kiln_error error = {.struct_size = sizeof error};
    kiln_store_close(&store);
    if (kiln_store_open(location, NULL, &store, &error) != KILN_OK) {
        fail_msg("%s: %s", location, error.text);
    }
}

/* Opens a chain whose directory has this name. */
static void open_chain(const char *name, const char *options)
{
    char location[3 * SCRATCH_PATH_SIZE];
    snprintf(location, sizeof location, "%s/%s|%s", scratch, name, server_location(options));
    open_location(location);
}

static int set_up(void **state)
{
    (void)state;
    scratch_make(scratch);
    return redis_start(&server, scratch, no_options) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    kiln_store_close(&store);
    redis_stop(&server);
    scratch_remove(scratch);
    return 0;
}

/* ---- what the tiers did ---- */

static kiln_tier_info server_tier;

static void take_tier(void *user, const kiln_tier_info *info)
{
    (void)user;
    server_tier = *info; /* the last one stays */
}

static void look_at_tiers(void)
{
    assert_int_equal(kiln_store_each_tier(store, take_tier, NULL), KILN_OK);
}

static void test_a_server_is_measured(void **state)
{
    (void)state;
    open_location(server_location(""));
    assert_int_equal(scratch_put(store, 1, 1000), KILN_OK);
    open_chain("a", "");
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_int_equal(scratch_get(store, 2), KILN_MISS);
    look_at_tiers();
    assert_int_equal(server_tier.hits, 1);
    assert_int_equal(server_tier.misses, 1);
    assert_int_equal(server_tier.faults, 0);
    assert_true(server_tier.latency_ns > 0);
    assert_null(server_tier.outage);
}

static void test_an_outage_is_reported(void **state)
{
    (void)state;
    open_chain("a", "");
    assert_int_equal(scratch_get(store, 1), KILN_MISS);
    redis_stop(&server);
    open_chain("a", "");
    for (unsigned tries = 0; tries < 3; tries++) {
        assert_int_equal(scratch_get(store, 1), KILN_MISS);
    }
    look_at_tiers();
    assert_true(server_tier.faults > 0);
    assert_string_equal(server_tier.outage, "it refuses connections, or its name is not found");
    /* Another process learns it from the file that the first one has written. */
    open_chain("a", "");
    look_at_tiers();
    assert_non_null(server_tier.outage);
    assert_true(server_tier.retry_ns < UINT64_C(60000000000));
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_server_is_measured, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_an_outage_is_reported, set_up, tear_down),
    };
    if (count != 2) {
        return 2;
    }
    redis_require();
    kilni_remote_set_library(arguments[1]);
    kilni_remote_set_runtime_folder("/nonexistent");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
