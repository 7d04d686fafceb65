/* SPDX-License-Identifier: Apache-2.0
 *
 * Signed entries on a real Redis server: writers with secret keys, and readers that trust some of
 * them.
 */
#include "support/store_scene.h"

#include <grp.h>

#include <kiln/signature.h>
#include <kiln/store_tools.h>

#include "entry/entry.h"
#include "store/remote/loader.h"
#include "store/store.h"
#include "support/child.h"
#include "support/redis_server.h"

static const char *const no_options[] = {NULL};

static char scratch[SCRATCH_DIRECTORY_SIZE];
static char trusted_file[SCRATCH_PATH_SIZE], roots_file[SCRATCH_PATH_SIZE];
static redis_server server;

/* ---- the scene ---- */

typedef struct writer_key {
    char path[SCRATCH_PATH_SIZE];
    kiln_public_key public_key;
} writer_key;

static writer_key team_1, team_2;

static void make_key(const char *name, writer_key *ret_key)
{
    snprintf(ret_key->path, sizeof ret_key->path, "%s/%s", scratch, name);
    assert_int_equal(kiln_secret_key_make(ret_key->path, name, &ret_key->public_key, NULL),
                     KILN_OK);
}

static int set_up(void **state)
{
    (void)state;
    scratch_make(scratch);
    snprintf(trusted_file, sizeof trusted_file, "%s/trusted-keys", scratch);
    snprintf(roots_file, sizeof roots_file, "%s/roots-keys", scratch);
    make_key("team-1", &team_1);
    make_key("team-2", &team_2);
    return redis_start(&server, scratch, no_options) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    redis_stop(&server);
    scratch_remove(scratch);
    return 0;
}

static const char *location_of(const char *options)
{
    static char location[SCRATCH_PATH_SIZE];
    snprintf(location, sizeof location, "redis://127.0.0.1:%u%s%s", server.port,
             options[0] ? "?" : "", options);
    return location;
}

static kiln_status try_open(const char *location, const writer_key *key, kiln_store **ret_store,
                            kiln_error *error)
{
    const kiln_store_credentials credentials = {.struct_size = sizeof credentials,
                                                .secret_key_file = key ? key->path : NULL,
                                                .trusted_key_files = {roots_file, trusted_file}};
    const kiln_store_params params = {.struct_size = sizeof params, .credentials = &credentials};
    return kiln_store_open(location, &params, ret_store, error);
}

/* Opens the server for the owner of a key, or for a reader. */
static kiln_store *open_for(const writer_key *key, const char *options)
{
    kiln_store *store = NULL;
    kiln_error error = {.struct_size = sizeof error};
    if (try_open(location_of(options), key, &store, &error) != KILN_OK) {
        fail_msg("%s", error.text);
    }
    return store;
}

static void trust(const writer_key *key)
{
    assert_int_equal(kiln_trusted_keys_add(trusted_file, &key->public_key, false, NULL), KILN_OK);
}

static void revoke_key(const writer_key *key)
{
    assert_int_equal(kiln_trusted_keys_add(roots_file, &key->public_key, true, NULL), KILN_OK);
}

static kiln_status put_as(const writer_key *key, uint64_t number, const char *options)
{
    kiln_store *store = open_for(key, options);
    const kiln_status status = scratch_put(store, number, 1000);
    kiln_store_close(&store);
    return status;
}

static kiln_status get_as(const writer_key *key, uint64_t number)
{
    kiln_store *store = open_for(key, "");
    const kiln_status status = scratch_get(store, number);
    kiln_store_close(&store);
    return status;
}

static const char *name_of(uint64_t number)
{
    static char names[2][64];
    static unsigned next;
    char *name = names[next++ % 2];
    char text[KILN_DIGEST_TEXT_SIZE];
    kiln_key *key = scratch_key(number);
    const kiln_digest digest = kiln_key_digest(key);
    kiln_digest_format(&digest, text);
    snprintf(name, sizeof names[0], "kiln:v1:{%s}", text);
    kiln_key_release(&key);
    return name;
}

/* ---- writers and readers ---- */

