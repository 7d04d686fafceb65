/* SPDX-License-Identifier: Apache-2.0
 *
 * Look-ups of several keys on a real Redis server: how many round trips they take, what they cost
 * if the server fails, and that no key gets the answer to a different key.
 */
#include "support/store_scene.h"

#include <pthread.h>

#include "os/clock.h"
#include "store/remote/connector.h"
#include "store/remote/loader.h"
#include "store/remote/state_path.h"
#include "store/store.h"
#include "support/failing_malloc.h"
#include "support/fault_proxy.h"
#include "support/redis_server.h"

extern const kilni_connector kiln_remote_connector;

static const char *const no_options[] = {NULL};

enum { COUNT = 64 };

static char scratch[SCRATCH_DIRECTORY_SIZE];
static redis_server server;
static fault_proxy proxy;
static int control; /* a connection to the server */
static kiln_store *store;
static kiln_key *keys[COUNT]; /* of the numbers 0, 1, … */

static const kiln_key *const *all_keys(void)
{
    return (const kiln_key *const *)keys;
}

static void open_at(unsigned port)
{
    char location[SCRATCH_PATH_SIZE];
    snprintf(location, sizeof location, "redis://127.0.0.1:%u?trust=any", port);
    kiln_store_close(&store);
    assert_int_equal(kiln_store_open(location, NULL, &store, NULL), KILN_OK);
}

static void open_chain(const char *name, unsigned port)
{
    char location[2 * SCRATCH_PATH_SIZE];
    snprintf(location, sizeof location, "%s/%s|redis://127.0.0.1:%u?trust=any", scratch, name,
             port);
    kiln_store_close(&store);
    assert_int_equal(kiln_store_open(location, NULL, &store, NULL), KILN_OK);
}

static int set_up(void **state)
{
    (void)state;
    scratch_make(scratch);
    if (!redis_start(&server, scratch, no_options)) {
        return -1;
    }
    control = redis_dial(&server);
    fault_proxy_start(&proxy, server.port);
    for (uint64_t i = 0; i < COUNT; i++) {
        keys[i] = scratch_key(i);
    }
    open_at(server.port);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        kiln_key_release(&keys[i]);
    }
    kiln_store_close(&store);
    close(control);
    fault_proxy_stop(&proxy);
    redis_stop(&server);
    scratch_remove(scratch);
    return 0;
}

static void put_even(void)
{
    for (uint64_t i = 0; i < COUNT; i += 2) {
        assert_int_equal(scratch_put(store, i, 1000), KILN_OK);
    }
}

/* Looks up the first keys, and returns how many were found. Each entry that was found must be the
 * right one. */
static size_t get_first(size_t count, kiln_status *statuses)
{
    kiln_entry *entries[COUNT];
    size_t found = 0;
    assert_int_equal(kiln_store_get_many(store, all_keys(), count, entries, statuses), KILN_OK);
    for (size_t i = 0; i < count; i++) {
        assert_true(!entries[i] || (kiln_key_equals(keys[i], kiln_entry_key(entries[i])) &&
                                    scratch_entry_is(entries[i], i)));
        found += entries[i] != NULL;
        kiln_entry_release(&entries[i]);
    }
    return found;
}

/* Returns a number from the server's reply to INFO; 0: it is not there. The server reads from this
 * connection once for each call. */
static unsigned long info_of(const char *section, const char *field)
{
    char text[16384];
    const int length = snprintf(text, sizeof text, "INFO %s\r\n", section);
    assert_int_equal(write(control, text, (size_t)length), length);
    const ssize_t size = read(control, text, sizeof text - 1);
    assert_true(size > 0);
    text[size] = '\0';
    const char *found = strstr(text, field);
    return found ? strtoul(found + strlen(field), NULL, 10) : 0;
}

static unsigned long count_gets(void)
{
    return info_of("commandstats", "cmdstat_get:calls=");
}

