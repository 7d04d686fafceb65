/* SPDX-License-Identifier: Apache-2.0
 *
 * A store on a real Redis server.
 */
#include "support/store_scene.h"

#include <pthread.h>
#include <sys/syscall.h>

#include "entry/entry.h"
#include "store/remote/loader.h"
#include "store/remote/state_path.h"
#include "store/store.h"
#include "support/child.h"
#include "support/redis_server.h"

static const char *const no_options[] = {NULL};

static char scratch[SCRATCH_DIRECTORY_SIZE];
static redis_server server;
static kiln_store *store;

/* ---- set-up ---- */

static const char *file_with(const char *name, const char *content, size_t size, mode_t mode)
{
    const char *path = scratch_path(scratch, name);
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(file >= 0 && write(file, content, size) == (ssize_t)size);
    assert_int_equal(fchmod(file, mode), 0);
    close(file);
    return path;
}

static const char *location_of(const char *options)
{
    static char location[SCRATCH_PATH_SIZE];
    assert_in_range(
        snprintf(location, sizeof location, "redis://127.0.0.1:%u?%s", server.port, options), 1,
        sizeof location - 1);
    return location;
}

static void open_store(const char *location)
{
    kiln_error error = {.struct_size = sizeof error};
    kiln_store_close(&store);
    if (kiln_store_open(location, NULL, &store, &error) != KILN_OK) {
        fail_msg("%s: %s", location, error.text);
    }
}

