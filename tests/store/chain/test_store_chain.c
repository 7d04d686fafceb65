/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that chains give the guarantees of every store, which of its stores a chain uses for a
 * call, and what happens if some of its stores fail.
 */
#include "support/store_scene.h"

#include <errno.h>
#include <pthread.h>

#include <kiln/pack.h>

#include "entry/entry.h"
#include "os/os.h"
#include "store/chain/chain.h"
#include "store/store.h"
#include "support/failing_malloc.h"

#define LOCATION_SIZE (3 * SCRATCH_PATH_SIZE)

static char scratch[SCRATCH_DIRECTORY_SIZE];

static int set_up(void **state)
{
    (void)state;
    scratch_make(scratch);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    kilni_os_replace(NULL);
    scratch_remove(scratch);
    return 0;
}

/* Returns "a|b" with the path of each store below the scratch directory. In @tiers, each name
 * follows "file:" or "pack:", and options follow the name. */
static const char *location_of(const char *tiers)
{
    static char location[LOCATION_SIZE];
    char copy[LOCATION_SIZE];
    snprintf(copy, sizeof copy, "%s", tiers);
    location[0] = '\0';
    for (char *rest = copy, *tier; (tier = strsep(&rest, "|")) != NULL;) {
        size_t length = strlen(location);
        char *name = strchr(tier, ':');
        *name++ = '\0';
        snprintf(location + length, sizeof location - length, "%s%s:%s%s/%s", length > 0 ? "|" : "",
                 tier, strcmp(tier, "file") == 0 ? "//" : "", scratch, name);
    }
    return location;
}

static int lines;
static char last_line[512];

static void take_line(void *user, kiln_log_level level, const char *text)
{
    (void)user;
    assert_int_equal(level, KILN_LOG_WARNING);
    lines++;
    snprintf(last_line, sizeof last_line, "%s", text);
}

static kiln_status try_open(const char *tiers, uint32_t flags, kiln_store **ret_store,
                            kiln_error *error)
{
    const kiln_store_params params = {
        .struct_size = sizeof params, .flags = flags, .log = {take_line, NULL}};
    lines = 0;
    return kiln_store_open(location_of(tiers), &params, ret_store, error);
}

static kiln_store *open_chain(const char *tiers)
{
    kiln_store *store = NULL;
    kiln_error error = {.struct_size = sizeof error};
    kiln_status status = try_open(tiers, 0, &store, &error);
    if (status != KILN_OK) {
        fprintf(stderr, "%s: %s\n", tiers, error.text);
    }
    assert_int_equal(status, KILN_OK);
    return store;
}

static kiln_store *open_dir(const char *name)
{
    kiln_store *store = NULL;
    assert_int_equal(kiln_store_open(scratch_path(scratch, name), NULL, &store, NULL), KILN_OK);
    return store;
}

/* Returns the status of a get from a directory alone. */
static kiln_status get_from(const char *name, uint64_t number)
{
    kiln_store *store = open_dir(name);
    kiln_status status = scratch_get(store, number);
    kiln_store_close(&store);
    return status;
}

static void put_to(const char *name, uint64_t number)
{
    kiln_store *store = open_dir(name);
    assert_int_equal(scratch_put(store, number, 1000), KILN_OK);
    kiln_store_close(&store);
}

static void write_pack_of(const char *name, uint64_t from, uint64_t to, uint32_t flags)
{
    const kiln_pack_params params = {.struct_size = sizeof params, .flags = flags};
    kiln_pack_writer *writer = NULL;
    assert_int_equal(kiln_pack_writer_open(scratch_path(scratch, name), &params, &writer, NULL),
                     KILN_OK);
    for (uint64_t i = from; i < to; i++) {
        kiln_entry *entry = scratch_entry(i, 1000);
        assert_int_equal(kiln_pack_writer_add(writer, entry), KILN_OK);
        kiln_entry_release(&entry);
    }
    assert_int_equal(kiln_pack_writer_finish(&writer, NULL, NULL), KILN_OK);
}

static void flip_entry(const char *name, uint64_t number)
{
    char path[SCRATCH_PATH_SIZE];
    unsigned char byte;
    scratch_entry_path(scratch_path(scratch, name), number, path);
    int file = open(path, O_RDWR);
    assert_true(file >= 0);
    assert_int_equal(pread(file, &byte, 1, 300), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(file, &byte, 1, 300), 1);
    close(file);
}

/* ---- the guarantees of every store ---- */

static const char *const shapes[] = {
    "file:a|file:b",
    "file:a?write=none|file:b",
    "file:a|pack:p",
    "pack:p|file:a",
    "file:a|file:b?write=first|pack:p|file:c?readonly=1",
};

static void with_each_shape(void (*check)(kiln_store *store))
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        write_pack_of("p", 1000, 1003, 0);
        kiln_store *c = open_dir("c");
        kiln_store_close(&c);
        kiln_store *store = open_chain(shapes[i]);
        check(store);
        kiln_store_close(&store);
        static const char *const names[] = {"a", "b", "c"};
        for (size_t name = 0; name < 3; name++) {
            scratch_remove(scratch_path(scratch, names[name]));
        }
    }
}