static void test_a_writer_and_a_reader(void **state)
{
    (void)state;
    assert_int_equal(put_as(&team_1, 1, ""), KILN_OK);
    assert_int_equal(get_as(&team_1, 1), KILN_OK);
    trust(&team_1);
    assert_int_equal(get_as(NULL, 1), KILN_OK);
    assert_int_equal(get_as(&team_2, 1), KILN_OK);

    kiln_store *reader = open_for(NULL, "");
    kiln_key *key = scratch_key(1);
    kiln_entry *entry = NULL;
    kiln_signature signature = {.struct_size = sizeof signature};
    assert_int_equal(kiln_store_get(reader, key, &entry), KILN_OK);
    assert_int_equal(kiln_entry_get_signature(entry, &signature), KILN_OK);
    assert_string_equal(signature.signer.name, "team-1");
    assert_int_equal(signature.expires_s, 0);
    kiln_entry_release(&entry);
    kiln_key_release(&key);
    kiln_store_close(&reader);
}

/* If a reader put entries, no reader could trust them, and they would replace trusted entries. */
static void test_a_reader_writes_nothing(void **state)
{
    (void)state;
    trust(&team_1);
    kiln_store *reader = open_for(NULL, "");
    kiln_key *key = scratch_key(1);
    kiln_lease *lease = NULL;
    assert_int_equal(scratch_put(reader, 1, 1000), KILN_E_READONLY);
    assert_int_equal(kiln_store_remove(reader, key), KILN_E_READONLY);
    assert_int_equal(kiln_store_lease(reader, key, 0, &lease), KILN_E_UNSUPPORTED);
    assert_int_equal(scratch_get(reader, 1), KILN_MISS);
    kiln_key_release(&key);
    kiln_store_close(&reader);
}

static void test_without_keys_nothing_is_opened(void **state)
{
    (void)state;
    kiln_store *store = NULL;
    kiln_error error = {.struct_size = sizeof error};
    assert_int_equal(try_open(location_of(""), NULL, &store, &error), KILN_E_DENIED);
    assert_non_null(strstr(error.text, "kiln key trust"));
    trust(&team_1);
    revoke_key(&team_1);
    assert_int_equal(try_open(location_of(""), NULL, &store, &error), KILN_E_DENIED);
    assert_int_equal(try_open(location_of(""), &team_1, &store, &error), KILN_E_DENIED);
    assert_non_null(strstr(error.text, "revoked"));
    assert_int_equal(try_open(location_of("trust=any"), NULL, &store, &error), KILN_OK);
    kiln_store_close(&store);
    assert_int_equal(chmod(trusted_file, 0666), 0);
    assert_int_equal(try_open(location_of(""), &team_2, &store, &error), KILN_E_DENIED);
    assert_non_null(strstr(error.text, trusted_file));
    assert_int_equal(chmod(trusted_file, 0644), 0);
    assert_int_equal(chmod(team_2.path, 0640), 0);
    assert_int_equal(try_open(location_of(""), &team_2, &store, &error), KILN_E_DENIED);
    assert_non_null(strstr(error.text, team_2.path));
    assert_null(store);
}

static void test_strangers_and_unsigned_entries(void **state)
{
    (void)state;
    trust(&team_1);
    assert_int_equal(put_as(&team_2, 1, ""), KILN_OK);
    assert_int_equal(get_as(NULL, 1), KILN_E_UNAUTHENTICATED);
    assert_int_equal(put_as(NULL, 2, "trust=any"), KILN_OK);
    assert_int_equal(get_as(NULL, 2), KILN_E_UNAUTHENTICATED);
    /* A writer replaces an entry that it does not trust. */
    assert_int_equal(get_as(&team_1, 1), KILN_E_UNAUTHENTICATED);
    assert_int_equal(put_as(&team_1, 1, ""), KILN_OK);
    assert_int_equal(get_as(NULL, 1), KILN_OK);
    /* With trust=any a writer still signs. */
    assert_int_equal(put_as(&team_1, 2, "trust=any"), KILN_OK);
    assert_int_equal(get_as(NULL, 2), KILN_OK);
}