/* Returns how often the server has read from a connection, this call included. It reads a batch of
 * requests at once, because the batch is smaller than its buffer. */
static unsigned long count_reads(void)
{
    return info_of("stats", "total_reads_processed:");
}

/* ---- round trips ---- */

static void test_one_round_trip(void **state)
{
    (void)state;
    kiln_status statuses[COUNT];
    put_even();
    assert_int_equal(scratch_get(store, 0), KILN_OK); /* the connection is open */
    const unsigned long gets = count_gets(), reads = count_reads();
    assert_int_equal(get_first(COUNT, statuses), COUNT / 2);
    assert_int_equal(count_reads(), reads + 2);
    assert_int_equal(count_gets(), gets + COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(statuses[i], i % 2 == 0 ? KILN_OK : KILN_MISS);
    }
}

static void test_presence_in_one_round_trip(void **state)
{
    (void)state;
    kiln_status statuses[COUNT];
    put_even();
    assert_int_equal(scratch_get(store, 0), KILN_OK);
    const unsigned long reads = count_reads();
    assert_int_equal(kiln_store_contains_many(store, all_keys(), COUNT, statuses), KILN_OK);
    assert_int_equal(count_reads(), reads + 2);
    assert_int_equal(info_of("commandstats", "cmdstat_exists:calls="), COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(statuses[i], i % 2 == 0 ? KILN_OK : KILN_MISS);
    }
}

/* Keys that the server has just denied to have are not asked for. A process that is stopped for a
 * while between the two calls asks again, so this tries again. */
static void test_misses_are_remembered(void **state)
{
    (void)state;
    bool is_remembered = false;
    kiln_status statuses[COUNT];
    put_even();
    for (unsigned tries = 0; tries < 1000 && !is_remembered; tries++) {
        assert_int_equal(get_first(COUNT, statuses), COUNT / 2);
        const unsigned long gets = count_gets();
        assert_int_equal(get_first(COUNT, statuses), COUNT / 2);
        is_remembered = count_gets() == gets + COUNT / 2;
    }
    assert_true(is_remembered);
}

/* What the directory has is not asked for on the server. */
static void test_a_chain_asks_for_the_rest(void **state)
{
    (void)state;
    kiln_status statuses[COUNT];
    put_even();
    open_chain("a", server.port);
    assert_int_equal(get_first(COUNT / 2, statuses), COUNT / 4);
    const unsigned long gets = count_gets();
    assert_int_equal(get_first(COUNT / 2, statuses), COUNT / 4);
    assert_in_range(count_gets(), gets, gets + COUNT / 4);
    kiln_store_close(&store);
    char local[SCRATCH_PATH_SIZE];
    snprintf(local, sizeof local, "%s", scratch_path(scratch, "a"));
    assert_int_equal(kiln_store_open(local, NULL, &store, NULL), KILN_OK);
    assert_int_equal(get_first(COUNT, statuses), COUNT / 4);
}

/* ---- copies ---- */

static kiln_store *local; /* with ENTRIES entries */
enum { ENTRIES = 300 };

static void fill_local(void)
{
    assert_int_equal(kiln_store_open(scratch_path(scratch, "local"), NULL, &local, NULL), KILN_OK);
    for (uint64_t i = 0; i < ENTRIES; i++) {
        assert_int_equal(scratch_put(local, i, 200), KILN_OK);
    }
}

static void expect_copy(kiln_store *into, uint64_t taken, uint64_t present)
{
    kiln_copy_report report = {.struct_size = sizeof report};
    assert_int_equal(kiln_store_copy(local, into, NULL, &report, NULL), KILN_OK);
    assert_int_equal(report.taken, taken);
    assert_int_equal(report.taken_bytes, taken * 200);
    assert_int_equal(report.present, present);
    assert_int_equal(report.damaged + report.gone + report.refused + report.unauthenticated, 0);
}

