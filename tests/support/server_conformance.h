/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that every store on a server must pass, whatever the server is, and a store in a group's
 * directory, too. A test program includes this once, sets @conformance, and runs these tests with
 * its own.
 */
#pragma once

#include "support/store_scene.h"

#include <pthread.h>

#include "entry/format.h"
#include "os/clock.h"
#include "store/remote/connector.h"
#include "store/remote/loader.h"
#include "store/remote/state_path.h"
#include "store/store.h"
#include "support/child.h"
#include "support/colliding_keys.h"

typedef struct conformance_scene {
    /* Returns the location of a store with these options, in a buffer that the next call
     * overwrites. */
    const char *(*location)(const char *options);
    /* Describes the same server to a connector. */
    const char *connector; /* its symbol; NULL: @built_in is used */
    const kilni_connector *built_in;
    void (*describe)(kilni_remote_server *server);
    const char *before, *behind; /* the texts before and after a digest in a name */
    /* The same for a damaged entry that was moved. NULL if the server has no lists. */
    const char *before_damaged, *behind_damaged;
    const char *folder; /* a scratch directory */
    bool has_lists;
    bool is_trimmed; /* kiln_store_trim works */
} conformance_scene;

static conformance_scene conformance;
static kiln_store *store;

static inline void open_store(const char *location)
{
    kiln_error error = {.struct_size = sizeof error};
    kiln_store_close(&store);
    if (kiln_store_open(location, NULL, &store, &error) != KILN_OK) {
        fail_msg("%s: %s", location, error.text);
    }
}

static inline const char *file_with(const char *name, const char *content, size_t size, mode_t mode)
{
    const char *path = scratch_path(conformance.folder, name);
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(file >= 0 && write(file, content, size) == (ssize_t)size);
    assert_int_equal(fchmod(file, mode), 0);
    close(file);
    return path;
}

static inline const char *name_of(uint64_t number)
{
    static char name[128];
    char text[KILN_DIGEST_TEXT_SIZE];
    kiln_key *key = scratch_key(number);
    const kiln_digest digest = kiln_key_digest(key);
    kiln_digest_format(&digest, text);
    snprintf(name, sizeof name, "%s%s%s", conformance.before, text, conformance.behind);
    kiln_key_release(&key);
    return name;
}

/* On a busy machine the server may miss a deadline, and is then not contacted for a moment. So each
 * of these functions tries again. */
#define PATIENTLY(call)                                                                            \
    kiln_status status = (call);                                                                   \
    for (unsigned tries = 0; tries < 1000 && status == KILN_E_IO; tries++) {                       \
        kilni_sleep_ns(10000000);                                                                  \
        status = (call);                                                                           \
    }

static inline kiln_status put(uint64_t number, size_t size)
{
    PATIENTLY(scratch_put(store, number, size))
    return status;
}

static inline kiln_status get(uint64_t number)
{
    PATIENTLY(scratch_get(store, number))
    return status;
}

static inline kiln_status contains(uint64_t number)
{
    kiln_key *key = scratch_key(number);
    PATIENTLY(kiln_store_contains(store, key))
    kiln_key_release(&key);
    return status;
}

static inline kiln_status remove_number(uint64_t number)
{
    kiln_key *key = scratch_key(number);
    PATIENTLY(kiln_store_remove(store, key))
    kiln_key_release(&key);
    return status;
}

/* Uses the server directly, without the store. */
static inline kiln_status use_server(kiln_status (*use)(const kilni_connector *connector,
                                                        kilni_remote *remote, void *user),
                                     void *user)
{
    const kilni_connector *connector = conformance.built_in;
    kilni_remote_server server = {.port = 0};
    kilni_remote *remote;
    conformance.describe(&server);
    if (conformance.connector) {
        assert_int_equal(kilni_remote_load(conformance.connector, &connector, NULL), KILN_OK);
    }
    assert_int_equal(connector->open(&server, &remote, NULL), KILN_OK);
    PATIENTLY(use(connector, remote, user))
    connector->close(remote);
    return status;
}

typedef struct planted_value {
    const char *name;
    unsigned char *data;
    size_t size;
} planted_value;

static inline uint64_t in_a_while(void)
{
    return kilni_clock_ns() + UINT64_C(30000000000);
}

static inline kiln_status plant(const kilni_connector *connector, kilni_remote *remote, void *user)
{
    const planted_value *value = user;
    return connector->put(remote, value->name, value->data, value->size, 0, in_a_while());
}