static void check_put_and_get(kiln_store *store)
{
    kiln_key *key = scratch_key(1);
    assert_int_equal(scratch_get(store, 1), KILN_MISS);
    assert_int_equal(kiln_store_contains(store, key), KILN_MISS);
    assert_int_equal(kiln_store_remove(store, key), KILN_MISS);
    assert_int_equal(scratch_put(store, 1, 1000), KILN_OK);
    assert_int_equal(scratch_put(store, 2, 0), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_int_equal(scratch_get(store, 2), KILN_OK);
    assert_int_equal(kiln_store_contains(store, key), KILN_OK);
    assert_int_equal(scratch_put(store, 1, 2000), KILN_OK);
    kiln_entry *entry = NULL;
    assert_int_equal(kiln_store_get(store, key, &entry), KILN_OK);
    assert_int_equal(kiln_entry_payload(entry).size, 2000);
    kiln_entry_release(&entry);
    assert_int_equal(kiln_store_remove(store, key), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_MISS);
    assert_int_equal(kiln_store_remove(store, key), KILN_MISS);
    assert_int_equal(scratch_get(store, 2), KILN_OK);
    kiln_key_release(&key);
}

static void test_put_and_get(void **state)
{
    (void)state;
    with_each_shape(check_put_and_get);
}

static bool has_failed;

static int unlinkat_failing_once(int directory, const char *path, int flags)
{
    if (!has_failed) {
        has_failed = true;
        errno = EIO;
        return -1;
    }
    return kilni_os_system()->unlinkat(directory, path, flags);
}

/* If one store could not remove an entry, the entry still exists, whatever the other stores
 * report. */
static void test_failed_removal_is_reported(void **state)
{
    (void)state;
    kilni_os_table table = *kilni_os_system();
    kiln_key *key = scratch_key(1);
    kiln_store *store = open_chain("file:a|file:b");
    assert_int_equal(scratch_put(store, 1, 1000), KILN_OK);
    table.unlinkat = unlinkat_failing_once;
    has_failed = false;
    kilni_os_replace(&table);
    assert_int_equal(kiln_store_remove(store, key), KILN_E_IO);
    kilni_os_replace(NULL);
    assert_int_equal(get_from("a", 1), KILN_OK);
    assert_int_equal(get_from("b", 1), KILN_MISS);
    kiln_store_close(&store);
    kiln_key_release(&key);
}

static int count_item(void *user, kiln_item *item)
{
    kiln_item_info info = {.struct_size = sizeof info};
    kiln_entry *entry = NULL;
    assert_int_equal(kiln_item_get_info(item, &info), KILN_OK);
    assert_int_equal(kiln_item_read(item, &entry), KILN_OK);
    kiln_digest digest = kiln_key_digest(kiln_entry_key(entry));
    assert_memory_equal(&digest, &info.digest, sizeof digest);
    assert_true(scratch_entry_is(entry, info.build_ns - 1000));
    kiln_entry_release(&entry);
    ++*(unsigned *)user;
    return 0;
}

static int count_one(void *user, kiln_item *item)
{
    count_item(user, item);
    return 1;
}

static int remove_item(void *user, kiln_item *item)
{
    kiln_status status = kiln_item_remove(item);
    assert_true(status == KILN_OK || status == KILN_E_READONLY);
    *(unsigned *)user += status == KILN_OK;
    return 0;
}

static void check_each(kiln_store *store)
{
    for (uint64_t i = 0; i < 30; i++) {
        assert_int_equal(scratch_put(store, i, 100), KILN_OK);
    }
    unsigned before = 0, one = 0, removed = 0, after = 0;
    assert_int_equal(kiln_store_each(store, count_item, &before), KILN_OK);
    assert_true(before == 30 || before == 33);
    assert_int_equal(kiln_store_each(store, count_one, &one), KILN_OK);
    assert_int_equal(one, 1);
    kiln_verify_report report = {.struct_size = sizeof report};
    assert_int_equal(kiln_store_verify(store, NULL, NULL, &report), KILN_OK);
    assert_true(report.ok >= before);
    assert_int_equal(report.ok, report.checked);
    assert_int_equal(kiln_store_each(store, remove_item, &removed), KILN_OK);
    assert_int_equal(removed, 30);
    assert_int_equal(kiln_store_each(store, count_item, &after), KILN_OK);
    assert_int_equal(after, before - 30);
}

static void test_each(void **state)
{
    (void)state;
    with_each_shape(check_each);
}

static void check_lease(kiln_store *store)
{
    kiln_key *key = scratch_key(1), *other = scratch_key(2);
    kiln_lease *lease = NULL, *second = NULL;
    assert_true(kilni_store_capabilities(store) & KILNI_STORE_LEASES);
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK);
    assert_int_equal(kiln_store_lease(store, key, 0, &second), KILN_BUSY);
    assert_int_equal(kiln_store_lease(store, other, 0, &second), KILN_OK);
    kiln_lease_release(&second);
    kiln_lease_release(&lease);
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK);
    kiln_lease_release(&lease);
    kiln_key_release(&key);
    kiln_key_release(&other);
}