static void test_a_copy_of_what_exists(void **state)
{
    (void)state;
    fill_local();
    expect_copy(store, ENTRIES, 0);
    const unsigned long reads = count_reads();
    expect_copy(store, 0, ENTRIES);
    assert_int_equal(count_reads(), reads + 1 + (ENTRIES + 63) / 64);
    kiln_store_close(&local);
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

static void say_of(const char *before, uint64_t number, const char *after)
{
    char command[256];
    snprintf(command, sizeof command, "%s %s%s", before, name_of(number), after);
    assert_int_equal(redis_say(&server, command)[0], ':');
}

/* A copy continues where an earlier one was interrupted, and replaces what is damaged. */
static void test_a_copy_of_what_is_missing(void **state)
{
    (void)state;
    fill_local();
    expect_copy(store, ENTRIES, 0);
    for (uint64_t i = 0; i < ENTRIES; i += 100) {
        say_of("DEL", i, "");
        say_of("SETRANGE", i + 1, " 200 damage");
    }
    expect_copy(store, 6, ENTRIES - 6);
    expect_copy(store, 0, ENTRIES);
    kiln_store *chain = store;
    store = NULL;
    open_chain("b", server.port);
    expect_copy(store, 0, ENTRIES); /* a chain has what one of its stores has */
    kiln_store_close(&chain);
    kiln_store_close(&local);
}

static int count_wanted(void *user, const kiln_item_info *info)
{
    (void)info;
    return ++*(unsigned *)user % 3 == 0;
}

static void test_only_wanted_entries_are_asked_for(void **state)
{
    (void)state;
    unsigned count = 0;
    kiln_copy_report report = {.struct_size = sizeof report};
    const kiln_copy_params params = {
        .struct_size = sizeof params, .wants_item = count_wanted, .user = &count};
    fill_local();
    const unsigned long gets = count_gets();
    assert_int_equal(kiln_store_copy(local, store, &params, &report, NULL), KILN_OK);
    assert_int_equal(report.taken, ENTRIES / 3);
    assert_int_equal(count, ENTRIES);
    assert_int_equal(count_gets(), gets + ENTRIES / 3);
    kiln_store_close(&local);
}

static void test_a_copy_to_a_dead_server_ends(void **state)
{
    (void)state;
    kiln_copy_report report = {.struct_size = sizeof report};
    fill_local();
    redis_stop(&server);
    assert_int_equal(kiln_store_copy(local, store, NULL, &report, NULL), KILN_E_IO);
    assert_int_equal(report.taken + report.present, 0);
    assert_int_equal(report.refused, 1);
    kiln_store_close(&local);
}

/* ---- faults ---- */

static kiln_tier_info server_tier;

static void take_tier(void *user, const kiln_tier_info *info)
{
    (void)user;
    server_tier = *info; /* the last one stays */
}

/* All keys of a batch share one fault, as one look-up does. */
static void test_a_server_that_fails(void **state)
{
    (void)state;
    static const fault kinds[] = {FAULT_CUT, FAULT_RESET, FAULT_SILENCE};
    kiln_status statuses[COUNT];
    put_even();
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        char name[8];
        snprintf(name, sizeof name, "%zu", i);
        open_chain(name, proxy.port);
        fault_proxy_set(&proxy, kinds[i], 3000, "");
        const uint64_t start_ns = kilni_clock_ns();
        assert_int_equal(get_first(COUNT, statuses), 0);
        assert_true(kilni_clock_ns() - start_ns < UINT64_C(10500000000));
        for (size_t j = 0; j < COUNT; j++) {
            assert_int_equal(statuses[j], KILN_MISS); /* the directory's answer */
        }
        assert_int_equal(kiln_store_each_tier(store, take_tier, NULL), KILN_OK);
        assert_int_equal(server_tier.hits + server_tier.misses, 0);
        assert_int_equal(server_tier.faults, 1);
        fault_proxy_set(&proxy, FAULT_NONE, 0, "");
    }
}

