/* SPDX-License-Identifier: Apache-2.0
 *
 * A chain of a directory and a real Redis server, as programs use it.
 */
#include "support/store_scene.h"

#include <kiln/signature.h>

#include "entry/entry.h"
#include "os/clock.h"
#include "store/remote/loader.h"
#include "store/remote/state_path.h"
#include "store/store.h"
#include "store/writer.h"
#include "support/failing_malloc.h"
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

/* Sends a command in which the name of an entry replaces %s. Returns the number that the server
 * answers. */
static long long ask_number(const char *format, uint64_t number)
{
    char command[512];
    const char *at = strstr(format, "%s");
    snprintf(command, sizeof command, "%.*s%s%s", (int)(at - format), format, name_of(number),
             at + 2);
    const char *reply = redis_say(&server, command);
    assert_int_equal(reply[0], ':');
    return atoll(reply + 1);
}

/* Returns how often the server has received a command. */
static unsigned calls_of(const char *command)
{
    char field[64];
    snprintf(field, sizeof field, "cmdstat_%s:calls=", command);
    const char *found = strstr(redis_say(&server, "INFO commandstats"), field);
    return found ? (unsigned)strtoul(found + strlen(field), NULL, 10) : 0;
}

/* Returns the path of an entry in the chain's directory. */
static const char *local_path(const char *name, uint64_t number)
{
    static char path[SCRATCH_PATH_SIZE];
    char directory[SCRATCH_DIRECTORY_SIZE + 16];
    snprintf(directory, sizeof directory, "%s/%s", scratch, name);
    scratch_entry_path(directory, number, path);
    return path;
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

/* ---- the uses of devices ---- */

static kiln_entry *entry_for(const char *device, uint32_t kind, uint64_t number)
{
    kiln_key *key = scratch_key(number);
    kiln_entry *entry = NULL;
    const kiln_entry_params params = {
        .struct_size = sizeof params,
        .key = key,
        .kind = kind,
        .provenance = {.struct_size = sizeof params.provenance, .device = device},
        .payload = {"payload", 7},
    };
    assert_int_equal(kiln_entry_new(&params, &entry), KILN_OK);
    kiln_key_release(&key);
    return entry;
}

/* Puts an entry as a program does that has built it. */
static void write_entry(const char *device, uint32_t kind, uint64_t number)
{
    kiln_entry *entry = entry_for(device, kind, number);
    kilni_writer *writer = NULL;
    assert_int_equal(kilni_writer_new(store, 1 << 20, &writer), KILN_OK);
    assert_int_equal(kilni_writer_put(writer, entry, NULL), KILN_OK);
    kilni_writer_free(&writer, UINT64_MAX);
    kiln_entry_release(&entry);
}

/* Gets an entry as a program does that uses it. */
static void use_entry(uint64_t number)
{
    kiln_key *key = scratch_key(number);
    kiln_entry *entry = NULL;
    size_t fill = 0;
    kilni_writer *writer = NULL;
    assert_int_equal(kilni_writer_new(store, 1 << 20, &writer), KILN_OK);
    assert_int_equal(kilni_store_find(store, key, NULL, false, &entry, &fill), KILN_OK);
    kilni_writer_fill(writer, fill, key, entry);
    kilni_writer_free(&writer, UINT64_MAX);
    kiln_entry_release(&entry);
    kiln_key_release(&key);
}

static int64_t last_use_of(const char *device)
{
    int64_t last_s = 0;
    const kiln_status status = kiln_store_get_device_use(store, device, &last_s);
    return status == KILN_OK ? last_s : -(int64_t)status;
}

static void test_builds_and_uses_record_devices(void **state)
{
    (void)state;
    const int64_t now_s = kilni_clock_unix_s();
    open_chain("a", "");
    assert_int_equal(last_use_of("built"), -KILN_MISS);
    write_entry("built", KILN_ENTRY_PROGRAM, 1);
    write_entry("not of a driver", KILN_ENTRY_BLOB, 2);
    assert_in_range(last_use_of("built"), now_s, kilni_clock_unix_s());
    assert_int_equal(last_use_of("not of a driver"), -KILN_MISS);
    /* A copy is not a use. */
    kiln_entry *copied = entry_for("copied", KILN_ENTRY_PROGRAM, 3);
    assert_int_equal(kiln_store_put(store, copied), KILN_OK);
    kiln_entry_release(&copied);
    assert_int_equal(last_use_of("copied"), -KILN_MISS);
    /* The hit of a different machine is one. */
    open_chain("b", "");
    use_entry(3);
    assert_true(last_use_of("copied") >= now_s);
    /* A directory alone has no records. */
    open_location(scratch);
    assert_int_equal(last_use_of("built"), -KILN_E_UNSUPPORTED);
}

static void test_a_device_is_recorded_once_a_day(void **state)
{
    (void)state;
    open_chain("a", "");
    write_entry("a device", KILN_ENTRY_PROGRAM, 1);
    const unsigned sets = calls_of("set");
    write_entry("a device", KILN_ENTRY_PROGRAM, 2);
    assert_int_equal(calls_of("set"), sets + 1); /* the entry */
    open_chain("a", "");                         /* as a second process */
    write_entry("a device", KILN_ENTRY_PROGRAM, 3);
    use_entry(3);
    assert_int_equal(calls_of("set"), sets + 2);
}

static void test_a_listing_has_no_records(void **state)
{
    (void)state;
    open_chain("a", "");
    write_entry("a device", KILN_ENTRY_PROGRAM, 1);
    open_location(server_location(""));
    kiln_store_stat stat = {.struct_size = sizeof stat};
    assert_int_equal(kiln_store_get_stat(store, 0, &stat), KILN_OK);
    assert_int_equal(stat.entries, 1);
    assert_int_equal(atoll(redis_say(&server, "DBSIZE") + 1), 2);
}

static void test_without_the_server_no_use_is_known(void **state)
{
    (void)state;
    open_chain("a", "");
    write_entry("a device", KILN_ENTRY_PROGRAM, 1);
    redis_stop(&server);
    assert_int_equal(last_use_of("a device"), -KILN_E_IO);
}

/* ---- outages ---- */

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

/* ---- entries that are used stay ---- */

#define DAY_MS 86400000LL

/* Makes an entry's next use in the directory the first one today. */
static void wait_until_tomorrow(const char *name, uint64_t number)
{
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                      {.tv_sec = kilni_clock_unix_s() - 2 * 86400}};
    assert_int_equal(utimensat(AT_FDCWD, local_path(name, number), times, 0), 0);
}