static void test_lease(void **state)
{
    (void)state;
    with_each_shape(check_lease);
}

static void check_totals(kiln_store *store)
{
    const kiln_stats delta = {.hits_store = 2, .builds = 3};
    kiln_store_stat before = {.struct_size = sizeof before}, after = before;
    assert_int_equal(kiln_store_get_stat(store, 0, &before), KILN_OK);
    assert_int_equal(scratch_put(store, 1, 1000), KILN_OK);
    assert_int_equal(kiln_store_add_stats(store, &delta), KILN_OK);
    assert_int_equal(kiln_store_add_stats(store, &delta), KILN_OK);
    assert_int_equal(kiln_store_get_stat(store, 0, &after), KILN_OK);
    assert_true(after.entries > before.entries);
    assert_true(after.bytes > before.bytes);
    assert_true(after.max_bytes >= (uint64_t)2 << 30);
    kiln_stats counts;
    kilni_store_take_counts(store, &counts);
    assert_int_equal(counts.puts, 1);
}

static void test_totals(void **state)
{
    (void)state;
    with_each_shape(check_totals);
    kiln_store *store = open_chain("pack:p|file:a|file:b");
    const kiln_stats delta = {.builds = 3};
    assert_int_equal(kiln_store_add_stats(store, &delta), KILN_OK);
    kiln_store_stat stat = {.struct_size = sizeof stat};
    assert_int_equal(kiln_store_get_stat(store, 0, &stat), KILN_OK);
    assert_int_equal(stat.totals.builds, 3);
    kiln_store_close(&store);
    store = open_dir("a");
    assert_int_equal(kiln_store_get_stat(store, 0, &stat), KILN_OK);
    assert_int_equal(stat.totals.builds, 3);
    kiln_store_close(&store);
    /* A store that is opened read-only counts them too. */
    assert_int_equal(try_open("file:a|file:b", KILN_STORE_READONLY, &store, NULL), KILN_OK);
    assert_int_equal(kiln_store_get_stat(store, 0, &stat), KILN_OK);
    assert_int_equal(stat.totals.builds, 3);
    kiln_store_close(&store);
}

static void check_trim(kiln_store *store)
{
    for (uint64_t i = 0; i < 10; i++) {
        assert_int_equal(scratch_put(store, i, 1000), KILN_OK);
    }
    kiln_trim_report report = {.struct_size = sizeof report};
    assert_int_equal(trim_to(store, 0, &report), KILN_OK);
    assert_true(report.removed >= 10);
    assert_int_equal(report.entries, 0);
    for (uint64_t i = 0; i < 10; i++) {
        assert_int_equal(scratch_get(store, i), KILN_MISS);
    }
    kiln_stats counts;
    kilni_store_take_counts(store, &counts);
    assert_true(counts.evicted == report.removed);
}

static void check_trim_by(kiln_store *store)
{
    for (uint64_t i = 0; i < 10; i++) {
        assert_int_equal(scratch_put(store, i, 1000), KILN_OK);
    }
    kiln_trim_params params = {.struct_size = sizeof params,
                               .flags = KILN_TRIM_BY_SIZE | KILN_TRIM_DRY_RUN};
    kiln_trim_report dry = {.struct_size = sizeof dry}, report = dry;
    assert_int_equal(kiln_store_trim(store, &params, &dry), KILN_OK);
    assert_true(dry.removed >= 10);
    assert_int_equal(scratch_get(store, 3), KILN_OK);
    params.flags = KILN_TRIM_BY_SIZE;
    assert_int_equal(kiln_store_trim(store, &params, &report), KILN_OK);
    assert_true(report.removed >= 10);
    assert_int_equal(scratch_get(store, 3), KILN_MISS);
    kiln_store_stat stat = {.struct_size = sizeof stat};
    assert_int_equal(kiln_store_get_stat(store, KILN_STAT_KNOWN, &stat), KILN_OK);
    assert_true(stat.entries == 0 || stat.entries == 3);
}

static void test_trim(void **state)
{
    (void)state;
    with_each_shape(check_trim);
    with_each_shape(check_trim_by);
}

static void test_each_tier_is_trimmed_to_its_size(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 10; i++) {
        put_to("a", i);
        put_to("b", i);
    }
    kiln_store *store = open_chain("file:a?max-size=20000|file:b");
    const kiln_trim_params params = {
        .struct_size = sizeof params, .flags = KILN_TRIM_BY_SIZE, .max_bytes = KILN_UNLIMITED};
    assert_int_equal(kiln_store_trim(store, &params, NULL), KILN_OK);
    kiln_store_close(&store);
    kiln_store_stat a = {.struct_size = sizeof a}, b = a;
    store = open_dir("a");
    assert_int_equal(kiln_store_get_stat(store, 0, &a), KILN_OK);
    kiln_store_close(&store);
    store = open_dir("b");
    assert_int_equal(kiln_store_get_stat(store, 0, &b), KILN_OK);
    kiln_store_close(&store);
    assert_true(a.bytes <= 20000 && a.entries < 10);
    assert_int_equal(b.entries, 10);
}