/* Puts any bytes under an entry's name. */
static inline void plant_value(const char *name, const void *data, size_t size)
{
    planted_value value = {.name = name, .size = size, .data = malloc(size + 1)};
    memcpy(value.data, data, size);
    assert_int_equal(use_server(plant, &value), KILN_OK);
    free(value.data);
}

static inline kiln_status read_value(const kilni_connector *connector, kilni_remote *remote,
                                     void *user)
{
    planted_value *value = user;
    kilni_remote_bytes bytes = {0};
    const kiln_status status =
        connector->get(remote, value->name, UINT64_C(1) << 24, in_a_while(), &bytes);
    value->data = bytes.data;
    value->size = bytes.size;
    return status;
}

/* Returns the bytes that the server has; the caller frees them. */
static inline planted_value value_of(const char *name)
{
    planted_value value = {.name = name};
    assert_int_equal(use_server(read_value, &value), KILN_OK);
    return value;
}

/* ---- the cases ---- */

static inline void test_put_get_contains_remove(void **state)
{
    (void)state;
    assert_int_equal(get(1), KILN_MISS);
    assert_int_equal(contains(1), KILN_MISS);
    assert_int_equal(remove_number(1), KILN_MISS);
    for (size_t size = 0; size <= 4000000; size = 7 * size + 3) {
        assert_int_equal(put(1, size), KILN_OK);
        assert_int_equal(get(1), KILN_OK);
    }
    assert_int_equal(contains(1), KILN_OK);
    assert_int_equal(remove_number(1), KILN_OK);
    assert_int_equal(get(1), KILN_MISS);
    assert_int_equal(remove_number(1), KILN_MISS);
}

static inline void test_entries_outlive_the_handle(void **state)
{
    (void)state;
    assert_int_equal(put(1, 1000), KILN_OK);
    open_store(conformance.location("trust=any"));
    assert_int_equal(get(1), KILN_OK);
}

static inline int count_item(void *user, kiln_item *item)
{
    kiln_item_info info = {.struct_size = sizeof info};
    assert_int_equal(kiln_item_get_info(item, &info), KILN_OK);
    assert_int_equal(info.state, KILN_OK);
    assert_string_equal(info.device, "a device of tests");
    ++*(unsigned *)user;
    return 0;
}

static inline int remove_item(void *user, kiln_item *item)
{
    (void)user;
    kiln_entry *entry = NULL;
    assert_int_equal(kiln_item_read(item, &entry), KILN_OK);
    kiln_entry_release(&entry);
    assert_int_equal(kiln_item_remove(item), KILN_OK);
    return 0;
}

static inline void test_each(void **state)
{
    (void)state;
    unsigned count = 0;
    kiln_store_stat stat = {.struct_size = sizeof stat};
    assert_int_equal(put(1, 100), KILN_OK);
    if (!conformance.has_lists) {
        assert_int_equal(kiln_store_each(store, count_item, &count), KILN_E_UNSUPPORTED);
        assert_int_equal(kiln_store_get_stat(store, 0, &stat), KILN_E_UNSUPPORTED);
        return;
    }
    for (uint64_t i = 0; i < 20; i++) {
        assert_int_equal(put(i, 100), KILN_OK);
    }
    char nothing[64];
    snprintf(nothing, sizeof nothing, "%snothing%s", conformance.before, conformance.behind);
    plant_value(nothing, "x", 1);
    assert_int_equal(kiln_store_each(store, count_item, &count), KILN_OK);
    assert_int_equal(count, 20);
    assert_int_equal(kiln_store_get_stat(store, 0, &stat), KILN_OK);
    assert_int_equal(stat.entries, 20);
    assert_true(stat.bytes > 20u * 100u);
    assert_int_equal(kiln_store_each(store, remove_item, NULL), KILN_OK);
    count = 0;
    assert_int_equal(kiln_store_each(store, count_item, &count), KILN_OK);
    assert_int_equal(count, 0);
}

static inline void test_requests_stay_at_home(void **state)
{
    (void)state;
    kiln_entry *request = scratch_request(1);
    assert_int_equal(kiln_store_put(store, request), KILN_E_UNSUPPORTED);
    kiln_entry_release(&request);
}