static int set_up(void **state)
{
    (void)state;
    scratch_make(scratch);
    if (!redis_start(&server, scratch, no_options)) {
        return -1;
    }
    open_store(location_of("trust=any"));
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

static const char *name_of(uint64_t number)
{
    static char name[64];
    char text[KILN_DIGEST_TEXT_SIZE];
    kiln_key *key = scratch_key(number);
    const kiln_digest digest = kiln_key_digest(key);
    kiln_digest_format(&digest, text);
    snprintf(name, sizeof name, "kiln:v1:{%s}", text);
    kiln_key_release(&key);
    return name;
}

/* Sends a command in which @name replaces %s. */
static const char *say(const char *format, const char *name)
{
    char command[512];
    const char *at = strstr(format, "%s");
    snprintf(command, sizeof command, "%.*s%s%s", (int)(at - format), format, name, at + 2);
    return redis_say(&server, command);
}

static kiln_status contains(uint64_t number)
{
    kiln_key *key = scratch_key(number);
    const kiln_status status = kiln_store_contains(store, key);
    kiln_key_release(&key);
    return status;
}

static kiln_status remove_number(uint64_t number)
{
    kiln_key *key = scratch_key(number);
    const kiln_status status = kiln_store_remove(store, key);
    kiln_key_release(&key);
    return status;
}

/* ---- the guarantees of every store ---- */

static void test_put_get_contains_remove(void **state)
{
    (void)state;
    assert_int_equal(scratch_get(store, 1), KILN_MISS);
    assert_int_equal(contains(1), KILN_MISS);
    assert_int_equal(remove_number(1), KILN_MISS);
    for (size_t size = 0; size <= 4000000; size = 7 * size + 3) {
        assert_int_equal(scratch_put(store, 1, size), KILN_OK);
        assert_int_equal(scratch_get(store, 1), KILN_OK);
    }
    assert_int_equal(contains(1), KILN_OK);
    assert_string_equal(say("EXISTS %s", name_of(1)), ":1\r\n");
    assert_int_equal(remove_number(1), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_MISS);
}

static void test_entries_outlive_the_handle(void **state)
{
    (void)state;
    assert_int_equal(scratch_put(store, 1, 1000), KILN_OK);
    open_store(location_of("trust=any"));
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    char location[SCRATCH_PATH_SIZE];
    snprintf(location, sizeof location, "redis+unix://%s?trust=any", server.socket);
    open_store(location);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    snprintf(location, sizeof location, "redis://localhost:%u/3?trust=any", server.port);
    open_store(location);
    assert_int_equal(scratch_get(store, 1), KILN_MISS);
    assert_int_equal(scratch_put(store, 1, 10), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
}

static int count_item(void *user, kiln_item *item)
{
    kiln_item_info info = {.struct_size = sizeof info};
    assert_int_equal(kiln_item_get_info(item, &info), KILN_OK);
    assert_int_equal(info.state, KILN_OK);
    assert_string_equal(info.device, "a device of tests");
    ++*(unsigned *)user;
    return 0;
}

static int remove_item(void *user, kiln_item *item)
{
    (void)user;
    kiln_entry *entry = NULL;
    assert_int_equal(kiln_item_read(item, &entry), KILN_OK);
    kiln_entry_release(&entry);
    assert_int_equal(kiln_item_remove(item), KILN_OK);
    return 0;
}

/* There are more entries than one SCAN lists, and values of other programs. */
static void test_each(void **state)
{
    (void)state;
    unsigned count = 0;
    assert_int_equal(kiln_store_each(store, count_item, &count), KILN_OK);
    assert_int_equal(count, 0);
    for (uint64_t i = 0; i < 1200; i++) {
        assert_int_equal(scratch_put(store, i, 100), KILN_OK);
    }
    say("SET %s x", "kiln:v1:{nothing}");
    say("SET %s x", "other");
    assert_int_equal(kiln_store_each(store, count_item, &count), KILN_OK);
    assert_int_equal(count, 1200);
    kiln_store_stat stat = {.struct_size = sizeof stat};
    assert_int_equal(kiln_store_get_stat(store, 0, &stat), KILN_OK);
    assert_int_equal(stat.entries, 1200);
    assert_true(stat.bytes > 1200u * 100u);
    kiln_key *key = scratch_key(7);
    const kiln_digest digest = kiln_key_digest(key);
    count = 0;
    assert_int_equal(kiln_store_each_of_digest(store, &digest, count_item, &count), KILN_OK);
    assert_int_equal(count, 1);
    assert_int_equal(kiln_store_each_of_digest(store, &digest, remove_item, NULL), KILN_OK);
    assert_int_equal(kiln_store_each_of_digest(store, &digest, count_item, &count), KILN_OK);
    assert_int_equal(count, 1);
    assert_string_equal(redis_say(&server, "DBSIZE"), ":1201\r\n");
    kiln_key_release(&key);
    assert_int_equal(kiln_store_each(store, remove_item, NULL), KILN_OK);
    assert_string_equal(redis_say(&server, "DBSIZE"), ":2\r\n");
}

static void test_requests_are_not_sent(void **state)
{
    (void)state;
    kiln_entry *request = scratch_request(1);
    assert_int_equal(kiln_store_put(store, request), KILN_E_UNSUPPORTED);
    kiln_entry_release(&request);
    assert_string_equal(redis_say(&server, "DBSIZE"), ":0\r\n");
}

static void test_readonly(void **state)
{
    (void)state;
    assert_int_equal(scratch_put(store, 1, 100), KILN_OK);
    open_store(location_of("trust=any&readonly=1"));
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_int_equal(scratch_put(store, 2, 100), KILN_E_READONLY);
    assert_int_equal(remove_number(1), KILN_E_READONLY);
}

static void test_expiry(void **state)
{
    (void)state;
    open_store(location_of("trust=any&expire=2"));
    assert_int_equal(scratch_put(store, 1, 100), KILN_OK);
    const long left_ms = strtol(say("PTTL %s", name_of(1)) + 1, NULL, 10);
    assert_in_range(left_ms, 2 * 86400000 - 60000, 2 * 86400000);
}

static void *put_and_get(void *argument)
{
    const uint64_t own = (uint64_t)(uintptr_t)argument;
    uintptr_t wrong = 0;
    for (unsigned i = 0; i < 50; i++) {
        wrong += scratch_put(store, own, 1000 * i) != KILN_OK;
        wrong += scratch_get(store, own) != KILN_OK;
        wrong += scratch_get(store, 1) != KILN_OK;
    }
    return (void *)wrong; /* NOLINT */
}

static void test_many_threads(void **state)
{
    (void)state;
    pthread_t threads[8];
    assert_int_equal(scratch_put(store, 1, 100000), KILN_OK);
    for (uintptr_t i = 0; i < 8; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, put_and_get, (void *)(i + 2)), 0);
    }
    for (unsigned i = 0; i < 8; i++) {
        void *wrong = NULL;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
}

/* ---- the server's memory ---- */

static void test_large_entries_are_not_put(void **state)
{
    (void)state;
    open_store(location_of("trust=any&max-entry=10K"));
    assert_int_equal(scratch_put(store, 1, 20000), KILN_E_TOO_LARGE);
    open_store(location_of("trust=any"));
    assert_int_equal(scratch_put(store, 1, 20000), KILN_OK);
    assert_int_equal(scratch_put(store, 2, 100), KILN_OK);
    open_store(location_of("trust=any&max-entry=10K"));
    assert_int_equal(scratch_get(store, 1), KILN_MISS);
    assert_int_equal(scratch_get(store, 2), KILN_OK);
}

/* A value that is larger than the server's memory would make the server evict everything else. */
static void test_a_small_server_keeps_what_it_has(void **state)
{
    (void)state;
    assert_string_equal(redis_say(&server, "CONFIG SET maxmemory 8mb"), "+OK\r\n");
    assert_string_equal(redis_say(&server, "CONFIG SET maxmemory-policy allkeys-lru"), "+OK\r\n");
    assert_int_equal(scratch_put(store, 1, 1000), KILN_OK);
    assert_int_equal(scratch_put(store, 2, 12000000), KILN_E_TOO_LARGE);
    assert_int_equal(scratch_put(store, 3, 1000000), KILN_E_TOO_LARGE);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
}

static void test_a_full_server(void **state)
{
    (void)state;
    assert_int_equal(scratch_put(store, 1, 1000), KILN_OK);
    assert_string_equal(redis_say(&server, "CONFIG SET maxmemory 100kb"), "+OK\r\n");
    assert_int_equal(scratch_put(store, 2, 1000), KILN_E_FULL);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
}

/* ---- values that a server returns are checked ---- */

static void test_wrong_values(void **state)
{
    (void)state;
    static const char *const values[] = {"SET %s nonsense", "SET %s \"\"",
                                         "SETRANGE %s 70 \"\\x55\\x66\"", "SETRANGE %s 2000 x"};
    assert_int_equal(scratch_put(store, 1, 1000), KILN_OK);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        say(values[i], name_of(1));
        assert_int_equal(scratch_get(store, 1), KILN_E_CORRUPT);
        assert_int_equal(scratch_put(store, 1, 1000), KILN_OK);
        assert_int_equal(scratch_get(store, 1), KILN_OK);
    }
    say("DEL %s", name_of(1));
    say("LPUSH %s x", name_of(1));
    assert_int_equal(scratch_get(store, 1), KILN_MISS);
    assert_int_equal(scratch_put(store, 1, 1000), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
}

/* The value is an undamaged entry, but of a different key. */
static void test_a_value_of_another_key(void **state)
{
    (void)state;
    char command[256];
    assert_int_equal(scratch_put(store, 1, 1000), KILN_OK);
    int length = snprintf(command, sizeof command, "COPY %s ", name_of(1));
    snprintf(command + length, sizeof command - (size_t)length, "%s", name_of(2));
    assert_string_equal(redis_say(&server, command), ":1\r\n");
    assert_int_equal(scratch_get(store, 2), KILN_E_CORRUPT);
}

static void test_a_newer_entry_stays(void **state)
{
    (void)state;
    assert_int_equal(scratch_put(store, 1, 1000), KILN_OK);
    say("SETRANGE %s 8 \"\\x02\"", name_of(1));
    assert_int_equal(scratch_get(store, 1), KILN_E_VERSION);
    assert_int_equal(scratch_put(store, 1, 1000), KILN_EXISTS);
    assert_int_equal(remove_number(1), KILN_EXISTS);
    assert_int_equal(contains(1), KILN_OK);
}

/* If a device refuses an entry, the entry stays on the server for other machines. */
static void test_a_refused_entry_is_not_removed_from_the_server(void **state)
{
    (void)state;
    kiln_key *key = scratch_key(1);
    kiln_entry *entry = NULL;
    assert_int_equal(scratch_put(store, 1, 1000), KILN_OK);
    assert_int_equal(kiln_store_get(store, key, &entry), KILN_OK);
    assert_int_equal(kilni_store_remove_judged(store, key, entry), KILN_MISS);
    assert_int_equal(contains(1), KILN_OK);
    kiln_entry_release(&entry);
    kiln_key_release(&key);
}

static void test_signatures(void **state)
{
    (void)state;
    char location[SCRATCH_PATH_SIZE];
    char key[32];
    memset(key, 'a', sizeof key);
    assert_int_equal(scratch_put(store, 1, 1000), KILN_OK);
    snprintf(location, sizeof location, "key-file=%s", file_with("a", key, 32, 0600));
    open_store(location_of(location));
    assert_int_equal(scratch_get(store, 1), KILN_E_UNAUTHENTICATED);
    assert_int_equal(scratch_put(store, 1, 1000), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    key[0] = 'b';
    snprintf(location, sizeof location, "key-file=%s", file_with("b", key, 32, 0600));
    open_store(location_of(location));
    assert_int_equal(scratch_get(store, 1), KILN_E_UNAUTHENTICATED);
}

/* The server gets digests in place of the long parts of keys. */
static void test_sources_are_not_sent(void **state)
{
    (void)state;
    static const char source[] = "a secret kernel that is longer than a digest of it would be";
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    kiln_entry *entry = NULL;
    assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
    assert_int_equal(kiln_key_builder_add_text(builder, "source", source), KILN_OK);
    assert_int_equal(kiln_key_builder_finish(builder, &key), KILN_OK);
    kiln_key_builder_free(&builder);
    const kiln_entry_params params = {.struct_size = sizeof params,
                                      .key = key,
                                      .kind = KILN_ENTRY_PROGRAM,
                                      .provenance.struct_size = sizeof params.provenance,
                                      .payload = {"built", 5}};
    assert_int_equal(kiln_entry_new(&params, &entry), KILN_OK);
    assert_int_equal(kiln_store_put(store, entry), KILN_OK);
    kiln_entry_release(&entry);
    assert_int_equal(kiln_store_get(store, key, &entry), KILN_OK);
    const kiln_bytes bytes = kiln_entry_encoding(entry);
    assert_null(memmem(bytes.data, bytes.size, "secret", 6));
    assert_memory_equal(kiln_entry_payload(entry).data, "built", 5);
    kiln_entry_release(&entry);
    kiln_key_release(&key);
}

/* ---- passwords and permissions ---- */

static void test_passwords(void **state)
{
    (void)state;
    char options[SCRATCH_PATH_SIZE];
    assert_string_equal(redis_say(&server,
                                  "ACL SETUSER writer on >wpass ~kiln:* -@all +get +set +unlink "
                                  "+exists +strlen +getrange +scan +select +info"),
                        "+OK\r\n");
    assert_string_equal(redis_say(&server, "CONFIG SET requirepass \"all of it\""), "+OK\r\n");
    assert_int_equal(scratch_get(store, 1), KILN_E_DENIED);
    snprintf(options, sizeof options, "trust=any&password-file=%s",
             file_with("password", "all of it\n", 10, 0600));
    open_store(location_of(options));
    assert_int_equal(scratch_put(store, 1, 100), KILN_OK);
    file_with("password", "wrong\n", 6, 0600);
    open_store(location_of(options));
    assert_int_equal(scratch_get(store, 1), KILN_E_DENIED);
    char location[2 * SCRATCH_PATH_SIZE];
    snprintf(location, sizeof location, "redis://writer@127.0.0.1:%u?%s", server.port, options);
    file_with("password", "wpass", 5, 0600);
    open_store(location);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_int_equal(scratch_put(store, 1, 100), KILN_OK);
    assert_int_equal(remove_number(1), KILN_OK);
}

static void open_with_password(const char *location, const char *password)
{
    const kiln_store_credentials credentials = {.struct_size = sizeof credentials,
                                                .redis_password = password};
    const kiln_store_params params = {.struct_size = sizeof params, .credentials = &credentials};
    kiln_error error = {.struct_size = sizeof error};
    kiln_store_close(&store);
    if (kiln_store_open(location, &params, &store, &error) != KILN_OK) {
        fail_msg("%s: %s", location, error.text);
    }
}

static void test_a_password_of_the_environment(void **state)
{
    (void)state;
    char options[SCRATCH_PATH_SIZE];
    char location[2 * SCRATCH_PATH_SIZE];
    /* A server that needs no password is used nevertheless. */
    open_with_password(location_of("trust=any"), "all of it");
    assert_int_equal(scratch_put(store, 1, 100), KILN_OK);
    redis_say(&server, "ACL SETUSER writer on >wpass ~kiln:* -@all +get +exists");
    assert_string_equal(redis_say(&server, "CONFIG SET requirepass \"all of it\""), "+OK\r\n");
    open_with_password(location_of("trust=any"), "all of it");
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    open_with_password(location_of("trust=any"), "wrong");
    assert_int_equal(scratch_get(store, 1), KILN_E_DENIED);
    snprintf(location, sizeof location, "redis://writer@127.0.0.1:%u?trust=any", server.port);
    open_with_password(location, "wpass");
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    /* The location's file takes precedence. */
    snprintf(options, sizeof options, "trust=any&password-file=%s",
             file_with("password", "all of it\n", 10, 0600));
    open_with_password(location_of(options), "wrong");
    assert_int_equal(scratch_get(store, 1), KILN_OK);
}

static void test_a_password_file_readable_by_others(void **state)
{
    (void)state;
    char options[SCRATCH_PATH_SIZE];
    kiln_store *refused = NULL;
    kiln_error error = {.struct_size = sizeof error};
    snprintf(options, sizeof options, "trust=any&password-file=%s",
             file_with("password", "secret\n", 7, 0644));
    assert_int_equal(kiln_store_open(location_of(options), NULL, &refused, &error), KILN_E_DENIED);
    assert_non_null(strstr(error.text, "0600"));
    assert_null(strstr(error.text, "secret"));
}

static void test_a_user_who_may_only_read(void **state)
{
    (void)state;
    char options[SCRATCH_PATH_SIZE];
    assert_int_equal(scratch_put(store, 1, 100), KILN_OK);
    redis_say(&server, "ACL SETUSER reader on >rpass %R~kiln:* -@all +get +exists");
    snprintf(options, sizeof options, "redis://reader@127.0.0.1:%u?trust=any&password-file=%s",
             server.port, file_with("password", "rpass", 5, 0600));
    open_store(options);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_int_equal(scratch_put(store, 2, 100), KILN_E_DENIED);
    assert_int_equal(remove_number(1), KILN_E_DENIED);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
}

/* ---- servers that are down or silent ---- */

static void test_a_restart_costs_nothing(void **state)
{
    (void)state;
    assert_int_equal(scratch_put(store, 1, 100), KILN_OK);
    redis_stop(&server);
    assert_true(redis_start_again(&server, no_options));
    assert_int_equal(scratch_get(store, 1), KILN_MISS);
    assert_int_equal(scratch_put(store, 1, 100), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
}

static void test_a_dead_server(void **state)
{
    (void)state;
    redis_stop(&server);
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(scratch_get(store, 1), KILN_E_IO);
        assert_int_equal(scratch_put(store, 1, 10), KILN_E_IO);
    }
    assert_true(redis_start_again(&server, no_options));
    kiln_status status = KILN_E_IO;
    for (unsigned i = 0; i < 1000 && status == KILN_E_IO; i++) {
        kilni_sleep_ns(10000000);
        status = scratch_get(store, 1);
    }
    assert_int_equal(status, KILN_MISS);
}

static void test_a_silent_server(void **state)
{
    (void)state;
    kill(server.process, SIGSTOP);
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(scratch_get(store, 1), KILN_E_IO);
    }
    kill(server.process, SIGCONT);
    kiln_status status = KILN_E_IO;
    for (unsigned i = 0; i < 1000 && status == KILN_E_IO; i++) {
        kilni_sleep_ns(10000000);
        status = scratch_get(store, 1);
    }
    assert_int_equal(status, KILN_MISS);
}

/* ---- forks, and programs that change descriptors ---- */

static void get_in_child(void)
{
    CHECK(scratch_get(store, 1) == KILN_OK);
    CHECK(scratch_put(store, 2, 1000) == KILN_OK);
    kiln_store_close(&store);
}

static void test_forks(void **state)
{
    (void)state;
    assert_int_equal(scratch_put(store, 1, 1000), KILN_OK);
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(run_in_child(get_in_child), 0);
        assert_int_equal(scratch_get(store, 1), KILN_OK);
        assert_int_equal(scratch_get(store, 2), KILN_OK);
    }
}