/* ---- which store ---- */

static void test_a_hit_fills_the_tiers_above(void **state)
{
    (void)state;
    put_to("c", 1);
    kiln_store *store = open_chain("file:a|file:b|file:c");
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_int_equal(get_from("a", 1), KILN_OK);
    assert_int_equal(get_from("b", 1), KILN_OK);
    assert_int_equal(scratch_get(store, 2), KILN_MISS);
    /* Nothing was built, so no put is counted. */
    kiln_stats counts;
    kilni_store_take_counts(store, &counts);
    assert_int_equal(counts.puts, 0);
    kiln_store_close(&store);
}

static void test_the_first_tier_answers(void **state)
{
    (void)state;
    kiln_store *a = open_dir("a");
    assert_int_equal(scratch_put(a, 1, 111), KILN_OK);
    kiln_store_close(&a);
    put_to("b", 1);
    kiln_store *store = open_chain("file:a|file:b");
    kiln_key *key = scratch_key(1);
    kiln_entry *entry = NULL;
    assert_int_equal(kiln_store_get(store, key, &entry), KILN_OK);
    assert_int_equal(kiln_entry_payload(entry).size, 111);
    kiln_entry_release(&entry);
    kiln_key_release(&key);
    kiln_store_close(&store);
}

static void test_write_policies(void **state)
{
    (void)state;
    static const struct {
        const char *tiers;
        bool a, b, c; /* the stores that a put reaches */
    } cases[] = {
        {"file:a|file:b|file:c", true, true, true},
        {"file:a?write=all|file:b?write=all|file:c?write=all", true, true, true},
        {"file:a?write=first|file:b?write=first|file:c?write=first", true, false, false},
        {"file:a?write=none|file:b?write=first|file:c?write=first", false, true, false},
        {"file:a?write=none|file:b|file:c?write=first", false, true, false},
        {"file:a?write=first|file:b|file:c?write=none", true, true, false},
        {"file:a?max-size=10|file:b?write=first|file:c?write=first", false, true, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kiln_store *store = open_chain(cases[i].tiers);
        assert_int_equal(scratch_put(store, i, 1000), KILN_OK);
        kiln_store_close(&store);
        assert_int_equal(get_from("a", i) == KILN_OK, cases[i].a);
        assert_int_equal(get_from("b", i) == KILN_OK, cases[i].b);
        assert_int_equal(get_from("c", i) == KILN_OK, cases[i].c);
    }
}

static void test_policies_of_fills(void **state)
{
    (void)state;
    put_to("d", 1);
    kiln_store *store = open_chain("file:a?write=none|file:b|file:c?write=first|file:d");
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    kiln_store_close(&store);
    assert_int_equal(get_from("a", 1), KILN_MISS);
    assert_int_equal(get_from("b", 1), KILN_OK);
    assert_int_equal(get_from("c", 1), KILN_MISS);
}

/* A store without a signing key does not authenticate its entries, so they are not signed on their
 * way up. */
static void test_unsigned_entries_are_not_signed(void **state)
{
    (void)state;
    char key_path[SCRATCH_PATH_SIZE], tiers[LOCATION_SIZE], signed_tier[SCRATCH_PATH_SIZE + 32];
    snprintf(key_path, sizeof key_path, "%s/key", scratch);
    int file = open(key_path, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(file, "0123456789abcdef0123456789abcdef", 32), 32);
    close(file);
    snprintf(signed_tier, sizeof signed_tier, "file:signed?key-file=%s", key_path);
    snprintf(tiers, sizeof tiers, "file:top|%s|file:low", signed_tier);
    put_to("low", 1);
    kiln_store *store = open_chain(tiers);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_int_equal(get_from("top", 1), KILN_OK);
    assert_int_equal(get_from("signed", 1), KILN_MISS);
    /* An entry that is put is authenticated by its caller. */
    assert_int_equal(scratch_put(store, 2, 100), KILN_OK);
    kiln_store_close(&store);
    store = open_chain(signed_tier);
    assert_int_equal(scratch_get(store, 2), KILN_OK);
    kiln_store_close(&store);
    /* If one store has authenticated an entry, another store may sign it. */
    snprintf(tiers, sizeof tiers, "file:other?key-file=%s|%s", key_path, signed_tier);
    store = open_chain(tiers);
    assert_int_equal(scratch_get(store, 2), KILN_OK);
    assert_int_equal(get_from("other", 2), KILN_OK);
    kiln_store_close(&store);
}

static void test_unwritable_store(void **state)
{
    (void)state;
    write_pack_of("p", 0, 3, 0);
    put_to("a", 7);
    kiln_store *store = open_chain("pack:p|file:a?readonly=1");
    kiln_key *key = scratch_key(1);
    kiln_lease *lease = NULL;
    assert_int_equal(kilni_store_capabilities(store), KILNI_STORE_FOREIGN);
    assert_int_equal(scratch_put(store, 9, 10), KILN_E_READONLY);
    assert_int_equal(kiln_store_remove(store, key), KILN_E_READONLY);
    assert_int_equal(trim_to(store, 0, NULL), KILN_E_READONLY);
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_E_UNSUPPORTED);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_int_equal(scratch_get(store, 7), KILN_OK);
    kiln_key_release(&key);
    kiln_store_close(&store);
}