static void test_a_hit_on_the_server_keeps_an_entry(void **state)
{
    (void)state;
    open_location(server_location("&expire=30"));
    assert_int_equal(scratch_put(store, 1, 1000), KILN_OK);
    assert_int_equal(ask_number("PEXPIRE %s 3600000", 1), 1);
    redis_say(&server, "CONFIG RESETSTAT");
    open_chain("a", "&expire=30");
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_in_range(ask_number("PTTL %s", 1), 29 * DAY_MS, 30 * DAY_MS);
    assert_int_equal(calls_of("pexpire"), 1);
    /* A process that finds it there again on the same day does not tell the server. */
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(unlink(local_path("a", 1)), 0);
        open_chain("a", "&expire=30");
        assert_int_equal(scratch_get(store, 1), KILN_OK);
    }
    assert_int_equal(calls_of("get"), 4);
    assert_int_equal(calls_of("pexpire"), 1);
}

static void test_a_hit_in_the_directory_keeps_an_entry(void **state)
{
    (void)state;
    open_chain("a", "&expire=30");
    assert_int_equal(scratch_put(store, 1, 1000), KILN_OK);
    assert_int_equal(ask_number("PEXPIRE %s 3600000", 1), 1);
    redis_say(&server, "CONFIG RESETSTAT");
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_int_equal(calls_of("pexpire"), 0); /* it was put today */
    for (unsigned i = 0; i < 3; i++) {
        wait_until_tomorrow("a", 1);
        assert_int_equal(scratch_get(store, 1), KILN_OK);
        assert_int_equal(scratch_get(store, 1), KILN_OK);
    }
    assert_int_equal(calls_of("get"), 0);
    assert_int_equal(calls_of("pexpire"), 1);
    assert_in_range(ask_number("PTTL %s", 1), 29 * DAY_MS, 30 * DAY_MS);
}