/* After that, the server is not contacted for a while, whatever is asked. */
static void test_a_dead_server(void **state)
{
    (void)state;
    kiln_status statuses[COUNT];
    redis_stop(&server);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(get_first(COUNT, statuses), 0);
        for (size_t j = 0; j < COUNT; j++) {
            assert_int_equal(statuses[j], KILN_E_IO);
        }
    }
    assert_int_equal(kiln_store_contains_many(store, all_keys(), COUNT, statuses), KILN_OK);
    for (size_t j = 0; j < COUNT; j++) {
        assert_int_equal(statuses[j], KILN_E_IO);
    }
}

/* A bit is flipped somewhere in the answers: at most the keys from there on are misses. */
static void test_flips_everywhere(void **state)
{
    (void)state;
    enum { FEW = 6 };
    kiln_status statuses[COUNT];
    put_even();
    for (size_t after = 0; after < 4200; after += 53) {
        open_at(proxy.port);
        fault_proxy_set(&proxy, FAULT_FLIP, after, "");
        get_first(FEW, statuses); /* checks each entry */
        for (size_t i = 1; i < FEW; i += 2) {
            assert_true(statuses[i] != KILN_OK);
        }
    }
    fault_proxy_set(&proxy, FAULT_NONE, 0, "");
}

/* Values that nobody can use, and that exceed what one round trip is allowed to transfer. */
static void test_values_that_are_too_large(void **state)
{
    (void)state;
    kiln_status statuses[COUNT];
    put_even();
    for (uint64_t i = 1; i < 16; i += 4) {
        say_of("SETRANGE", i, " 9000000 x");      /* more than a batch */
        say_of("SETRANGE", i + 2, " 17000000 x"); /* more than an entry */
    }
    assert_int_equal(get_first(16, statuses), 8);
    for (size_t i = 0; i < 16; i++) {
        assert_int_equal(statuses[i], i % 2 == 0   ? KILN_OK
                                      : i % 4 == 1 ? KILN_E_CORRUPT
                                                   : KILN_MISS);
    }
}

typedef struct large_visit {
    size_t visited;
    unsigned long gets; /* how many the server had answered at the first visit */
} large_visit;

static void visit_large(void *user, size_t index, kiln_status status, const kiln_entry *entry)
{
    large_visit *visit = user;
    assert_int_equal(status, KILN_OK);
    assert_true(scratch_entry_is(entry, index));
    if (visit->visited++ == 0) {
        visit->gets = count_gets();
    }
}

/* If the entries of a batch need too much memory together, they are not all in memory at once. */
static void test_large_entries_are_visited_as_they_arrive(void **state)
{
    (void)state;
    large_visit visit = {.visited = 0};
    kiln_digest digests[COUNT];
    for (uint64_t i = 0; i < COUNT; i++) {
        assert_int_equal(scratch_put(store, i, 1 << 20), KILN_OK);
        digests[i] = kiln_key_digest(keys[i]);
    }
    kilni_store_read_digests(store, digests, COUNT, visit_large, &visit);
    assert_int_equal(visit.visited, COUNT);
    assert_true(count_gets() >= visit.gets + COUNT / 2);
}

/* ---- a server that answers in a different order ---- */

enum { SWAPPED = 5 };

typedef struct swapping_server {
    int listener;
    unsigned port;
    pthread_t thread;
    kilni_remote_bytes values[SWAPPED];
    size_t order[SWAPPED]; /* the place in the answers → the value */
} swapping_server;

/* Reads commands until all GETs of the batch have arrived. If the client waited for the first
 * answer, this function would wait, too. */
