/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of requests share: the environment of a request, its caller, and functions that
 * wait for other threads.
 */
#pragma once

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/os.h"
#include "program/request.h"
#include "support/scripted_device.h"
#include "support/store_scene.h"

#define DRAIN_NS UINT64_C(60000000000)

/* ---- the environment of requests: one process, or one context of a process ---- */

typedef struct environment {
    scripted_device *device;
    kilni_ending ending;
    kiln_cache *memory;
    kiln_store *store;
    kilni_writer *writer;
    kilni_request_context context;
} environment;

static inline void destroy_program(void *user, void *program)
{
    scripted_release(user, program);
}

/* Returns NULL if something failed. If @directory is NULL, the environment has no store. */
static inline bool open_environment(environment *at, scripted_device *device, kilni_ending ending,
                                    const char *directory, uint32_t flags)
{
    const kiln_cache_params memory = {
        .struct_size = sizeof memory,
        .destroy = ending == KILNI_KEEP_ENTRIES ? kilni_request_destroy_entry : destroy_program,
        .user = device,
    };
    const kiln_store_params params = {.struct_size = sizeof params, .flags = flags};
    *at = (environment){.device = device, .ending = ending};
    if (kiln_cache_new(&memory, &at->memory) != KILN_OK ||
        (directory && kiln_store_open(directory, &params, &at->store, NULL) != KILN_OK) ||
        kilni_writer_new(at->store, UINT64_C(1) << 20, &at->writer) != KILN_OK) {
        return false;
    }
    at->context =
        (kilni_request_context){.memory = at->memory, .store = at->store, .writer = at->writer};
    return true;
}

static inline void close_environment(environment *at)
{
    kilni_writer_free(&at->writer, DRAIN_NS);
    kiln_store_close(&at->store);
    kiln_cache_free(&at->memory);
}

/* Discards everything that the environment has in memory, as if a new process began. */
static inline void open_again(environment *at, const char *directory)
{
    close_environment(at);
    assert_true(open_environment(at, at->device, at->ending, directory, 0));
}

static inline kiln_store_stat stat_of(const environment *at)
{
    assert_int_equal(kilni_writer_drain(at->writer, DRAIN_NS), KILN_OK);
    kiln_store_stat stat = {.struct_size = sizeof stat};
    assert_int_equal(kiln_store_get_stat(at->store, 0, &stat), KILN_OK);
    return stat;
}

/* Checks all totals of a store except times. */
static inline void assert_totals(const environment *at, kiln_stats expected)
{
    const kiln_stats totals = stat_of(at).totals;
    expected.build_ns = totals.build_ns;
    expected.saved_ns = totals.saved_ns;
#define COMPARE(name, meaning)                                                                     \
    if (totals.name != expected.name) {                                                            \
        print_error("counter " #name ": ");                                                        \
    }                                                                                              \
    assert_int_equal(totals.name, expected.name);
    KILN_STATS_LIST(COMPARE)
#undef COMPARE
    assert_true((totals.build_ns > 0) == (totals.builds > 0));
}

/* ---- a caller ---- */

typedef struct caller {
    const environment *at;
    const kilni_request_ops *ops; /* NULL: all devices */
    const kiln_key *keys[KILNI_REQUEST_KEYS_MAX + 1];
    size_t key_count;
    bool wants_no_error; /* passes NULL for the error */

    bool was_merged;           /* the capture was given the entry that it replaces */
    scripted_program *program; /* belongs to this caller */
    kiln_status status;
    kilni_request_result result;
    kiln_error error;
} caller;

static inline uint64_t value_of_key(const kiln_key *key)
{
    const kiln_digest digest = kiln_key_digest(key);
    return scripted_value(0, digest.bytes, sizeof digest.bytes);
}

static inline uint64_t value_of_program(const caller *c)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < c->key_count; i++) {
        const uint64_t value = value_of_key(c->keys[i]);
        sum = scripted_value(sum, &value, sizeof value);
    }
    return sum;
}

static inline kiln_status load(void *user, const kiln_entry *const *entries)
{
    caller *c = user;
    for (size_t i = 0; i < c->key_count; i++) {
        if (scripted_read(kiln_entry_payload(entries[i])) != value_of_key(c->keys[i])) {
            atomic_fetch_add(&c->at->device->wrong, 1);
        }
    }
    return scripted_load(c->at->device, value_of_program(c), &c->program);
}

static inline kiln_status build(void *user, kiln_error *error)
{
    caller *c = user;
    const kiln_status status = scripted_build(c->at->device, value_of_program(c), &c->program);
    if (status != KILN_OK && error && c->at->device->build_text) {
        error->status = status;
        snprintf(error->text, sizeof error->text, "%s", c->at->device->build_text);
    }
    return status;
}

static inline kiln_status capture(void *user, size_t index, uint64_t build_ns,
                                  const kiln_entry *replaced, kiln_entry **ret_entry)
{
    caller *c = user;
    c->was_merged = replaced != NULL;
    kiln_capture taken = {0};
    kiln_status status = scripted_capture(c->at->device, value_of_key(c->keys[index]), &taken);
    if (status != KILN_OK) {
        return status;
    }
    const kiln_entry_params params = {
        .struct_size = sizeof params,
        .key = c->keys[index],
        .kind = KILN_ENTRY_PROGRAM,
        .provenance = {.struct_size = sizeof params.provenance, .build_ns = build_ns},
        .payload = {taken.payload, taken.payload_size},
    };
    status = kiln_entry_new(&params, ret_entry);
    free(taken.payload);
    return status;
}

static inline void *take_program(void *user, uint64_t *ret_bytes)
{
    caller *c = user;
    scripted_program *program = c->program;
    c->program = NULL;
    *ret_bytes = 1000;
    return program;
}