static inline void test_readonly(void **state)
{
    (void)state;
    assert_int_equal(put(1, 100), KILN_OK);
    open_store(conformance.location("trust=any&readonly=1"));
    assert_int_equal(get(1), KILN_OK);
    assert_int_equal(put(2, 100), KILN_E_READONLY);
    assert_int_equal(remove_number(1), KILN_E_READONLY);
}

static inline void *put_and_get(void *argument)
{
    const uint64_t own = (uint64_t)(uintptr_t)argument;
    uintptr_t wrong = 0;
    for (unsigned i = 0; i < 15; i++) {
        wrong += put(own, 3000 * i) != KILN_OK;
        wrong += get(own) != KILN_OK;
        wrong += get(1) != KILN_OK;
    }
    return (void *)wrong; /* NOLINT */
}

static inline void test_many_threads(void **state)
{
    (void)state;
    pthread_t threads[8];
    assert_int_equal(put(1, 100000), KILN_OK);
    for (uintptr_t i = 0; i < 8; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, put_and_get, (void *)(i + 2)), 0);
    }
    for (unsigned i = 0; i < 8; i++) {
        void *wrong = NULL;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
}

static inline void test_large_entries_are_not_put(void **state)
{
    (void)state;
    open_store(conformance.location("trust=any&max-entry=10K"));
    assert_int_equal(put(1, 20000), KILN_E_TOO_LARGE);
    open_store(conformance.location("trust=any"));
    assert_int_equal(put(1, 20000), KILN_OK);
    assert_int_equal(put(2, 100), KILN_OK);
    open_store(conformance.location("trust=any&max-entry=10K"));
    assert_int_equal(get(1), KILN_MISS);
    assert_int_equal(get(2), KILN_OK);
}

/* The server returns nonsense, nothing, the entry with a changed byte, or half of the entry. */
static inline void test_wrong_values(void **state)
{
    (void)state;
    assert_int_equal(put(1, 1000), KILN_OK);
    planted_value sound = value_of(name_of(1));
    for (unsigned i = 0; i < 4; i++) {
        sound.data[500] ^= i == 2;
        plant_value(name_of(1), i == 0 ? (const void *)"nonsense" : sound.data,
                    i == 0   ? 8
                    : i == 1 ? 0
                    : i == 2 ? sound.size
                             : sound.size / 2);
        sound.data[500] ^= i == 2;
        assert_int_equal(get(1), KILN_E_CORRUPT);
        assert_int_equal(put(1, 1000), KILN_OK);
        assert_int_equal(get(1), KILN_OK);
    }
    plant_value(name_of(2), sound.data, sound.size); /* a sound entry under another's name */
    assert_int_equal(get(2), KILN_E_CORRUPT);
    free(sound.data);
}

/* A value that arrives in many pieces. The server returns it with one changed bit: in the header,
 * in different places of the payload, or in the checksum. */
static inline void test_wrong_values_of_many_pieces(void **state)
{
    (void)state;
    assert_int_equal(put(1, 1000000), KILN_OK);
    planted_value sound = value_of(name_of(1));
    assert_true(sound.size > 1000000);
    const size_t checksum = sound.size - KILNI_ENTRY_CHECKSUM_SIZE;
    const size_t places[] = {40, 20000, sound.size / 2, checksum - 1, checksum, sound.size - 1};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        sound.data[places[i]] ^= 1;
        plant_value(name_of(1), sound.data, sound.size);
        assert_int_equal(get(1), KILN_E_CORRUPT);
        sound.data[places[i]] ^= 1;
        plant_value(name_of(1), sound.data, sound.size);
        assert_int_equal(get(1), KILN_OK);
    }
    free(sound.data);
}

static inline void test_a_newer_entry_stays(void **state)
{
    (void)state;
    assert_int_equal(put(1, 1000), KILN_OK);
    planted_value value = value_of(name_of(1));
    value.data[8] = 2;
    plant_value(name_of(1), value.data, value.size);
    free(value.data);
    assert_int_equal(get(1), KILN_E_VERSION);
    assert_int_equal(put(1, 1000), KILN_EXISTS);
    assert_int_equal(remove_number(1), KILN_EXISTS);
    assert_int_equal(contains(1), KILN_OK);
}