static void test_a_server_without_a_directory(void **state)
{
    (void)state;
    open_location(server_location("&expire=30"));
    assert_int_equal(scratch_put(store, 1, 1000), KILN_OK);
    assert_int_equal(ask_number("PEXPIRE %s 3600000", 1), 1);
    redis_say(&server, "CONFIG RESETSTAT");
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(scratch_get(store, 1), KILN_OK);
    }
    assert_int_equal(calls_of("pexpire"), 1);
    assert_in_range(ask_number("PTTL %s", 1), 29 * DAY_MS, 30 * DAY_MS);
}

/* Another machine's entry may live longer, or for ever. */
static void test_no_life_is_shortened(void **state)
{
    (void)state;
    open_location(server_location(""));
    assert_int_equal(scratch_put(store, 1, 1000), KILN_OK);
    assert_int_equal(scratch_put(store, 2, 1000), KILN_OK);
    assert_int_equal(ask_number("PEXPIRE %s 8640000000", 2), 1); /* 100 days */
    open_chain("a", "&expire=30");
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_int_equal(scratch_get(store, 2), KILN_OK);
    assert_int_equal(calls_of("pexpire"), 3);
    assert_int_equal(ask_number("PTTL %s", 1), -1);
    assert_in_range(ask_number("PTTL %s", 2), 99 * DAY_MS, 100 * DAY_MS);
}

static void test_who_does_not_keep_entries(void **state)
{
    (void)state;
    static const char *const options[] = {"", "&expire=0", "&expire=30&readonly=1",
                                          "&expire=30&write=none"};
    open_location(server_location("&expire=30"));
    assert_int_equal(scratch_put(store, 1, 1000), KILN_OK);
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        char name[8];
        snprintf(name, sizeof name, "%zu", i);
        open_chain(name, options[i]);
        assert_int_equal(scratch_get(store, 1), KILN_OK);
        wait_until_tomorrow(name, 1);
        assert_int_equal(scratch_get(store, 1), KILN_OK);
    }
    assert_int_equal(calls_of("pexpire"), 0);
}

/* A directory does not look at signatures, so it may have an entry whose signature is over. */
static void test_a_signature_that_is_over_is_not_extended(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_SIZE];
    kilni_secret_key secret = {.public_key.name = "team-1"};
    const unsigned char seed[32] = {1};
    kilni_secret_key_from_seed(seed, &secret);
    for (unsigned is_over = 0; is_over < 2; is_over++) {
        const int64_t now_s = kilni_clock_unix_s();
        const kilni_entry_signer signer = {
            .key = &secret, .now_s = now_s, .expires_s = is_over ? now_s - 10 : now_s + 1000};
        const kilni_entry_form form = {.signer = &signer};
        kiln_entry *plain = scratch_entry(is_over, 1000), *entry = NULL;
        assert_int_equal(kilni_entry_prepare(plain, &form, &entry), KILN_OK);
        open_location(server_location("&expire=30"));
        assert_int_equal(scratch_put(store, is_over, 1000), KILN_OK);
        assert_int_equal(ask_number("PEXPIRE %s 3600000", is_over), 1);
        snprintf(path, sizeof path, "%s/a", scratch);
        open_location(path);
        assert_int_equal(kiln_store_put(store, entry), KILN_OK);
        open_chain("a", "&expire=30");
        wait_until_tomorrow("a", is_over);
        assert_int_equal(scratch_get(store, is_over), KILN_OK);
        assert_int_equal(ask_number("PTTL %s", is_over) > 3600000, !is_over);
        kiln_entry_release(&entry);
        kiln_entry_release(&plain);
    }
}