static void test_no_tier_accepts_the_entry(void **state)
{
    (void)state;
    kiln_store *store = open_chain("file:a?max-size=500|file:b?max-size=0");
    assert_int_equal(scratch_put(store, 1, 1000), KILN_E_TOO_LARGE);
    kiln_store_close(&store);
    store = open_chain("file:a?max-size=0|file:b?max-size=500");
    assert_int_equal(scratch_put(store, 1, 1000), KILN_E_FULL);
    kiln_store_close(&store);
}

static int count_any(void *user, kiln_item *item)
{
    (void)item;
    ++*(unsigned *)user;
    return 0;
}

static unsigned count_requests(kiln_store *store)
{
    unsigned count = 0;
    assert_int_equal(kiln_store_each_request(store, count_any, &count), KILN_OK);
    return count;
}

static void test_requests_go_to_one_tier(void **state)
{
    (void)state;
    kiln_entry *request = scratch_request(1), *found = NULL;
    kiln_store *store = open_chain("file:a|file:b");
    kiln_store *a = open_dir("a"), *b = open_dir("b");
    assert_int_equal(kiln_store_put(store, request), KILN_OK);
    assert_int_equal(count_requests(store), 1);
    assert_int_equal(count_requests(a), 1);
    assert_int_equal(count_requests(b), 0);
    assert_int_equal(kiln_store_remove(store, kiln_entry_key(request)), KILN_OK);
    /* A request that is found in the second store is not copied to the first. */
    assert_int_equal(kiln_store_put(b, request), KILN_OK);
    assert_int_equal(kiln_store_get(store, kiln_entry_key(request), &found), KILN_OK);
    assert_int_equal(count_requests(a), 0);
    kiln_entry_release(&found);
    kiln_entry_release(&request);
    kiln_store_close(&a);
    kiln_store_close(&b);
    kiln_store_close(&store);
}

static void test_leases_are_taken_in_the_first_tier(void **state)
{
    (void)state;
    kiln_key *key = scratch_key(1);
    kiln_lease *lease = NULL, *other = NULL;
    kiln_store *store = open_chain("file:a?lease=off|file:b|file:c");
    kiln_store *b = open_dir("b"), *c = open_dir("c");
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK);
    assert_int_equal(kiln_store_lease(b, key, 0, &other), KILN_BUSY);
    assert_int_equal(kiln_store_lease(c, key, 0, &other), KILN_OK);
    kiln_lease_release(&other);
    kiln_lease_release(&lease);
    kiln_store_close(&b);
    kiln_store_close(&c);
    kiln_store_close(&store);
    kiln_key_release(&key);
}

/* A pack keeps an entry compressed and with a stripped key. A hit in the pack fills the directory
 * above with the entry as it was: uncompressed, with its whole key. */
static void test_unpacked_entry_is_uncompressed(void **state)
{
    (void)state;
    static const unsigned char zeros[5000];
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    kiln_entry *entry = NULL, *found = NULL;
    kiln_pack_writer *writer = NULL;
    const kiln_pack_params pack = {.struct_size = sizeof pack, .flags = KILN_PACK_STRIP_KEYS};
    assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
    assert_int_equal(kiln_key_builder_add(builder, "source", zeros, 3000), KILN_OK);
    assert_int_equal(kiln_key_builder_finish(builder, &key), KILN_OK);
    kiln_key_builder_free(&builder);
    const kiln_entry_params params = {.struct_size = sizeof params,
                                      .key = key,
                                      .kind = KILN_ENTRY_PROGRAM,
                                      .payload = {zeros, sizeof zeros}};
    assert_int_equal(kiln_entry_new(&params, &entry), KILN_OK);
    assert_int_equal(kiln_pack_writer_open(scratch_path(scratch, "p"), &pack, &writer, NULL),
                     KILN_OK);
    assert_int_equal(kiln_pack_writer_add(writer, entry), KILN_OK);
    assert_int_equal(kiln_pack_writer_finish(&writer, NULL, NULL), KILN_OK);
    kiln_store *store = open_chain("file:a|pack:p");
    assert_int_equal(kiln_store_get(store, key, &found), KILN_OK);
    assert_int_equal(kiln_entry_payload(found).size, sizeof zeros);
    kiln_entry_release(&found);
    kiln_store_close(&store);
    store = open_dir("a");
    assert_int_equal(kiln_store_get(store, key, &found), KILN_OK);
    kiln_bytes expected = kiln_entry_encoding(entry), bytes = kiln_entry_encoding(found);
    assert_int_equal(bytes.size, expected.size);
    assert_memory_equal(bytes.data, expected.data, bytes.size);
    kiln_entry_release(&found);
    kiln_entry_release(&entry);
    kiln_key_release(&key);
    kiln_store_close(&store);
}