static inline kiln_status trim_patiently(uint32_t flags, uint64_t max_bytes,
                                         kiln_trim_report *ret_report)
{
    const kiln_trim_params params = {
        .struct_size = sizeof params, .flags = flags, .max_bytes = max_bytes};
    *ret_report = (kiln_trim_report){.struct_size = sizeof *ret_report};
    PATIENTLY(kiln_store_trim(store, &params, ret_report))
    return status;
}

/* Servers that have lists are trimmed. An entry of a newer format stays. */
static inline void test_trims(void **state)
{
    (void)state;
    enum { ENTRIES = 10 };
    kiln_trim_report report;
    if (!conformance.is_trimmed) {
        assert_int_equal(trim_patiently(KILN_TRIM_BY_SIZE, 0, &report), KILN_E_UNSUPPORTED);
        return;
    }
    for (uint64_t i = 0; i < ENTRIES; i++) {
        assert_int_equal(put(i, 1000), KILN_OK);
    }
    planted_value newer = value_of(name_of(1));
    newer.data[8] = 2;
    plant_value(name_of(1), newer.data, newer.size);
    free(newer.data);
    assert_int_equal(trim_patiently(0, 0, &report), KILN_OK);
    assert_int_equal(report.entries, ENTRIES);
    const uint64_t half = report.bytes / 2;
    assert_int_equal(trim_patiently(KILN_TRIM_BY_SIZE | KILN_TRIM_DRY_RUN, half, &report), KILN_OK);
    assert_in_range(report.removed, ENTRIES / 2, ENTRIES / 2 + 1);
    const uint64_t expected = report.entries;
    assert_int_equal(trim_patiently(KILN_TRIM_BY_SIZE, half, &report), KILN_OK);
    assert_int_equal(trim_patiently(KILN_TRIM_BY_SIZE, half, &report), KILN_OK);
    assert_int_equal(report.removed, 0);
    assert_int_equal(report.entries, expected);
    assert_in_range(report.bytes, 1, half);
    open_store(conformance.location("trust=any&readonly=1"));
    assert_int_equal(trim_patiently(KILN_TRIM_BY_SIZE, 0, &report), KILN_E_READONLY);
    open_store(conformance.location("trust=any"));
    assert_int_equal(trim_patiently(KILN_TRIM_BY_SIZE, 0, &report), KILN_OK);
    assert_int_equal(report.entries, 1);
    assert_int_equal(get(1), KILN_E_VERSION);
    assert_int_equal(contains(2), KILN_MISS);
}

static inline void quarantine(void *user, kiln_item *item, kiln_status status, const char *why)
{
    (void)why;
    unsigned *count = user;
    assert_int_equal(kiln_item_quarantine(item), status == KILN_OK ? KILN_EXISTS : KILN_OK);
    *count += status == KILN_E_CORRUPT;
}

/* Damaged entries can be moved away, from servers that have lists. */
static inline void test_damaged_entries_are_moved(void **state)
{
    (void)state;
    char moved[128];
    unsigned count = 0;
    kiln_verify_report report = {.struct_size = sizeof report};
    assert_int_equal(put(1, 1000), KILN_OK);
    assert_int_equal(put(2, 1000), KILN_OK);
    planted_value value = value_of(name_of(1));
    value.data[500] ^= 1;
    plant_value(name_of(1), value.data, value.size);
    const kiln_status status = kiln_store_verify(store, quarantine, &count, &report);
    if (conformance.has_lists) {
        assert_int_equal(status, KILN_OK);
        assert_int_equal(count, 1);
        assert_int_equal(get(1), KILN_MISS);
        assert_int_equal(get(2), KILN_OK);
        snprintf(moved, sizeof moved, "%s%.*s%s", conformance.before_damaged,
                 (int)KILN_DIGEST_TEXT_SIZE - 1, name_of(1) + strlen(conformance.before),
                 conformance.behind_damaged);
        const planted_value found = value_of(moved);
        assert_int_equal(found.size, value.size);
        assert_memory_equal(found.data, value.data, value.size);
        free(found.data);
    } else {
        assert_int_equal(status, KILN_E_UNSUPPORTED);
    }
    free(value.data);
}

/* If one device refuses an entry, the entry stays for the others. */
static inline void test_a_judgment_removes_nothing(void **state)
{
    (void)state;
    kiln_key *key = scratch_key(1);
    kiln_entry *entry = NULL;
    assert_int_equal(put(1, 1000), KILN_OK);
    assert_int_equal(kiln_store_get(store, key, &entry), KILN_OK);
    assert_int_equal(kilni_store_remove_judged(store, key, entry), KILN_MISS);
    assert_int_equal(contains(1), KILN_OK);
    kiln_entry_release(&entry);
    kiln_key_release(&key);
}