/* The old key stays trusted until all entries that it signed have been replaced. */
static void test_rotation(void **state)
{
    (void)state;
    trust(&team_1);
    assert_int_equal(put_as(&team_1, 1, ""), KILN_OK);
    trust(&team_2);
    assert_int_equal(put_as(&team_2, 2, ""), KILN_OK);
    assert_int_equal(get_as(NULL, 1), KILN_OK);
    assert_int_equal(get_as(NULL, 2), KILN_OK);
    assert_int_equal(get_as(&team_2, 1), KILN_OK);
    revoke_key(&team_1);
    assert_int_equal(get_as(NULL, 1), KILN_E_UNAUTHENTICATED);
    assert_int_equal(get_as(NULL, 2), KILN_OK);
    assert_int_equal(put_as(&team_2, 1, ""), KILN_OK);
    assert_int_equal(get_as(NULL, 1), KILN_OK);
}

static void test_expiry(void **state)
{
    (void)state;
    trust(&team_1);
    assert_int_equal(put_as(&team_1, 1, "valid=1"), KILN_OK);
    assert_int_equal(get_as(NULL, 1), KILN_OK);
    kiln_store *reader = open_for(NULL, "");
    kiln_key *key = scratch_key(1);
    kiln_entry *entry = NULL;
    kiln_signature signature = {.struct_size = sizeof signature};
    assert_int_equal(kiln_store_get(reader, key, &entry), KILN_OK);
    assert_int_equal(kiln_entry_get_signature(entry, &signature), KILN_OK);
    const int64_t left_s = signature.expires_s - kilni_clock_unix_s();
    assert_in_range(left_s, 86400 - 3600, 86400);
    kiln_entry_release(&entry);
    kiln_key_release(&key);
    kiln_store_close(&reader);
}

/* ---- what a server may answer ---- */

/* A server may answer with an older signed entry of the same key, but not with an entry of another
 * key. */
static void test_other_answers(void **state)
{
    (void)state;
    char command[256];
    trust(&team_1);
    assert_int_equal(put_as(&team_1, 1, ""), KILN_OK);
    assert_int_equal(put_as(&team_1, 2, ""), KILN_OK);
    snprintf(command, sizeof command, "COPY %s old", name_of(1));
    redis_say(&server, command);
    assert_int_equal(put_as(&team_1, 1, ""), KILN_OK);
    snprintf(command, sizeof command, "COPY old %s REPLACE", name_of(1));
    assert_string_equal(redis_say(&server, command), ":1\r\n");
    assert_int_equal(get_as(NULL, 1), KILN_OK);
    snprintf(command, sizeof command, "COPY %s %s REPLACE", name_of(2), name_of(1));
    assert_string_equal(redis_say(&server, command), ":1\r\n");
    assert_int_equal(get_as(NULL, 1), KILN_E_CORRUPT);
}

/* ---- chains ---- */

