/* SPDX-License-Identifier: Apache-2.0
 *
 * A journal: its records survive any texts, what is not a record is skipped and counted, its size
 * is bounded, only its owner can read it, and a journal that cannot be written is in nobody's way.
 */
#include "support/cache_scene.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include <kiln/journal.h>

#include "os/os.h"
#include "store/journal_file.h"
#include "store/journal_record.h"
#include "store/store.h"
#include "store/writer.h"

#define FOREVER_NS UINT64_MAX

static char journal_path[SCRATCH_DIRECTORY_SIZE + 16];
static char old_path[SCRATCH_DIRECTORY_SIZE + 24];
static kiln_store *store;

static int set_up(void **state)
{
    cache_set_up(state);
    const kiln_store_params params = {.struct_size = sizeof params, .flags = KILN_STORE_JOURNAL};
    snprintf(journal_path, sizeof journal_path, "%s/journal", cache);
    snprintf(old_path, sizeof old_path, "%s.old", journal_path);
    return kiln_store_open(cache, &params, &store, NULL) == KILN_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    kilni_os_replace(NULL);
    kiln_store_close(&store);
    return cache_tear_down(state);
}

/* ---- what a walk finds ---- */

typedef struct found {
    unsigned events;
    uint64_t sum; /* of the events' load_ns */
    kiln_journal_event last;
    char program[1024], device[1024], name[1024];
    kiln_journal_report report;
} found;

static int take(void *user, const kiln_journal_event *event)
{
    found *f = user;
    f->events++;
    f->sum += event->load_ns;
    f->last = *event;
    snprintf(f->program, sizeof f->program, "%s", event->program);
    snprintf(f->device, sizeof f->device, "%s", event->device);
    snprintf(f->name, sizeof f->name, "%s", event->name);
    return 0;
}

static kiln_status walk(found *ret_found)
{
    *ret_found = (found){.report.struct_size = sizeof ret_found->report};
    return kiln_store_each_journal_event(store, take, ret_found, &ret_found->report);
}

static void expect(unsigned events, unsigned damaged, unsigned newer)
{
    found f;
    assert_int_equal(walk(&f), KILN_OK);
    assert_int_equal(f.events, events);
    assert_int_equal(f.report.events, events);
    assert_int_equal(f.report.damaged, damaged);
    assert_int_equal(f.report.newer, newer);
}

static kiln_journal_event event_of(uint64_t number)
{
    return (kiln_journal_event){.kind = KILN_JOURNAL_HIT,
                                .count = 1,
                                .digest.bytes = {1, 2, 3},
                                .load_ns = number,
                                .program = "a program",
                                .device = "a device",
                                .name = "a name"};
}

static void append(const kiln_journal_event *event)
{
    unsigned char record[KILNI_JOURNAL_RECORD_MAX];
    const size_t size = kilni_journal_encode(event, record);
    assert_int_equal(kilni_store_append_to_journal(store, record, size), KILN_OK);
}

static void append_number(uint64_t number)
{
    const kiln_journal_event event = event_of(number);
    append(&event);
}

static void append_bytes(const void *bytes, size_t size)
{
    const int file = open(journal_path, O_WRONLY | O_APPEND | O_CREAT, 0600);
    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, size), size);
    close(file);
}

/* ---- records ---- */

static void test_an_event_comes_back(void **state)
{
    (void)state;
    found f;
    assert_int_equal(walk(&f), KILN_MISS);
    const kiln_journal_event event = {
        .kind = KILN_JOURNAL_BUILD,
        .pid = 4711,
        .count = 1,
        .digest.bytes = {9, 8, 7},
        .time_ns = INT64_C(1700000000123456789),
        .build_ns = 1,
        .load_ns = 2,
        .wait_ns = 3,
        .saved_ns = UINT64_MAX,
        .store = KILN_E_CORRUPT,
        .kept = KILN_E_FULL,
        .program = "<b>\xff\n\"",
        .device = "",
        .name = "\xf1KJ1",
    };
    append(&event);
    assert_int_equal(walk(&f), KILN_OK);
    assert_int_equal(f.events, 1);
    assert_int_equal(f.last.kind, event.kind);
    assert_int_equal(f.last.pid, event.pid);
    assert_int_equal(f.last.count, 1);
    assert_memory_equal(&f.last.digest, &event.digest, sizeof event.digest);
    assert_true(f.last.time_ns == event.time_ns);
    assert_int_equal(f.last.build_ns, 1);
    assert_int_equal(f.last.load_ns, 2);
    assert_int_equal(f.last.wait_ns, 3);
    assert_true(f.last.saved_ns == UINT64_MAX);
    assert_int_equal(f.last.store, KILN_E_CORRUPT);
    assert_int_equal(f.last.kept, KILN_E_FULL);
    assert_string_equal(f.program, event.program);
    assert_string_equal(f.device, "");
    assert_string_equal(f.name, event.name);
}