static inline void test_signatures(void **state)
{
    (void)state;
    char options[SCRATCH_PATH_SIZE];
    char key[32];
    memset(key, 'a', sizeof key);
    assert_int_equal(put(1, 1000), KILN_OK);
    snprintf(options, sizeof options, "key-file=%s", file_with("a", key, 32, 0600));
    open_store(conformance.location(options));
    assert_int_equal(get(1), KILN_E_UNAUTHENTICATED);
    assert_int_equal(put(1, 1000), KILN_OK);
    assert_int_equal(get(1), KILN_OK);
    key[0] = 'b';
    snprintf(options, sizeof options, "key-file=%s", file_with("b", key, 32, 0600));
    open_store(conformance.location(options));
    assert_int_equal(get(1), KILN_E_UNAUTHENTICATED);
}

static inline void get_in_child(void)
{
    CHECK(get(1) == KILN_OK);
    CHECK(put(2, 1000) == KILN_OK);
    kiln_store_close(&store);
}

static inline void test_forks(void **state)
{
    (void)state;
    assert_int_equal(put(1, 1000), KILN_OK);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(run_in_child(get_in_child), 0);
        assert_int_equal(get(1), KILN_OK);
        assert_int_equal(get(2), KILN_OK);
    }
}

static inline void close_all_and_go_on(void)
{
    CHECK(get(1) == KILN_OK);
    for (int file = 3; file < 1024; file++) {
        close(file);
    }
    const int own = open("/dev/null", O_RDWR);
    for (int i = 0; i < 200; i++) {
        CHECK(dup(own) >= 0);
    }
    scratch_get(store, 1); /* the status does not matter: the connection is lost */
    scratch_put(store, 1, 1000);
    kiln_store_close(&store);
    CHECK(fcntl(own, F_GETFD) == 0);
}

/* A program may close descriptors that it did not open, and the files that it opens then may get
 * the same numbers. */
static inline void test_descriptors_are_taken_away(void **state)
{
    (void)state;
    assert_int_equal(put(1, 1000), KILN_OK);
    assert_int_equal(run_in_child(close_all_and_go_on), 0);
}

static inline void test_in_a_chain(void **state)
{
    (void)state;
    char location[3 * SCRATCH_PATH_SIZE];
    snprintf(location, sizeof location, "%s/local|%s", conformance.folder,
             conformance.location("trust=any"));
    open_store(location);
    assert_int_equal(put(1, 1000), KILN_OK);
    snprintf(location, sizeof location, "%s/other|%s", conformance.folder,
             conformance.location("trust=any"));
    open_store(location);
    assert_int_equal(get(1), KILN_OK);
    assert_int_equal(get(2), KILN_MISS);
}

/* ---- several keys at once ---- */

/* More keys than are asked for in one round trip, and some of them twice. */
enum { MANY_KEYS = 70, MANY_TWICE = 6, MANY_ASKED = MANY_KEYS + MANY_TWICE };

/* Key i of the list is that of number i, and the last ones are those of numbers 0, 1, … again. */
static inline uint64_t number_in_list(size_t i)
{
    return i % MANY_KEYS;
}

/* Puts an entry for most numbers. The others are missing, damaged, under another's name, of a newer
 * version, empty, or larger than 10 KB. */
static inline void put_many(void)
{
    for (uint64_t i = 0; i < MANY_KEYS; i++) {
        if (i % 7 != 3) {
            assert_int_equal(put(i, i == 11 ? 20000 : 30 * i), KILN_OK);
        }
    }
    planted_value sound = value_of(name_of(6));
    plant_value(name_of(8), sound.data, sound.size);
    plant_value(name_of(12), sound.data, 0);
    sound.data[sound.size - 20] ^= 1;
    plant_value(name_of(5), sound.data, sound.size);
    free(sound.data);
    planted_value newer = value_of(name_of(9));
    newer.data[8] = 2;
    plant_value(name_of(9), newer.data, newer.size);
    free(newer.data);
}

static inline void make_list(kiln_key *keys[MANY_ASKED])
{
    for (size_t i = 0; i < MANY_ASKED; i++) {
        keys[i] = scratch_key(number_in_list(i));
    }
}