/* ---- damage ---- */

static void test_damage_above_is_skipped_and_replaced(void **state)
{
    (void)state;
    put_to("a", 1);
    put_to("b", 1);
    flip_entry("a", 1);
    kiln_store *store = open_chain("file:a|file:b");
    kiln_stats counts;
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    kilni_store_take_counts(store, &counts);
    assert_int_equal(counts.corrupt, 1);
    kiln_store_close(&store);
    assert_int_equal(get_from("a", 1), KILN_OK);
    kiln_store_stat stat = {.struct_size = sizeof stat};
    store = open_dir("a");
    assert_int_equal(kiln_store_get_stat(store, 0, &stat), KILN_OK);
    assert_int_equal(stat.totals.corrupt, 1);
    kiln_store_close(&store);
}

static void test_damage_everywhere_is_a_miss(void **state)
{
    (void)state;
    put_to("a", 1);
    put_to("b", 1);
    flip_entry("a", 1);
    flip_entry("b", 1);
    kiln_store *store = open_chain("file:a|file:b");
    kiln_stats counts;
    assert_int_equal(scratch_get(store, 1), KILN_E_CORRUPT);
    kiln_key *key = scratch_key(1);
    kiln_entry *entry = NULL;
    size_t fill;
    assert_int_equal(kilni_store_find(store, key, NULL, true, &entry, &fill), KILN_E_CORRUPT);
    kilni_store_take_counts(store, &counts);
    assert_int_equal(counts.corrupt, 1);
    assert_int_equal(scratch_put(store, 1, 1000), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    kiln_key_release(&key);
    kiln_store_close(&store);
}

/* A look-up ends at the first copy, so only kiln_store_verify finds that the second is damaged. */
static void test_verify_reads_every_copy(void **state)
{
    (void)state;
    put_to("a", 1);
    put_to("b", 1);
    flip_entry("b", 1);
    kiln_store *store = open_chain("file:a|file:b");
    kiln_verify_report report = {.struct_size = sizeof report};
    assert_int_equal(kiln_store_verify(store, NULL, NULL, &report), KILN_OK);
    assert_int_equal(report.checked, 2);
    assert_int_equal(report.corrupt, 1);
    kiln_store_close(&store);
}

/* ---- failing stores ---- */

static const kilni_os_table *system_table;
static uint64_t fake_ns;
static ino_t failing_inode;
static unsigned reads;

static int fake_clock(clockid_t clock, struct timespec *ret_time)
{
    (void)clock;
    *ret_time = (struct timespec){.tv_sec = (time_t)(fake_ns / 1000000000),
                                  .tv_nsec = (long)(fake_ns % 1000000000)};
    return 0;
}

static ssize_t faulty_pread(int file, void *buffer, size_t size, off_t offset)
{
    struct stat stat;
    if (failing_inode != 0 && fstat(file, &stat) == 0 && stat.st_ino == failing_inode) {
        reads++;
        errno = EIO;
        return -1;
    }
    return system_table->pread(file, buffer, size, offset);
}

static void install_faults(void)
{
    static kilni_os_table table;
    system_table = kilni_os_system();
    table = *system_table;
    table.clock_gettime = fake_clock;
    table.pread = faulty_pread;
    fake_ns = (uint64_t)1000000 * 1000000000;
    failing_inode = 0;
    reads = 0;
    kilni_os_replace(&table);
}

static void pass_seconds(unsigned seconds)
{
    fake_ns += (uint64_t)seconds * 1000000000;
}

static void test_a_tier_that_does_not_open(void **state)
{
    (void)state;
    install_faults();
    kiln_store *store = open_chain("file:a|pack:p");
    assert_int_equal(lines, 1);
    assert_non_null(strstr(last_line, "/p is skipped, and tried again later: "));
    assert_non_null(strstr(last_line, "No such file"));
    assert_int_equal(scratch_put(store, 1, 100), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    write_pack_of("p", 50, 51, 0);
    assert_int_equal(scratch_get(store, 50), KILN_MISS);
    pass_seconds(2);
    assert_int_equal(scratch_get(store, 50), KILN_OK);
    assert_int_equal(get_from("a", 50), KILN_OK);
    assert_int_equal(lines, 1);
    kiln_store_close(&store);
}

static unsigned tries_in(kiln_store *store, unsigned seconds)
{
    unsigned before = reads;
    for (unsigned i = 0; i < seconds; i++) {
        pass_seconds(1);
        assert_int_equal(scratch_get(store, 1), KILN_MISS);
        assert_int_equal(scratch_get(store, 1), KILN_MISS);
    }
    return reads - before;
}

static void test_a_failing_tier_is_skipped_for_a_while(void **state)
{
    (void)state;
    struct stat stat;
    install_faults();
    write_pack_of("p", 1, 2, 0);
    assert_int_equal(lstat(scratch_path(scratch, "p"), &stat), 0);
    kiln_store *store = open_chain("pack:p|file:a");
    failing_inode = stat.st_ino;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(scratch_get(store, 1), KILN_MISS);
    }
    assert_int_equal(reads, 3);
    assert_int_equal(lines, 1);
    assert_non_null(strstr(last_line, "/p is skipped"));
    unsigned tries = tries_in(store, 300);
    assert_true(tries >= 6 && tries <= 12);
    /* The store is asked again within a minute. */
    failing_inode = 0;
    pass_seconds(61);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_int_equal(lines, 1);
    kiln_store_close(&store);
}

static void test_success_between_failures_keeps_a_tier(void **state)
{
    (void)state;
    struct stat stat;
    install_faults();
    write_pack_of("p", 1, 2, 0);
    assert_int_equal(lstat(scratch_path(scratch, "p"), &stat), 0);
    kiln_store *store = open_chain("pack:p|file:a");
    for (int i = 0; i < 10; i++) {
        failing_inode = stat.st_ino;
        assert_int_equal(scratch_get(store, 1), KILN_MISS);
        assert_int_equal(scratch_get(store, 1), KILN_MISS);
        failing_inode = 0;
        assert_int_equal(scratch_get(store, 1), KILN_OK);
    }
    assert_int_equal(lines, 0);
    kiln_store_close(&store);
}

static kilni_tier *first_tier_of(kiln_store *store)
{
    return &((kilni_chain *)store)->tiers[0];
}

/* Sets the state that two threads leave if the call of one fails while the call of the other
 * succeeds. */
static void test_a_successful_call_ends_every_pause(void **state)
{
    (void)state;
    kiln_store *store = open_chain("file:a|file:b");
    kilni_tier *tier = first_tier_of(store);
    atomic_store(&tier->retry_ns, 1);
    assert_int_equal(scratch_put(store, 1, 100), KILN_OK);
    assert_int_equal(atomic_load(&tier->retry_ns), 0);
    kiln_store_close(&store);
}

/* A chain does not call a store merely to add damage to its counters. */
static void test_only_calls_with_an_outcome_try_a_tier(void **state)
{
    (void)state;
    kiln_store *store = open_chain("file:a?lease=off|file:b?readonly=1");
    kilni_tier *tier = first_tier_of(store);
    atomic_store(&tier->failures, 3);
    atomic_store(&tier->retry_ns, 1);
    atomic_store(&store->uncounted_corrupt, 1);
    assert_int_equal(scratch_put(store, 1, 100), KILN_OK);
    assert_int_equal(atomic_load(&tier->failures), 0);
    kiln_store_close(&store);
}

static void test_a_tier_without_permission(void **state)
{
    (void)state;
    put_to("b", 1);
    assert_int_equal(mkdir(scratch_path(scratch, "a"), 0777), 0);
    assert_int_equal(chmod(scratch_path(scratch, "a"), 0777), 0);
    kiln_store *store = open_chain("file:a|file:b");
    assert_int_equal(lines, 1);
    assert_non_null(strstr(last_line, "is writable by others"));
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_int_equal(scratch_put(store, 2, 10), KILN_OK);
    kiln_key *key = scratch_key(3);
    kiln_lease *lease = NULL;
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK);
    kiln_lease_release(&lease);
    kiln_key_release(&key);
    kiln_store_close(&store);
}