static void close_all_and_go_on(void)
{
    CHECK(scratch_get(store, 1) == KILN_OK);
    for (int file = 3; file < 1024; file++) {
        close(file);
    }
    const int own = open("/dev/null", O_RDWR);
    for (int i = 0; i < 200; i++) {
        CHECK(dup(own) >= 0);
    }
    scratch_get(store, 1);
    scratch_put(store, 1, 1000);
    kiln_store_close(&store);
    CHECK(fcntl(own, F_GETFD) == 0);
}

/* A program may close descriptors that it did not open, and then open its own files under these
 * numbers. */
static void test_descriptors_are_taken_away(void **state)
{
    (void)state;
    assert_int_equal(scratch_put(store, 1, 1000), KILN_OK);
    assert_int_equal(run_in_child(close_all_and_go_on), 0);
}

/* Duplicates all sockets to new numbers, and opens /dev/null under the old ones. */
static void move_sockets_away(void)
{
    int sockets[64];
    unsigned count = 0;
    struct stat stat;
    const int own = open("/dev/null", O_RDWR);
    for (int file = 3; file < 1024 && count < 64; file++) {
        if (fstat(file, &stat) == 0 && S_ISSOCK(stat.st_mode)) {
            sockets[count++] = file;
        }
    }
    CHECK(count > 0);
    for (unsigned i = 0; i < count; i++) {
        CHECK(dup(sockets[i]) >= 0);
        CHECK(dup2(own, sockets[i]) == sockets[i]);
    }
}