static void test_long_texts_are_truncated(void **state)
{
    (void)state;
    char text[5000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    kiln_journal_event event = event_of(1);
    event.program = event.device = event.name = text;
    unsigned char record[KILNI_JOURNAL_RECORD_MAX];
    assert_true(kilni_journal_encode(&event, record) <= sizeof record);
    append(&event);
    found f;
    assert_int_equal(walk(&f), KILN_OK);
    assert_int_equal(strlen(f.name), 280);
    assert_int_equal(strspn(f.name, "x"), 280);
}

/* ---- what is not a record ---- */

static void test_torn_and_foreign_bytes_are_skipped(void **state)
{
    (void)state;
    unsigned char record[KILNI_JOURNAL_RECORD_MAX];
    const kiln_journal_event event = event_of(5);
    const size_t size = kilni_journal_encode(&event, record);
    append_bytes("hello\xf1\xf1KJ1 not a record", 24);
    append_number(1);
    append_bytes(record, size - 1);
    append_number(2);
    append_bytes(record, 3);
    append_number(3);
    record[40] ^= 1;
    append_bytes(record, size);
    append_number(4);
    append_bytes(record, 7);
    expect(4, 5, 0);
}

static void test_each_cut_costs_one_event(void **state)
{
    (void)state;
    unsigned char record[KILNI_JOURNAL_RECORD_MAX];
    const kiln_journal_event event = event_of(5);
    const size_t size = kilni_journal_encode(&event, record);
    for (size_t cut = 1; cut < size; cut++) {
        unlink(journal_path);
        append_number(1);
        append_bytes(record, cut);
        append_number(2);
        expect(2, 1, 0);
    }
}

static void test_newer_records_are_counted(void **state)
{
    (void)state;
    unsigned char record[KILNI_JOURNAL_RECORD_MAX];
    const kiln_journal_event event = event_of(5);
    size_t size = kilni_journal_encode(&event, record);
    record[6] = 2;
    const uint64_t checksum = kilni_checksum(record, size - 8);
    for (size_t i = 0; i < 8; i++) {
        record[size - 8 + i] = (unsigned char)(checksum >> (8 * i));
    }
    append_number(1);
    append_bytes(record, size);
    append_number(2);
    expect(2, 0, 1);
}

static int end_walk(void *user, const kiln_journal_event *event)
{
    (void)event;
    return ++*(int *)user == 2;
}

static void test_a_visitor_ends_the_walk(void **state)
{
    (void)state;
    int visited = 0;
    for (uint64_t i = 0; i < 5; i++) {
        append_number(i);
    }
    assert_int_equal(kiln_store_each_journal_event(store, end_walk, &visited, NULL), KILN_OK);
    assert_int_equal(visited, 2);
    assert_int_equal(kiln_store_each_journal_event(store, NULL, NULL, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_store_each_journal_event(NULL, end_walk, &visited, NULL), KILN_MISS);
    assert_int_equal(kiln_journal_read_file("relative", end_walk, &visited, NULL), KILN_E_INVALID);
    visited = 0;
    assert_int_equal(kiln_journal_read_file(journal_path, end_walk, &visited, NULL), KILN_OK);
    assert_int_equal(visited, 2);
}

/* ---- several processes, and the size ---- */

#define PROCESSES 6
#define EVENTS_EACH 3000

static void test_processes_append_at_once(void **state)
{
    (void)state;
    for (int i = 0; i < PROCESSES; i++) {
        if (fork() == 0) {
            for (unsigned number = 0; number < EVENTS_EACH; number++) {
                append_number(1);
            }
            _exit(0);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    expect(PROCESSES * EVENTS_EACH, 0, 0);
}

static off_t size_of(const char *path)
{
    struct stat stat;
    return lstat(path, &stat) == 0 ? stat.st_size : -1;
}

/* Appends about this many bytes, in writes of many records. */
static void append_much(uint64_t bytes)
{
    static unsigned char records[KILNI_JOURNAL_RECORD_MAX * 64];
    const kiln_journal_event event = event_of(1);
    size_t size = 0;
    for (int i = 0; i < 64; i++) {
        size += kilni_journal_encode(&event, records + size);
    }
    for (uint64_t done = 0; done < bytes; done += size) {
        assert_int_equal(kilni_store_append_to_journal(store, records, size), KILN_OK);
    }
}

static void test_the_size_is_bounded(void **state)
{
    (void)state;
    append_number(7);
    for (int i = 0; i < 2; i++) {
        if (fork() == 0) {
            append_much(2 * KILNI_JOURNAL_FILE_BYTES);
            _exit(0);
        }
    }
    for (int i = 0; i < 2; i++) {
        int status;
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    append_number(8);
    const off_t most = (off_t)KILNI_JOURNAL_FILE_BYTES + (1 << 20);
    assert_in_range(size_of(journal_path), 1, most);
    assert_in_range(size_of(old_path), KILNI_JOURNAL_FILE_BYTES, most);
    found f;
    assert_int_equal(walk(&f), KILN_OK);
    assert_int_equal(f.report.damaged, 0);
    assert_int_equal(f.report.bytes, size_of(journal_path) + size_of(old_path));
    assert_int_equal(f.last.load_ns, 8);
    assert_int_equal(f.sum, f.events - 1 + 8); /* the first event, with a 7, is no longer there */
}

/* ---- privacy ---- */

static void test_only_the_owner_can_read_it(void **state)
{
    (void)state;
    found f;
    struct stat stat;
    const mode_t before = umask(0);
    append_number(1);
    umask(before);
    assert_int_equal(lstat(journal_path, &stat), 0);
    assert_int_equal(stat.st_mode & 07777, 0600);

    unsigned char record[KILNI_JOURNAL_RECORD_MAX];
    const kiln_journal_event event = event_of(2);
    const size_t size = kilni_journal_encode(&event, record);
    chmod(journal_path, 0644);
    assert_int_equal(kilni_store_append_to_journal(store, record, size), KILN_E_DENIED);
    assert_int_equal(walk(&f), KILN_E_DENIED);
    chmod(journal_path, 0600);
    expect(1, 0, 0);

    char elsewhere[SCRATCH_DIRECTORY_SIZE + 16];
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", scratch);
    assert_int_equal(rename(journal_path, elsewhere), 0);
    assert_int_equal(symlink(elsewhere, journal_path), 0);
    const off_t before_size = size_of(elsewhere);
    assert_int_equal(kilni_store_append_to_journal(store, record, size), KILN_E_DENIED);
    assert_int_equal(walk(&f), KILN_E_DENIED);
    assert_int_equal(size_of(elsewhere), before_size);
}

static void expect_no_journal(const char *location, uint32_t flags)
{
    kiln_store *other = NULL;
    const kiln_store_params params = {.struct_size = sizeof params, .flags = flags};
    assert_int_equal(kiln_store_open(location, &params, &other, NULL), KILN_OK);
    kilni_writer *writer = NULL;
    assert_int_equal(kilni_writer_new(other, 1000, &writer), KILN_OK);
    const kiln_journal_event event = event_of(1);
    kilni_writer_note(writer, &event);
    kilni_writer_free(&writer, FOREVER_NS);
    kiln_store_close(&other);
    assert_int_equal(size_of(journal_path), -1);
}

static void test_nothing_is_kept_unless_requested(void **state)
{
    (void)state;
    expect_no_journal(cache, 0);
    expect_no_journal(cache, KILN_STORE_JOURNAL | KILN_STORE_READONLY);
}

/* ---- a journal that cannot be written ---- */

static _Atomic unsigned writes;

static ssize_t full_write(int file, const void *buffer, size_t size)
{
    (void)file, (void)buffer, (void)size;
    writes++;
    errno = ENOSPC;
    return -1;
}

static ssize_t short_write(int file, const void *buffer, size_t size)
{
    writes++;
    return kilni_os_system()->write(file, buffer, size - 5);
}

static void test_a_journal_that_fails_is_not_tried_again(void **state)
{
    (void)state;
    kilni_os_table table = *kilni_os_system();
    for (int is_short = 0; is_short < 2; is_short++) {
        kilni_writer *writer = NULL;
        assert_int_equal(kilni_writer_new(store, 1000, &writer), KILN_OK);
        table.write = is_short ? short_write : full_write;
        kilni_os_replace(&table);
        writes = 0;
        for (uint64_t i = 0; i < 5000; i++) {
            const kiln_journal_event event = event_of(i);
            kilni_writer_note(writer, &event);
        }
        assert_int_equal(kilni_writer_drain(writer, FOREVER_NS), KILN_OK);
        kilni_os_replace(NULL);
        assert_int_equal(writes, 1);
        const kiln_journal_event event = event_of(1);
        kilni_writer_note(writer, &event);
        kilni_writer_free(&writer, FOREVER_NS);
    }
    found f;
    assert_int_equal(walk(&f), KILN_OK);
    assert_int_equal(f.report.damaged, 1);
    assert_true(f.events > 0);
}

/* ---- the writer ---- */

static void test_the_writer_fills_in_the_rest(void **state)
{
    (void)state;
    char record_path[SCRATCH_DIRECTORY_SIZE + 16];
    snprintf(record_path, sizeof record_path, "%s/record", scratch);
    kilni_writer *writer = NULL;
    assert_int_equal(kilni_writer_new(store, 1000, &writer), KILN_OK);
    assert_int_equal(kilni_writer_set_record_file(writer, record_path), KILN_OK);
    kiln_journal_event event = event_of(3);
    event.saved_ns = 100;
    kilni_writer_note(writer, &event);
    const kiln_stats counted = {.hits_memory = 4, .hits_store = 1, .saved_ns = 130};
    kilni_writer_count(writer, &counted);
    assert_int_equal(kilni_writer_drain(writer, FOREVER_NS), KILN_OK);
    for (int i = 0; i < 2; i++) {
        found f = {.report.struct_size = sizeof f.report};
        assert_int_equal(
            i == 0 ? walk(&f) : kiln_journal_read_file(record_path, take, &f, &f.report), KILN_OK);
        assert_int_equal(f.events, 2);
        assert_int_equal(f.last.kind, KILN_JOURNAL_MEMORY_HITS);
        assert_int_equal(f.last.count, 4);
        assert_int_equal(f.last.saved_ns, 30);
        assert_int_equal(f.last.pid, getpid());
        assert_true(f.last.time_ns > 0);
        assert_string_equal(f.program, "test_journal");
    }
    kilni_writer_free(&writer, FOREVER_NS);
    expect(2, 0, 0);
}

/* More events than the writer holds are written without a drain, and none are lost. */
static void test_many_events(void **state)
{
    (void)state;
    kilni_writer *writer = NULL;
    assert_int_equal(kilni_writer_new(store, 1000, &writer), KILN_OK);
    for (uint64_t i = 0; i < 5000; i++) {
        const kiln_journal_event event = event_of(1);
        kilni_writer_note(writer, &event);
    }
    found f;
    assert_int_equal(walk(&f), KILN_OK);
    assert_true(f.events > 4000);
    kilni_writer_free(&writer, FOREVER_NS);
    expect(5000, 0, 0);
}

/* A child writes nothing that its parent has noted. */
static void test_a_forked_child_writes_nothing(void **state)
{
    (void)state;
    kilni_writer *writer = NULL;
    assert_int_equal(kilni_writer_new(store, 1000, &writer), KILN_OK);
    const kiln_journal_event event = event_of(1);
    kilni_writer_note(writer, &event);
    const pid_t child = fork();
    if (child == 0) {
        kilni_writer_note(writer, &event);
        kilni_writer_free(&writer, FOREVER_NS);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    kilni_writer_free(&writer, FOREVER_NS);
    expect(1, 0, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_an_event_comes_back),
        TEST(test_long_texts_are_truncated),
        TEST(test_torn_and_foreign_bytes_are_skipped),
        TEST(test_each_cut_costs_one_event),
        TEST(test_newer_records_are_counted),
        TEST(test_a_visitor_ends_the_walk),
        TEST(test_processes_append_at_once),
        TEST(test_the_size_is_bounded),
        TEST(test_only_the_owner_can_read_it),
        TEST(test_nothing_is_kept_unless_requested),
        TEST(test_a_journal_that_fails_is_not_tried_again),
        TEST(test_the_writer_fills_in_the_rest),
        TEST(test_many_events),
        TEST(test_a_forked_child_writes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