static bool read_gets(int client, char *text, size_t size)
{
    size_t length = 0, gets = 0;
    while (gets < SWAPPED) {
        const ssize_t count = read(client, text + length, size - 1 - length);
        if (count <= 0) {
            return false;
        }
        length += (size_t)count;
        text[length] = '\0';
        gets = 0;
        for (const char *at = strstr(text, "GET\r\n"); at; at = strstr(at + 1, "GET\r\n")) {
            gets += strstr(at, "}\r\n") != NULL;
        }
    }
    return true;
}

static void *serve_swapped(void *argument)
{
    const swapping_server *self = argument;
    char text[8192];
    const int client = accept4(self->listener, NULL, NULL, SOCK_CLOEXEC);
    /* Clients may greet the server first. */
    bool is_well = client >= 0 && read_gets(client, text, sizeof text);
    for (size_t i = 0; i < SWAPPED && is_well; i++) {
        const kilni_remote_bytes *value = &self->values[self->order[i]];
        char head[32];
        const int length = snprintf(head, sizeof head, "$%zu\r\n", value->size);
        is_well = fault_write(client, head, (size_t)length) &&
                  fault_write(client, (const char *)value->data, value->size) &&
                  fault_write(client, "\r\n", 2);
    }
    while (is_well && read(client, text, sizeof text) > 0) {
    }
    close(client);
    return NULL;
}

static void start_swapping(swapping_server *self)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    self->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(self->listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(self->listener, 5), 0);
    assert_int_equal(getsockname(self->listener, (struct sockaddr *)&address, &size), 0);
    self->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&self->thread, NULL, serve_swapped, self), 0);
}

static void stop_swapping(swapping_server *self)
{
    kiln_store_close(&store); /* so that the thread reads the end */
    pthread_join(self->thread, NULL);
    close(self->listener);
}

static void expect_refused(swapping_server *swapping)
{
    kiln_status statuses[COUNT];
    start_swapping(swapping);
    open_at(swapping->port);
    get_first(SWAPPED, statuses);
    for (size_t i = 0; i < SWAPPED; i++) {
        assert_int_equal(statuses[i], swapping->order[i] == i ? KILN_OK : KILN_E_CORRUPT);
    }
    stop_swapping(swapping);
}

/* Every order of the answers. */
static void permute(swapping_server *swapping, size_t from)
{
    if (from == SWAPPED) {
        expect_refused(swapping);
        return;
    }
    for (size_t i = from; i < SWAPPED; i++) {
        const size_t first = swapping->order[from];
        swapping->order[from] = swapping->order[i];
        swapping->order[i] = first;
        permute(swapping, from + 1);
        swapping->order[i] = swapping->order[from];
        swapping->order[from] = first;
    }
}

static kilni_remote *connect_directly(void)
{
    const kilni_remote_server described = {.host = "127.0.0.1", .port = (uint16_t)server.port};
    kilni_remote *remote = NULL;
    assert_int_equal(kiln_remote_connector.open(&described, &remote, NULL), KILN_OK);
    return remote;
}

static uint64_t in_a_while(void)
{
    return kilni_clock_ns() + UINT64_C(30000000000);
}

static void test_swapped_answers(void **state)
{
    (void)state;
    swapping_server swapping = {.listener = -1};
    kilni_remote *remote = connect_directly();
    for (size_t i = 0; i < SWAPPED; i++) {
        assert_int_equal(scratch_put(store, i, 100 * i), KILN_OK);
        assert_int_equal(kiln_remote_connector.get(remote, name_of(i), 1 << 20, in_a_while(),
                                                   &swapping.values[i]),
                         KILN_OK);
        swapping.order[i] = i;
    }
    kiln_remote_connector.close(remote);
    permute(&swapping, 0);
    for (size_t i = 0; i < SWAPPED; i++) {
        free(swapping.values[i].data);
    }
}

/* ---- lack of memory ---- */

enum { FEW = 4 };

static char names[FEW][64];