static const kilni_request_ops all_ops = {
    .load = load, .build = build, .capture = capture, .take_program = take_program};
static const kilni_request_ops ops_without_capture = {
    .load = load, .build = build, .take_program = take_program};

/* Makes the request. May run on any thread. */
static inline void *run(void *user)
{
    caller *c = user;
    const kilni_request request = {
        .ending = c->at->ending,
        .keys = c->keys,
        .key_count = c->key_count,
        .ops = c->ops ? c->ops : &all_ops,
        .user = c,
    };
    c->error = (kiln_error){.struct_size = sizeof c->error};
    c->status = kilni_request_run(&c->at->context, &request, &c->result,
                                  c->wants_no_error ? NULL : &c->error);
    return NULL;
}

static inline const scripted_program *program_of(const caller *c)
{
    return c->result.pin ? kiln_pin_object(c->result.pin) : c->program;
}

/* Releases what the caller received. */
static inline void leave(caller *c)
{
    kiln_pin_release(&c->result.pin);
    if (c->program) {
        scripted_release(c->at->device, c->program);
        c->program = NULL;
    }
}

static inline void assert_got(caller *c, kilni_source source)
{
    assert_int_equal(c->status, KILN_OK);
    assert_int_equal(c->result.source, source);
    assert_non_null(program_of(c));
    assert_int_equal(program_of(c)->value, value_of_program(c));
}

/* Makes a request for up to two keys, which must succeed with this source. */
static inline kilni_request_result request(const environment *at, const kiln_key *first,
                                           const kiln_key *second, kilni_source source)
{
    caller c = {.at = at, .keys = {first, second}, .key_count = second ? 2 : 1};
    run(&c);
    assert_got(&c, source);
    kilni_request_result result = c.result;
    leave(&c);
    return result;
}

/* ---- for every test ---- */

typedef struct fixture {
    char directory[SCRATCH_DIRECTORY_SIZE];
    scripted_device device;
    kiln_key *a, *b;
} fixture;

static inline kiln_key *make_key(const char *text, uint64_t number)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
    assert_int_equal(kiln_key_builder_add_text(builder, "source", text), KILN_OK);
    assert_int_equal(kiln_key_builder_add_number(builder, "number", number), KILN_OK);
    assert_int_equal(kiln_key_builder_finish(builder, &key), KILN_OK);
    kiln_key_builder_free(&builder);
    return key;
}

static inline int set_up(void **state)
{
    fixture *f = test_calloc(1, sizeof *f);
    f->a = make_key("a", 0);
    f->b = make_key("b", 0);
    scratch_make(f->directory);
    *state = f;
    return 0;
}

static inline int tear_down(void **state)
{
    fixture *f = *state;
    const bool is_clean =
        atomic_load(&f->device.live_programs) == 0 && atomic_load(&f->device.wrong) == 0;
    if (!is_clean) {
        print_error("%d programs not released, %d wrong binaries loaded\n",
                    atomic_load(&f->device.live_programs), atomic_load(&f->device.wrong));
    }
    kilni_os_replace(NULL);
    kiln_key_release(&f->a);
    kiln_key_release(&f->b);
    scratch_remove(f->directory);
    test_free(f);
    return is_clean ? 0 : -1;
}

static inline environment enter(fixture *f, kilni_ending ending)
{
    environment at;
    assert_true(open_environment(&at, &f->device, ending, f->directory, 0));
    return at;
}

static inline void assert_calls(const fixture *f, int builds, int captures, int loads)
{
    assert_int_equal(atomic_load(&f->device.build.count), builds);
    assert_int_equal(atomic_load(&f->device.capture.count), captures);
    assert_int_equal(atomic_load(&f->device.load.count), loads);
}

/* Writes the path of an entry in the test's layout to @path. */
static inline void entry_path(const fixture *f, const kiln_key *key, char path[SCRATCH_PATH_SIZE])
{
    char text[KILN_DIGEST_TEXT_SIZE];
    const kiln_digest digest = kiln_key_digest(key);
    kiln_digest_format(&digest, text);
    snprintf(path, SCRATCH_PATH_SIZE, "%s/v1/%.2s/%s", f->directory, text, text);
}

/* Flips bits of one byte of a file; a negative offset counts from the file's end. */
static inline void flip(const char *path, off_t place, unsigned char bits)
{
    const int file = open(path, O_RDWR | O_CLOEXEC);
    assert_true(file >= 0);
    unsigned char byte;
    assert_true(lseek(file, place, place < 0 ? SEEK_END : SEEK_SET) >= 0);
    assert_int_equal(read(file, &byte, 1), 1);
    byte ^= bits;
    assert_true(lseek(file, -1, SEEK_CUR) >= 0);
    assert_int_equal(write(file, &byte, 1), 1);
    close(file);
}

/* ---- waiting for other threads and processes ---- */

static inline void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* Fails after a few minutes, so that a test does not hang. */
static inline bool await(const atomic_int *count, int wanted)
{
    for (int i = 0; i < 120000; i++) {
        if (atomic_load(count) >= wanted) {
            return true;
        }
        nap();
    }
    return false;
}

static inline bool await_waiters(kiln_cache *memory, uint64_t wanted)
{
    for (int i = 0; i < 120000; i++) {
        kiln_cache_stats stats = {.struct_size = sizeof stats};
        kiln_cache_get_stats(memory, &stats);
        if (stats.waits >= wanted) {
            return true;
        }
        nap();
    }
    return false;
}

/* What a build needs to look up the key of its own request. */
typedef struct presence {
    const environment *at;
    const kiln_key *key;
} presence;

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