/* An entry that was verified once belongs to the directory, which needs no key to return it. */
static void test_a_directory_in_front(void **state)
{
    (void)state;
    char location[2 * SCRATCH_PATH_SIZE];
    kiln_store *store = NULL;
    trust(&team_1);
    assert_int_equal(put_as(&team_1, 1, ""), KILN_OK);
    assert_int_equal(put_as(&team_2, 2, ""), KILN_OK);
    snprintf(location, sizeof location, "%s/local|%s", scratch, location_of(""));
    assert_int_equal(try_open(location, NULL, &store, NULL), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_int_equal(scratch_get(store, 2), KILN_E_UNAUTHENTICATED);
    assert_int_equal(scratch_put(store, 3, 100), KILN_OK);
    kiln_store_close(&store);
    assert_string_equal(redis_say(&server, "DBSIZE"), ":2\r\n");
    redis_stop(&server);
    assert_int_equal(kiln_store_open(scratch_path(scratch, "local"), NULL, &store, NULL), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_int_equal(scratch_get(store, 3), KILN_OK);
    assert_int_equal(scratch_get(store, 2), KILN_MISS);
    kiln_store_close(&store);
}

/* A directory's entries are unsigned, so a writer does not sign them on their way to the server. */
static void test_nothing_unsigned_is_passed_on(void **state)
{
    (void)state;
    char location[2 * SCRATCH_PATH_SIZE];
    kiln_store *store = NULL;
    assert_int_equal(kiln_store_open(scratch_path(scratch, "local"), NULL, &store, NULL), KILN_OK);
    assert_int_equal(scratch_put(store, 1, 100), KILN_OK);
    kiln_store_close(&store);
    snprintf(location, sizeof location, "%s|%s/local", location_of(""), scratch);
    assert_int_equal(try_open(location, &team_1, &store, NULL), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_string_equal(redis_say(&server, "DBSIZE"), ":0\r\n");
    assert_int_equal(scratch_put(store, 2, 100), KILN_OK);
    assert_string_equal(redis_say(&server, "DBSIZE"), ":1\r\n");
    kiln_store_close(&store);
}

/* An entry that anybody could have written does not get this machine's signature, although the
 * store above accepts any entry. */
static void test_nothing_of_anybody_is_signed(void **state)
{
    (void)state;
    char location[2 * SCRATCH_PATH_SIZE];
    kiln_store *store = NULL;
    snprintf(location, sizeof location, "redis://127.0.0.1:%u/1?trust=any", server.port);
    assert_int_equal(try_open(location, NULL, &store, NULL), KILN_OK);
    assert_int_equal(scratch_put(store, 1, 100), KILN_OK);
    kiln_store_close(&store);

    snprintf(location, sizeof location,
             "redis://127.0.0.1:%u?trust=any|redis://127.0.0.1:%u/1?trust=any", server.port,
             server.port);
    assert_int_equal(try_open(location, &team_1, &store, NULL), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    kiln_store_close(&store);
    assert_string_equal(redis_say(&server, "DBSIZE"), ":0\r\n");
    /* A machine without a key signs nothing, so it may pass the entry on. */
    assert_int_equal(try_open(location, NULL, &store, NULL), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    kiln_store_close(&store);
    assert_string_equal(redis_say(&server, "DBSIZE"), ":1\r\n");
    trust(&team_1);
    assert_int_equal(get_as(NULL, 1), KILN_E_UNAUTHENTICATED);
}

/* Whether the results in an entry from a store may become part of a new entry. */
static bool may_merge(const char *location, const writer_key *key)
{
    kiln_store *store = NULL;
    kiln_entry *found = NULL;
    kiln_key *wanted = scratch_key(1);
    assert_int_equal(try_open(location, key, &store, NULL), KILN_OK);
    assert_int_equal(kiln_store_get(store, wanted, &found), KILN_OK);
    const bool result = kilni_store_may_merge(store, found);
    kiln_entry_release(&found);
    kiln_key_release(&wanted);
    kiln_store_close(&store);
    return result;
}

/* An entry that replaces an earlier entry keeps no results that a different signer signed, because
 * that signer's key may be revoked later. If this machine signs the new entry, that entry keeps no
 * unsigned results either, because anybody could have written those. */
static void test_results_of_others_stay_out(void **state)
{
    (void)state;
    char directory[SCRATCH_PATH_SIZE], chain[4 * SCRATCH_PATH_SIZE];
    kiln_store *store = NULL;
    snprintf(directory, sizeof directory, "%s/cache", scratch);
    snprintf(chain, sizeof chain, "%s|%s", directory, location_of(""));
    trust(&team_1);
    /* An unsigned entry of a directory may be merged, but not if the new entry will be signed. */
    assert_int_equal(try_open(directory, NULL, &store, NULL), KILN_OK);
    assert_int_equal(scratch_put(store, 1, 100), KILN_OK);
    kiln_store_close(&store);
    assert_true(may_merge(directory, NULL));
    assert_true(may_merge(chain, NULL));
    assert_false(may_merge(chain, &team_2));
    /* An entry that has a signature is not merged. */
    assert_int_equal(put_as(&team_1, 1, ""), KILN_OK);
    assert_false(may_merge(location_of(""), NULL));
    assert_false(may_merge(location_of(""), &team_1));
}

/* ---- copies ---- */

static kiln_status copy(kiln_store *from, kiln_store *into, kiln_copy_report *ret_report)
{
    *ret_report = (kiln_copy_report){.struct_size = sizeof *ret_report};
    return kiln_store_copy(from, into, NULL, ret_report, NULL);
}

static void test_copies(void **state)
{
    (void)state;
    kiln_store *local = NULL, *any = NULL;
    kiln_copy_report report;
    assert_int_equal(put_as(&team_1, 1, ""), KILN_OK);
    assert_int_equal(put_as(&team_2, 2, ""), KILN_OK);
    assert_int_equal(put_as(NULL, 3, "trust=any"), KILN_OK);
    assert_int_equal(kiln_store_open(scratch_path(scratch, "local"), NULL, &local, NULL), KILN_OK);

    /* A directory would trust copied entries for good. trust=any does not justify that, not even
     * with a secret key. */
    assert_int_equal(try_open(location_of("trust=any"), &team_1, &any, NULL), KILN_OK);
    assert_int_equal(copy(any, local, &report), KILN_E_UNAUTHENTICATED);
    kiln_store_close(&any);

    trust(&team_1);
    kiln_store *reader = open_for(NULL, "");
    assert_int_equal(copy(reader, local, &report), KILN_OK);
    assert_int_equal(report.taken, 1);
    assert_int_equal(report.unauthenticated, 2);
    assert_int_equal(copy(local, reader, &report), KILN_E_READONLY);
    kiln_store_close(&reader);

    /* After team-1's key was revoked, team-2 does not sign the entries that team-1 had signed. */
    redis_say(&server, "FLUSHALL");
    revoke_key(&team_1);
    kiln_store *writer = open_for(&team_2, "");
    assert_int_equal(scratch_put(local, 4, 100), KILN_OK);
    assert_int_equal(copy(local, writer, &report), KILN_OK);
    assert_int_equal(report.taken, 1);
    assert_int_equal(report.refused, 1);
    assert_int_equal(scratch_get(writer, 1), KILN_MISS);
    assert_int_equal(scratch_get(writer, 4), KILN_OK);
    kiln_store_close(&writer);
    kiln_store_close(&local);
}

/* ---- a different user ---- */

#define STRANGER 12345

static void put_two(void)
{
    CHECK(put_as(&team_1, 1, "") == KILN_OK);
    CHECK(put_as(&team_2, 2, "") == KILN_OK);
}

/* Runs as the other user. */
static void read_as_stranger(void)
{
    kiln_store *store = NULL;
    CHECK(setgroups(0, NULL) == 0 && setgid(STRANGER) == 0 && setuid(STRANGER) == 0);
    CHECK(try_open(location_of(""), &team_1, &store, NULL) == KILN_E_DENIED);
    CHECK(try_open(location_of(""), NULL, &store, NULL) == KILN_OK);
    CHECK(scratch_get(store, 1) == KILN_OK);
    CHECK(scratch_get(store, 2) == KILN_E_UNAUTHENTICATED);
    kiln_store_close(&store);
}

/* The reader's own file lists the keys that it trusts. The reader cannot read the writer's secret
 * key. This process must not have an I/O thread when it forks, so this test is the first one, and
 * opens stores in children only. */
static void test_a_different_user_reads(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        skip();
    }
    assert_int_equal(run_in_child(put_two), 0);
    assert_int_equal(chmod(scratch, 0755), 0);
    snprintf(trusted_file, sizeof trusted_file, "%s/theirs", scratch);
    assert_int_equal(mkdir(trusted_file, 0700), 0);
    strcat(trusted_file, "/trusted-keys");
    trust(&team_1);
    assert_int_equal(chown(trusted_file, STRANGER, STRANGER), 0);
    assert_int_equal(chown(scratch_path(scratch, "theirs"), STRANGER, STRANGER), 0);
    assert_int_equal(run_in_child(read_as_stranger), 0);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_different_user_reads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_writer_and_a_reader, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_reader_writes_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_keys_nothing_is_opened, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_strangers_and_unsigned_entries, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rotation, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_expiry, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_answers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_directory_in_front, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nothing_unsigned_is_passed_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nothing_of_anybody_is_signed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_results_of_others_stay_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_copies, set_up, tear_down),
    };
    if (count != 2) {
        return 2;
    }
    redis_require();
    kilni_remote_set_library(arguments[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