static inline void free_list(kiln_key *keys[MANY_ASKED])
{
    for (size_t i = 0; i < MANY_ASKED; i++) {
        kiln_key_release(&keys[i]);
    }
}

/* Returns false if the server has missed a deadline. */
static inline bool has_answered(const kiln_status *statuses, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (statuses[i] == KILN_E_IO) {
            kilni_sleep_ns(10000000);
            return false;
        }
    }
    return true;
}

static inline uint64_t count_damaged(void)
{
    kiln_stats counts;
    kilni_store_take_counts(store, &counts);
    return counts.corrupt;
}

/* Looks up the first @count keys of the list in one call. Checks the bytes of each entry. Returns
 * how many were damaged. */
static inline uint64_t get_list(kiln_key *keys[MANY_ASKED], size_t count,
                                kiln_status statuses[MANY_ASKED])
{
    kiln_entry *entries[MANY_ASKED];
    uint64_t damaged = 0;
    bool has_all = false;
    for (unsigned tries = 0; tries < 1000 && !has_all; tries++) {
        count_damaged();
        assert_int_equal(
            kiln_store_get_many(store, (const kiln_key *const *)keys, count, entries, statuses),
            KILN_OK);
        damaged = count_damaged();
        has_all = has_answered(statuses, count);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(entries[i] != NULL, statuses[i] == KILN_OK);
            assert_true(!entries[i] || (kiln_key_equals(keys[i], kiln_entry_key(entries[i])) &&
                                        scratch_entry_is(entries[i], number_in_list(i))));
            kiln_entry_release(&entries[i]);
        }
    }
    assert_true(has_all);
    return damaged;
}

static inline void expect_as_alone(kiln_key *keys[MANY_ASKED])
{
    kiln_status statuses[MANY_ASKED], present[MANY_ASKED];
    uint64_t damaged = 0;
    const uint64_t damaged_together = get_list(keys, MANY_ASKED, statuses);
    do {
        assert_int_equal(
            kiln_store_contains_many(store, (const kiln_key *const *)keys, MANY_ASKED, present),
            KILN_OK);
    } while (!has_answered(present, MANY_ASKED));
    for (size_t i = 0; i < MANY_ASKED; i++) {
        const kiln_status alone = get(number_in_list(i));
        damaged += alone == KILN_E_CORRUPT || alone == KILN_E_UNAUTHENTICATED;
        assert_int_equal(statuses[i], alone);
        assert_int_equal(present[i], contains(number_in_list(i)));
    }
    assert_int_equal(damaged_together, damaged);
}

static inline void test_many_keys(void **state)
{
    (void)state;
    kiln_key *keys[MANY_ASKED];
    kiln_status statuses[MANY_ASKED];
    make_list(keys);
    put_many();
    open_store(conformance.location("trust=any&max-entry=10K"));
    expect_as_alone(keys);
    get_list(keys, MANY_ASKED, statuses);
    assert_int_equal(statuses[3], KILN_MISS);
    assert_int_equal(statuses[5], KILN_E_CORRUPT);
    assert_int_equal(statuses[6], KILN_OK);
    assert_int_equal(statuses[8], KILN_E_CORRUPT);
    assert_int_equal(statuses[9], KILN_E_VERSION);
    assert_int_equal(statuses[11], KILN_MISS);
    assert_int_equal(statuses[12], KILN_E_CORRUPT);
    free_list(keys);
}

static inline void test_many_keys_with_signatures(void **state)
{
    (void)state;
    kiln_key *keys[MANY_ASKED];
    kiln_status statuses[MANY_ASKED];
    char options[SCRATCH_PATH_SIZE], key[32];
    make_list(keys);
    put_many();
    memset(key, 'c', sizeof key);
    snprintf(options, sizeof options, "key-file=%s", file_with("c", key, 32, 0600));
    open_store(conformance.location(options));
    assert_int_equal(put(2, 100), KILN_OK);
    expect_as_alone(keys);
    get_list(keys, MANY_ASKED, statuses);
    assert_int_equal(statuses[1], KILN_E_UNAUTHENTICATED);
    assert_int_equal(statuses[2], KILN_OK);
    free_list(keys);
}

