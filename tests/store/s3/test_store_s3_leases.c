/* SPDX-License-Identifier: Apache-2.0
 *
 * Leases in a bucket of a real S3 server: OpenStack Swift with s3api, which refuses conditional
 * puts. All cases share the server, and each has a prefix of its own.
 */
#include "support/lease_scene.h"

#include "store/remote/loader.h"
#include "store/remote/state_path.h"
#include "support/swift_server.h"

static const char *script;
static char server_scratch[SCRATCH_DIRECTORY_SIZE];
static swift_server server;
static unsigned case_number;

static const char *location_of(const char *options)
{
    static char location[2 * SCRATCH_PATH_SIZE];
    snprintf(
        location, sizeof location,
        "s3://kiln/case-%u?endpoint=http://127.0.0.1:%u&credentials-file=%s/writer&trust=any%s",
        case_number, server.port, scratch, options);
    return location;
}

static bool write_credentials(void)
{
    FILE *file = fopen(scratch_path(scratch, "writer"), "w");
    return file && fchmod(fileno(file), 0600) == 0 &&
           fputs("[default]\naws_access_key_id=kiln:writer\n"
                 "aws_secret_access_key=writer-secret\n",
                 file) >= 0 &&
           fclose(file) == 0;
}

static int set_up(void **state)
{
    (void)state;
    case_number++;
    lease_location = location_of;
    return lease_set_up() && write_credentials() ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    lease_tear_down();
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

/* ---- the cases ---- */

static int count_one(void *user, kiln_item *item)
{
    (void)item;
    ++*(unsigned *)user;
    return 0;
}

/* A marker is not listed, and entries can be removed while there is one. */
static void test_one_holder(void **state)
{
    (void)state;
    kiln_store *one = open_server("");
    kiln_store *other = open_server("");
    kiln_lease *first = NULL, *second = NULL;
    unsigned count = 0;
    assert_int_equal(take(one, 1, LONG_NS, &first), KILN_OK);
    assert_int_equal(take(other, 1, 0, &second), KILN_BUSY);
    assert_int_equal(scratch_put(one, 2, 1000), KILN_OK);
    assert_int_equal(kiln_store_each(other, count_one, &count), KILN_OK);
    assert_int_equal(count, 1);
    kiln_lease_release(&first);
    assert_int_equal(take(other, 1, 0, &second), KILN_OK);
    kiln_lease_release(&second);
    kiln_store_close(&one);
    kiln_store_close(&other);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_holder, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_child_releases_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_one_build, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_leases_in_time, set_up, tear_down),
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