static void move_sockets_and_go_on(void)
{
    char kill_all[] = "CLIENT KILL TYPE normal";
    for (unsigned i = 0; i < 3; i++) {
        CHECK(scratch_get(store, 1) == KILN_OK);
        move_sockets_away();
        scratch_get(store, 1);
        scratch_put(store, 1, 1000);
        redis_say(&server, kill_all); /* makes every connection report an event, including those
                                         that the library has lost */
        kiln_status status = KILN_E_IO;
        for (unsigned j = 0; j < 1000 && status == KILN_E_IO; j++) {
            kilni_sleep_ns(10000000);
            status = scratch_get(store, 1);
        }
        CHECK(status == KILN_OK);
    }
}

/* If the application keeps a duplicate of a socket, that socket may still report events after the
 * library has closed its descriptor. */
static void test_sockets_are_duplicated(void **state)
{
    (void)state;
    assert_int_equal(scratch_put(store, 1, 1000), KILN_OK);
    assert_int_equal(run_in_child(move_sockets_and_go_on), 0);
}

/* A process that clone made, unnoticed by the library, keeps the parent's sockets open. Once the
 * parent has closed them, it must receive no more events from them. */
static void test_a_child_that_keeps_the_sockets(void **state)
{
    (void)state;
    assert_int_equal(scratch_put(store, 1, 1000), KILN_OK);
    const pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            pause();
        }
    }
    kiln_store_close(&store);
    kilni_sleep_ns(20000000); /* the I/O thread closes them */
    redis_stop(&server);
    assert_true(redis_start_again(&server, no_options));
    for (unsigned i = 0; i < 20; i++) {
        open_store(location_of("trust=any"));
        assert_int_equal(scratch_get(store, 1), KILN_MISS);
        assert_int_equal(scratch_put(store, 2, 1000), KILN_OK);
    }
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void test_in_a_chain(void **state)
{
    (void)state;
    char location[3 * SCRATCH_PATH_SIZE];
    snprintf(location, sizeof location, "%s/local|%s", scratch, location_of("trust=any"));
    open_store(location);
    assert_int_equal(scratch_put(store, 1, 1000), KILN_OK);
    assert_string_equal(say("EXISTS %s", name_of(1)), ":1\r\n");
    snprintf(location, sizeof location, "%s/other|%s", scratch, location_of("trust=any"));
    open_store(location);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    redis_stop(&server);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_int_equal(scratch_get(store, 2), KILN_MISS);
    assert_int_equal(scratch_put(store, 2, 1000), KILN_OK);
    assert_int_equal(scratch_get(store, 2), KILN_OK);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_put_get_contains_remove, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_entries_outlive_the_handle, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_each, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_requests_are_not_sent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_readonly, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_expiry, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_threads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_large_entries_are_not_put, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_small_server_keeps_what_it_has, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_full_server, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_wrong_values, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_value_of_another_key, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_newer_entry_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_refused_entry_is_not_removed_from_the_server, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_signatures, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sources_are_not_sent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_passwords, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_password_of_the_environment, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_password_file_readable_by_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_user_who_may_only_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_restart_costs_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_dead_server, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_silent_server, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_forks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_descriptors_are_taken_away, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sockets_are_duplicated, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_child_that_keeps_the_sockets, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_in_a_chain, set_up, tear_down),
    };
    if (count != 2) {
        return 2;
    }
    redis_require();
    kilni_remote_set_library(arguments[1]);
    kilni_remote_set_runtime_folder("/nonexistent");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