/* The entry of a different key that has the same digest. */
static inline void test_many_keys_of_one_digest(void **state)
{
    (void)state;
    kiln_key *keys[] = {make_colliding_key(2), make_colliding_key(1), make_colliding_key(3),
                        make_colliding_key(1)};
    kiln_status statuses[] = {KILN_E_IO, KILN_E_IO, KILN_E_IO, KILN_E_IO};
    const kiln_entry_params params = {.struct_size = sizeof params,
                                      .key = keys[1],
                                      .kind = KILN_ENTRY_BLOB,
                                      .provenance.struct_size = sizeof params.provenance,
                                      .payload = {"one", 3}};
    kiln_entry *entry = NULL, *found[4];
    assert_int_equal(kiln_entry_new(&params, &entry), KILN_OK);
    PATIENTLY(kiln_store_put(store, entry))
    assert_int_equal(status, KILN_OK);
    do {
        assert_int_equal(
            kiln_store_get_many(store, (const kiln_key *const *)keys, 4, found, statuses), KILN_OK);
        for (size_t i = 0; i < 4; i++) {
            kiln_entry_release(&found[i]);
        }
    } while (!has_answered(statuses, 4));
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(statuses[i], i % 2 == 1 ? KILN_OK : KILN_MISS);
        kiln_key_release(&keys[i]);
    }
    kiln_entry_release(&entry);
}

/* Together these entries exceed the memory that one round trip is allowed to use. */
static inline void test_many_large_entries(void **state)
{
    (void)state;
    enum { COUNT = 6 };
    kiln_key *keys[COUNT];
    kiln_entry *entries[COUNT];
    kiln_status statuses[COUNT];
    for (uint64_t i = 0; i < COUNT; i++) {
        keys[i] = scratch_key(i);
        assert_int_equal(put(i, i == 2 ? 10 : 3000000), KILN_OK);
    }
    bool has_all = false;
    for (unsigned tries = 0; tries < 1000 && !has_all; tries++) {
        assert_int_equal(
            kiln_store_get_many(store, (const kiln_key *const *)keys, COUNT, entries, statuses),
            KILN_OK);
        has_all = has_answered(statuses, COUNT);
        for (size_t i = 0; i < COUNT; i++) {
            assert_true(!entries[i] || scratch_entry_is(entries[i], i));
            kiln_entry_release(&entries[i]);
        }
    }
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(statuses[i], KILN_OK);
        kiln_key_release(&keys[i]);
    }
}