static kiln_status open_once(const char *location)
{
    kiln_store_close(&store);
    return kiln_store_open(location, NULL, &store, NULL);
}

/* A server's store needs memory for the uses of its entries. */
static void test_opening_without_memory(void **state)
{
    (void)state;
    size_t failures = 0;
    for (size_t n = 1;; n++) {
        failing_malloc_arm(n);
        const kiln_status status = open_once(server_location("&expire=30"));
        if (failing_malloc_disarm() < n) {
            assert_int_equal(status, KILN_OK);
            break;
        }
        failures += status == KILN_E_NO_MEMORY;
    }
    assert_true(failures > 1);
}

/* A report of the tiers shows less if memory runs out. */
static void test_tiers_without_memory(void **state)
{
    (void)state;
    open_chain("a", "");
    assert_int_equal(scratch_get(store, 1), KILN_MISS);
    for (size_t n = 1;; n++) {
        failing_malloc_arm(n);
        look_at_tiers();
        if (failing_malloc_disarm() < n) {
            break;
        }
    }
    assert_int_equal(server_tier.misses, 1);
}

/* A check that has no memory to judge an entry moves nothing. */
static void quarantine_without_memory(void *user, kiln_item *item, kiln_status status,
                                      const char *why)
{
    (void)user, (void)why;
    assert_int_equal(status, KILN_E_CORRUPT);
    for (size_t n = 1;; n++) {
        failing_malloc_arm(n);
        const kiln_status moved = kiln_item_quarantine(item);
        if (failing_malloc_disarm() < n || moved == KILN_OK) {
            assert_int_equal(moved, KILN_OK);
            break;
        }
        assert_int_equal(moved, KILN_E_NO_MEMORY);
        assert_int_equal(ask_number("EXISTS %s", 1), 1);
    }
}

static void test_quarantine_without_memory(void **state)
{
    (void)state;
    kiln_verify_report report = {.struct_size = sizeof report};
    open_location(server_location(""));
    assert_int_equal(scratch_put(store, 1, 1000), KILN_OK);
    ask_number("SETRANGE %s 300 damage", 1);
    assert_int_equal(kiln_store_verify(store, quarantine_without_memory, NULL, &report), KILN_OK);
    assert_int_equal(ask_number("EXISTS %s:damaged", 1), 1);
}

/* ---- unfit entries ---- */

/* Returns the value of an entry on the server, by a hash. */
static char *value_hash(uint64_t number)
{
    static char hash[64];
    char command[256];
    snprintf(command, sizeof command, "EVAL \"return redis.sha1hex(redis.call('GET','%s'))\" 0",
             name_of(number));
    snprintf(hash, sizeof hash, "%s", redis_say(&server, command));
    return hash;
}

/* If a device refuses an entry, this machine forgets it, and the others keep it. */
static void test_a_refused_entry_goes_from_this_machine_only(void **state)
{
    (void)state;
    kiln_key *key = scratch_key(1);
    kiln_entry *entry = NULL;
    char before[64];
    open_location(server_location(""));
    assert_int_equal(scratch_put(store, 1, 1000), KILN_OK);
    snprintf(before, sizeof before, "%s", value_hash(1));
    open_chain("a", "");
    assert_int_equal(kiln_store_get(store, key, &entry), KILN_OK);
    assert_int_equal(access(local_path("a", 1), F_OK), 0);
    kiln_entry_release(&entry);
    assert_int_equal(kiln_store_get(store, key, &entry), KILN_OK);
    assert_int_equal(kilni_store_remove_judged(store, key, entry), KILN_OK);
    assert_int_equal(access(local_path("a", 1), F_OK), -1);
    assert_string_equal(value_hash(1), before);
    kiln_entry_release(&entry);
    kiln_key_release(&key);
}

/* What happens to an entry after a check has found it damaged, and before it is moved. */
typedef struct interruption {
    const char *command; /* in which the entry's name replaces %s */
    kiln_status expected;
    unsigned count;
} interruption;