static void ask_few(kilni_remote *remote, kilni_remote_question *questions)
{
    for (size_t i = 0; i < FEW; i++) {
        questions[i] = (kilni_remote_question){.name = names[i], .max_bytes = 10000};
    }
    kiln_remote_connector.ask_many(remote, questions, FEW, in_a_while());
}

/* Also in the I/O thread, which this program shares with the connector. */
static void test_the_connector_without_memory(void **state)
{
    (void)state;
    kilni_remote *remote = connect_directly();
    kilni_remote_question questions[FEW];
    put_even();
    for (size_t i = 0; i < FEW; i++) {
        snprintf(names[i], sizeof names[i], "%s", name_of(i));
    }
    ask_few(remote, questions);
    for (size_t n = 1;; n++) {
        for (size_t i = 0; i < FEW; i++) {
            free(questions[i].bytes.data);
        }
        failing_malloc_arm(n);
        ask_few(remote, questions);
        const bool is_over = failing_malloc_disarm() < n;
        for (size_t i = 0; i < FEW; i++) {
            const kiln_status expected = i % 2 == 0 ? KILN_OK : KILN_MISS;
            const kiln_status status = questions[i].status;
            assert_int_equal(questions[i].bytes.data != NULL, status == KILN_OK);
            assert_true(status == expected || (!is_over && status == KILN_E_NO_MEMORY));
        }
        if (is_over) {
            break;
        }
    }
    for (size_t i = 0; i < FEW; i++) {
        free(questions[i].bytes.data);
    }
    kiln_remote_connector.close(remote);
}

static void test_the_store_without_memory(void **state)
{
    (void)state;
    kiln_status statuses[COUNT];
    put_even();
    for (size_t n = 1;; n++) {
        char name[24];
        snprintf(name, sizeof name, "n%zu", n);
        open_chain(name, server.port);
        assert_int_equal(scratch_get(store, 60), KILN_OK); /* the connection is open */
        kiln_entry *entries[FEW];
        failing_malloc_arm(n);
        kiln_store_get_many(store, all_keys(), FEW, entries, statuses);
        const bool is_over = failing_malloc_disarm() < n;
        for (size_t i = 0; i < FEW; i++) {
            const kiln_status expected = i % 2 == 0 ? KILN_OK : KILN_MISS;
            assert_int_equal(entries[i] != NULL, statuses[i] == KILN_OK);
            assert_true(statuses[i] == expected || (!is_over && statuses[i] == KILN_E_NO_MEMORY));
            assert_true(!entries[i] || scratch_entry_is(entries[i], i));
            kiln_entry_release(&entries[i]);
        }
        if (is_over) {
            break;
        }
    }
}

/* ---- threads ---- */

static void *get_again_and_again(void *argument)
{
    uintptr_t wrong = 0;
    (void)argument;
    for (unsigned i = 0; i < 20; i++) {
        kiln_entry *entries[COUNT];
        kiln_store_get_many(store, all_keys(), COUNT, entries, NULL);
        for (size_t j = 0; j < COUNT; j++) {
            wrong += entries[j] && !scratch_entry_is(entries[j], j);
            kiln_entry_release(&entries[j]);
        }
    }
    return (void *)wrong; /* NOLINT */
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[4];
    put_even();
    open_chain("threads", server.port);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, get_again_and_again, NULL), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        void *wrong = NULL;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_round_trip, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_presence_in_one_round_trip, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_misses_are_remembered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_chain_asks_for_the_rest, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_copy_of_what_exists, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_copy_of_what_is_missing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_only_wanted_entries_are_asked_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_copy_to_a_dead_server_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_server_that_fails, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_dead_server, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_flips_everywhere, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_values_that_are_too_large, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_large_entries_are_visited_as_they_arrive, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_swapped_answers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_connector_without_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_store_without_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_threads, set_up, tear_down),
    };
    if (count != 2) {
        return 2;
    }
    redis_require();
    kilni_remote_set_library(arguments[1]);
    kilni_remote_set_runtime_folder("/nonexistent");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