static inline void test_no_keys(void **state)
{
    (void)state;
    kiln_key *key = scratch_key(1);
    const kiln_key *const keys[] = {key, NULL};
    kiln_entry *entries[2];
    kiln_status statuses[2];
    assert_int_equal(kiln_store_get_many(store, NULL, 0, NULL, NULL), KILN_OK);
    assert_int_equal(kiln_store_contains_many(store, NULL, 0, NULL), KILN_OK);
    assert_int_equal(kiln_store_get_many(store, keys, 2, entries, statuses), KILN_E_INVALID);
    assert_int_equal(kiln_store_get_many(store, keys, 1, NULL, statuses), KILN_E_INVALID);
    assert_int_equal(kiln_store_get_many(store, NULL, 1, entries, statuses), KILN_E_INVALID);
    assert_int_equal(kiln_store_contains_many(store, keys, 2, statuses), KILN_E_INVALID);
    assert_int_equal(kiln_store_contains_many(store, keys, 1, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_store_get_many(NULL, keys, 1, entries, statuses), KILN_OK);
    assert_int_equal(statuses[0], KILN_MISS);
    assert_null(entries[0]);
    assert_int_equal(kiln_store_contains_many(NULL, keys, 1, statuses), KILN_OK);
    assert_int_equal(statuses[0], KILN_MISS);
    kiln_key_release(&key);
}

static inline void put_locally(const char *folder)
{
    char location[2 * SCRATCH_PATH_SIZE];
    kiln_store *local = NULL;
    snprintf(location, sizeof location, "%s/%s", conformance.folder, folder);
    assert_int_equal(kiln_store_open(location, NULL, &local, NULL), KILN_OK);
    for (uint64_t i = 0; i < 30; i += 2) {
        assert_int_equal(scratch_put(local, i, 50), KILN_OK);
    }
    kiln_store_close(&local);
}

static inline void open_chain_beside(const char *folder)
{
    char location[4 * SCRATCH_PATH_SIZE];
    snprintf(location, sizeof location, "%s/%s|%s", conformance.folder, folder,
             conformance.location("trust=any"));
    open_store(location);
}

static inline void add_tier(void *user, const kiln_tier_info *info)
{
    uint64_t **at = user;
    *(*at)++ = info->hits;
    *(*at)++ = info->misses;
    *(*at)++ = info->damaged;
    *(*at)++ = info->faults;
}

/* In a chain, the counts of all tiers and the copies in the directory are the same, too. */
static inline void test_many_keys_in_a_chain(void **state)
{
    (void)state;
    kiln_key *keys[MANY_ASKED];
    kiln_status statuses[MANY_ASKED], alone[MANY_ASKED];
    uint64_t counts[2][8], *at = counts[0];
    make_list(keys);
    put_many();
    put_locally("one");
    put_locally("many");
    open_chain_beside("many");
    const uint64_t damaged = get_list(keys, MANY_KEYS, statuses);
    assert_int_equal(kiln_store_each_tier(store, add_tier, &at), KILN_OK);
    open_chain_beside("one");
    for (size_t i = 0; i < MANY_KEYS; i++) {
        alone[i] = get(i);
    }
    assert_int_equal(count_damaged(), damaged);
    at = counts[1];
    assert_int_equal(kiln_store_each_tier(store, add_tier, &at), KILN_OK);
    assert_int_equal(statuses[11], KILN_OK);
    assert_int_equal(statuses[5], KILN_E_CORRUPT);
    for (size_t i = 0; i < MANY_KEYS; i++) {
        assert_int_equal(statuses[i], alone[i]);
    }
    free_list(keys);
    if (counts[0][7] == 0 && counts[1][7] == 0) { /* the server has missed no deadline */
        assert_memory_equal(counts[0], counts[1], sizeof counts[0]);
    }
    open_store(scratch_path(conformance.folder, "many"));
    for (size_t i = 0; i < MANY_KEYS; i++) {
        assert_int_equal(get(i), alone[i] == KILN_OK ? KILN_OK : KILN_MISS);
    }
}

#define CONFORMANCE_CASES(set_up, tear_down)                                                       \
    cmocka_unit_test_setup_teardown(test_put_get_contains_remove, set_up, tear_down),              \
        cmocka_unit_test_setup_teardown(test_entries_outlive_the_handle, set_up, tear_down),       \
        cmocka_unit_test_setup_teardown(test_each, set_up, tear_down),                             \
        cmocka_unit_test_setup_teardown(test_requests_stay_at_home, set_up, tear_down),            \
        cmocka_unit_test_setup_teardown(test_readonly, set_up, tear_down),                         \
        cmocka_unit_test_setup_teardown(test_many_threads, set_up, tear_down),                     \
        cmocka_unit_test_setup_teardown(test_large_entries_are_not_put, set_up, tear_down),        \
        cmocka_unit_test_setup_teardown(test_wrong_values, set_up, tear_down),                     \
        cmocka_unit_test_setup_teardown(test_wrong_values_of_many_pieces, set_up, tear_down),      \
        cmocka_unit_test_setup_teardown(test_a_newer_entry_stays, set_up, tear_down),              \
        cmocka_unit_test_setup_teardown(test_trims, set_up, tear_down),                            \
        cmocka_unit_test_setup_teardown(test_damaged_entries_are_moved, set_up, tear_down),        \
        cmocka_unit_test_setup_teardown(test_a_judgment_removes_nothing, set_up, tear_down),       \
        cmocka_unit_test_setup_teardown(test_signatures, set_up, tear_down),                       \
        cmocka_unit_test_setup_teardown(test_forks, set_up, tear_down),                            \
        cmocka_unit_test_setup_teardown(test_descriptors_are_taken_away, set_up, tear_down),       \
        cmocka_unit_test_setup_teardown(test_in_a_chain, set_up, tear_down),                       \
        cmocka_unit_test_setup_teardown(test_many_keys, set_up, tear_down),                        \
        cmocka_unit_test_setup_teardown(test_many_keys_with_signatures, set_up, tear_down),        \
        cmocka_unit_test_setup_teardown(test_many_keys_of_one_digest, set_up, tear_down),          \
        cmocka_unit_test_setup_teardown(test_many_large_entries, set_up, tear_down),               \
        cmocka_unit_test_setup_teardown(test_no_keys, set_up, tear_down),                          \
        cmocka_unit_test_setup_teardown(test_many_keys_in_a_chain, set_up, tear_down)