static void interrupt(void *user, kiln_item *item, kiln_status status, const char *why)
{
    interruption *work = user;
    char command[512];
    if (status == KILN_OK) {
        return;
    }
    assert_int_equal(status, KILN_E_CORRUPT);
    assert_non_null(why);
    const char *at = strstr(work->command, "%s");
    snprintf(command, sizeof command, "%.*s%s%s", (int)(at - work->command), work->command,
             name_of(1), at + 2);
    redis_say(&server, command);
    assert_int_equal(kiln_item_quarantine(item), work->expected);
    work->count++;
}

static void test_an_entry_that_was_replaced_is_not_moved(void **state)
{
    (void)state;
    interruption cases[] = {{"RENAME good %s", KILN_EXISTS, 0}, {"DEL %s", KILN_MISS, 0}};
    char command[256];
    open_location(server_location(""));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kiln_verify_report report = {.struct_size = sizeof report};
        assert_int_equal(scratch_put(store, 1, 1000), KILN_OK);
        snprintf(command, sizeof command, "COPY %s good REPLACE", name_of(1));
        assert_string_equal(redis_say(&server, command), ":1\r\n");
        ask_number("SETRANGE %s 300 damage", 1);
        assert_int_equal(kiln_store_verify(store, interrupt, &cases[i], &report), KILN_OK);
        assert_int_equal(cases[i].count, 1);
        assert_int_equal(scratch_get(store, 1), i == 0 ? KILN_OK : KILN_MISS);
        assert_int_equal(ask_number("EXISTS %s:damaged", 1), 0);
    }
}

/* The server itself compares the value with the one that was found damaged. */
static void test_only_the_damaged_bytes_are_moved(void **state)
{
    (void)state;
    const kilni_connector *connector;
    kilni_remote_server described = {.host = "127.0.0.1", .port = (uint16_t)server.port};
    kilni_remote *remote;
    unsigned char bytes[] = "old";
    const kilni_remote_bytes value = {.data = bytes, .size = 3};
    const uint64_t deadline_ns = kilni_clock_ns() + UINT64_C(30000000000);
    assert_int_equal(kilni_remote_load(KILNI_REDIS_CONNECTOR, &connector, NULL), KILN_OK);
    assert_int_equal(connector->open(&described, &remote, NULL), KILN_OK);
    assert_int_equal(connector->move(remote, "a", "b", value, 1000000, deadline_ns), KILN_MISS);
    redis_say(&server, "SET a new");
    assert_int_equal(connector->move(remote, "a", "b", value, 1000000, deadline_ns), KILN_MISS);
    assert_string_equal(redis_say(&server, "EXISTS a b"), ":1\r\n");
    /* A server that is full moves it all the same. */
    redis_say(&server, "SET a old");
    redis_say(&server, "CONFIG SET maxmemory 100kb");
    assert_int_equal(connector->move(remote, "a", "b", value, 1000000, deadline_ns), KILN_OK);
    assert_string_equal(redis_say(&server, "EXISTS a"), ":0\r\n");
    assert_string_equal(redis_say(&server, "GET b"), "$3\r\nold\r\n");
    connector->close(remote);
}

/* ---- keys that the server has just denied to have ---- */

/* A process that is stopped for a while between the two gets asks again, so this tries again. */
static void test_a_miss_is_not_asked_for_again_at_once(void **state)
{
    (void)state;
    bool is_remembered = false;
    open_chain("a", "");
    for (uint64_t number = 1; number < 1000 && !is_remembered; number++) {
        const unsigned before = calls_of("get");
        assert_int_equal(scratch_get(store, number), KILN_MISS);
        assert_int_equal(scratch_get(store, number), KILN_MISS);
        is_remembered = calls_of("get") == before + 1;
    }
    assert_true(is_remembered);
}

/* Puts an entry as a different machine does. */
static void put_elsewhere(uint64_t number)
{
    kiln_store *other = NULL;
    assert_int_equal(kiln_store_open(server_location(""), NULL, &other, NULL), KILN_OK);
    assert_int_equal(scratch_put(other, number, 1000), KILN_OK);
    kiln_store_close(&other);
}