static void test_no_tier_opens(void **state)
{
    (void)state;
    kiln_store *store = NULL;
    kiln_error error = {.struct_size = sizeof error};
    assert_int_equal(mkdir(scratch_path(scratch, "a"), 0777), 0);
    assert_int_equal(chmod(scratch_path(scratch, "a"), 0777), 0);
    assert_int_equal(try_open("file:a|pack:p", 0, &store, &error), KILN_E_DENIED);
    assert_non_null(strstr(error.text, "is writable by others"));
    assert_null(store);
    assert_int_equal(try_open("file:none|file:no", KILN_STORE_NO_CREATE, &store, NULL), KILN_MISS);
    assert_int_equal(lines, 0);
    assert_int_equal(try_open("file:none|pack:p", KILN_STORE_NO_CREATE, &store, NULL), KILN_E_IO);
    put_to("b", 1);
    assert_int_equal(try_open("file:none|file:b", KILN_STORE_NO_CREATE, &store, NULL), KILN_OK);
    assert_int_equal(lines, 0);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_int_not_equal(access(scratch_path(scratch, "none"), F_OK), 0);
    kiln_store_close(&store);
}

static kiln_status open_as_is(const char *location)
{
    kiln_store *store = NULL;
    kiln_status status = kiln_store_open(location, NULL, &store, NULL);
    kiln_store_close(&store);
    return status;
}