static void test_a_miss_is_forgotten(void **state)
{
    (void)state;
    open_location(server_location(""));
    assert_int_equal(scratch_get(store, 1), KILN_MISS);
    assert_int_equal(scratch_put(store, 1, 1000), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    /* After some time, without a reason. */
    assert_int_equal(scratch_get(store, 2), KILN_MISS);
    put_elsewhere(2);
    kiln_status status = KILN_MISS;
    for (unsigned tries = 0; tries < 6000 && status == KILN_MISS; tries++) {
        kilni_sleep_ns(10000000);
        status = scratch_get(store, 2);
    }
    assert_int_equal(status, KILN_OK);
}

/* A different machine puts an entry that the server has just denied to have, and then this process
 * takes a lease. */
static void miss_and_take_lease(uint64_t number)
{
    kiln_lease *lease = NULL;
    kiln_key *key = scratch_key(number);
    assert_int_equal(scratch_get(store, number), KILN_MISS);
    put_elsewhere(number);
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK);
    assert_int_equal(scratch_get(store, number), KILN_OK);
    kiln_lease_release(&lease);
    kiln_key_release(&key);
}

/* The lease may be the server's, or, if the server gives none, the machine's. */
static void test_a_lease_makes_a_process_ask_again(void **state)
{
    (void)state;
    open_location(server_location(""));
    miss_and_take_lease(1);
    open_chain("a", "");
    miss_and_take_lease(2);
    open_chain("a", "&lease=off");
    miss_and_take_lease(3);
}

static void test_the_end_of_a_lease_makes_a_process_ask_again(void **state)
{
    (void)state;
    kiln_lease *lease = NULL;
    kiln_key *key = scratch_key(1);
    open_chain("a", "");
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_MISS);
    put_elsewhere(1);
    kiln_lease_release(&lease);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    kiln_key_release(&key);
}

/* ---- a small server ---- */

/* A server that is smaller than one large entry keeps what it has, whatever this machine builds.
 * The large entry stays in the directory. */
static void test_a_large_entry_does_not_empty_a_small_server(void **state)
{
    (void)state;
    enum { ENTRIES = 20 };
    redis_say(&server, "CONFIG SET maxmemory 8mb");
    redis_say(&server, "CONFIG SET maxmemory-policy allkeys-lru");
    open_chain("a", "&max-entry=64M");
    for (uint64_t number = 1; number <= ENTRIES; number++) {
        assert_int_equal(scratch_put(store, number, 20000), KILN_OK);
    }
    assert_int_equal(scratch_put(store, ENTRIES + 1, 20000000), KILN_OK);
    assert_int_equal(scratch_get(store, ENTRIES + 1), KILN_OK);
    assert_int_equal(ask_number("EXISTS %s", ENTRIES + 1), 0);
    for (uint64_t number = 1; number <= ENTRIES; number++) {
        assert_int_equal(ask_number("EXISTS %s", number), 1);
    }
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_server_is_measured, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_builds_and_uses_record_devices, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_device_is_recorded_once_a_day, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_listing_has_no_records, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_the_server_no_use_is_known, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_an_outage_is_reported, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_hit_on_the_server_keeps_an_entry, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_hit_in_the_directory_keeps_an_entry, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_server_without_a_directory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_life_is_shortened, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_who_does_not_keep_entries, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_signature_that_is_over_is_not_extended, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_opening_without_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tiers_without_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_quarantine_without_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_refused_entry_goes_from_this_machine_only, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_an_entry_that_was_replaced_is_not_moved, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_only_the_damaged_bytes_are_moved, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_miss_is_not_asked_for_again_at_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_miss_is_forgotten, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_lease_makes_a_process_ask_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_end_of_a_lease_makes_a_process_ask_again, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_large_entry_does_not_empty_a_small_server, set_up,
                                        tear_down),
    };
    if (count != 2) {
        return 2;
    }
    redis_require();
    kilni_remote_set_library(arguments[1]);
    kilni_remote_set_runtime_folder("/nonexistent");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