static void test_locations(void **state)
{
    (void)state;
    char many[LOCATION_SIZE] = "";
    kiln_store *store = NULL;
    assert_int_equal(open_as_is("|"), KILN_E_PARSE);
    assert_int_equal(open_as_is("/tmp|"), KILN_E_PARSE);
    assert_int_equal(open_as_is("/tmp||/tmp"), KILN_E_PARSE);
    assert_int_equal(open_as_is("gopher://x|/tmp"), KILN_E_UNSUPPORTED);
    /* Nothing is created if the location of any store is invalid. */
    assert_int_equal(try_open("file:a|file:b?colour=red", 0, &store, NULL), KILN_E_UNSUPPORTED);
    assert_int_not_equal(access(scratch_path(scratch, "a"), F_OK), 0);
    assert_int_equal(try_open("file:a|file:b?write=some", 0, &store, NULL), KILN_E_PARSE);
    for (int i = 0; i < 17; i++) {
        strcat(many, i == 0 ? "file:t" : "|file:t");
    }
    assert_int_equal(try_open(many, 0, &store, NULL), KILN_E_UNSUPPORTED);
    many[strlen(many) - strlen("|file:t")] = '\0';
    assert_int_equal(try_open(many, 0, &store, NULL), KILN_OK);
    kiln_store_close(&store);
    /* A '|' in a name is written %7C. */
    assert_int_equal(try_open("file:a%7Cb|file:c", 0, &store, NULL), KILN_OK);
    assert_int_equal(access(scratch_path(scratch, "a|b"), F_OK), 0);
    kiln_store_close(&store);
}

static void test_failing_allocations(void **state)
{
    (void)state;
    write_pack_of("p", 0, 3, KILN_PACK_STRIP_KEYS);
    for (size_t n = 1;; n++) {
        kiln_store *store = NULL;
        failing_malloc_arm(n);
        kiln_status status = try_open("file:a|pack:p", 0, &store, NULL);
        status = status == KILN_OK ? scratch_get(store, 1) : status;
        status = status == KILN_OK ? scratch_put(store, 7, 100) : status;
        if (status == KILN_OK) {
            unsigned count = 0;
            status = kiln_store_each(store, count_any, &count);
        }
        kiln_store_close(&store);
        if (failing_malloc_disarm() < n) {
            assert_int_equal(status, KILN_OK);
            break;
        }
        /* If the copy to the upper store fails, the look-up still succeeds. */
        assert_true(status == KILN_OK || status == KILN_E_NO_MEMORY || status == KILN_E_IO);
        scratch_remove(scratch_path(scratch, "a"));
    }
}

/* ---- threads ---- */

enum { THREADS = 4, ROUNDS = 200 };

static void *work(void *argument)
{
    kiln_store *store = argument;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        uint64_t number = i % 20;
        kiln_status status = scratch_get(store, number);
        if (status == KILN_MISS) {
            status = scratch_put(store, number, 200);
        }
        if (status != KILN_OK) {
            return argument;
        }
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    write_pack_of("p", 0, 5, 0);
    kiln_store *store = open_chain("file:a|file:b|pack:p|pack:missing");
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, work, store), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    kiln_store_close(&store);
    for (uint64_t i = 0; i < 20; i++) {
        assert_int_equal(get_from("a", i), KILN_OK);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_put_and_get),
        TEST(test_failed_removal_is_reported),
        TEST(test_each),
        TEST(test_lease),
        TEST(test_totals),
        TEST(test_trim),
        TEST(test_each_tier_is_trimmed_to_its_size),
        TEST(test_a_hit_fills_the_tiers_above),
        TEST(test_the_first_tier_answers),
        TEST(test_write_policies),
        TEST(test_policies_of_fills),
        TEST(test_unsigned_entries_are_not_signed),
        TEST(test_unwritable_store),
        TEST(test_no_tier_accepts_the_entry),
        TEST(test_requests_go_to_one_tier),
        TEST(test_leases_are_taken_in_the_first_tier),
        TEST(test_unpacked_entry_is_uncompressed),
        TEST(test_damage_above_is_skipped_and_replaced),
        TEST(test_damage_everywhere_is_a_miss),
        TEST(test_verify_reads_every_copy),
        TEST(test_a_tier_that_does_not_open),
        TEST(test_a_failing_tier_is_skipped_for_a_while),
        TEST(test_success_between_failures_keeps_a_tier),
        TEST(test_a_successful_call_ends_every_pause),
        TEST(test_only_calls_with_an_outcome_try_a_tier),
        TEST(test_a_tier_without_permission),
        TEST(test_no_tier_opens),
        TEST(test_locations),
        TEST(test_failing_allocations),
        TEST(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
