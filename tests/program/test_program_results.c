/* SPDX-License-Identifier: Apache-2.0
 *
 * The results of obtaining programs, kernels and blobs, including after failures along the way, and
 * with device ops that break their contract.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>

#include "support/program_scene.h"
#include "support/store_scene.h"

static kiln_program_desc *describe_source(const program_scene *s, const char *text)
{
    kiln_program_desc_params params = image_of(text);
    params.form = KILN_SOURCE_TEXT;
    return describe(s, &params);
}

/* Describes a link of one program. @ret_input must be released too. */
static kiln_program_desc *describe_link(const program_scene *s, kiln_program_desc **ret_input)
{
    *ret_input = describe_image(s, "input");
    const kiln_program_desc *const inputs[] = {*ret_input};
    const kiln_program_desc_params params = {
        .struct_size = sizeof params, .linked = inputs, .linked_count = 1};
    return describe(s, &params);
}

/* Returns the blob's size. */
static size_t get_blob(const kiln_program *program, uint8_t *blob, size_t room)
{
    size_t size = room;
    assert_int_equal(kiln_program_get_cache_blob(program, &size, blob), KILN_OK);
    return size;
}

/* ---- blobs ---- */

static void forget_the_source(void *user)
{
    scripted_device *device = user;
    script(&device->describe, 1, KILN_E_UNSUPPORTED);
}

/* If a program's inputs have changed since its build, no blob is returned, because the blob's ID
 * would be wrong. All rules are tested. */
static void test_no_blob_of_what_changed_meanwhile(void **state)
{
    program_scene *s = *state;
    for (uint32_t rules = KILN_RULES_ALL; rules <= KILN_RULES_IMAGES; rules++) {
        s->params.rules = rules;
        program_scene_open(s);
        kiln_program_desc *desc = describe_source(s, "source");
        s->devices[0].while_building = forget_the_source;
        s->devices[0].user = &s->devices[0];
        kiln_program *program = get_from(desc, KILN_PROGRAM_FROM_PRIVATE_BUILD);
        s->devices[0].while_building = NULL;
        size_t size = 1;
        assert_int_equal(kiln_program_get_cache_blob(program, &size, NULL), KILN_E_UNSUPPORTED);
        assert_int_equal(size, 0);
        assert_int_equal(atomic_load(&s->devices[0].capture.count), 0);
        kiln_program_release(&program);
        kiln_program_desc_release(&desc);
        kiln_program_context_free(&s->context);
    }
}

/* The device asks for the blob of this program while it is making that very blob. */
static kiln_program *asked_again;

static kiln_status capture_and_ask(void *device, void *program, kiln_capture *ret_capture)
{
    kiln_program *asked = asked_again;
    asked_again = NULL;
    if (asked) {
        size_t size = 0;
        assert_int_equal(kiln_program_get_cache_blob(asked, &size, NULL), KILN_OK);
    }
    return scripted_expensive_ops.capture(device, program, ret_capture);
}

/* A device may take a long time to return a blob, or may call Kiln meanwhile, so no lock is
 * held. */
static void test_a_blob_is_taken_outside_locks(void **state)
{
    program_scene *s = *state;
    kiln_device_ops ops = scripted_expensive_ops;
    ops.capture = capture_and_ask;
    s->params.ops = &ops;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    kiln_program *program = asked_again = get_from(desc, KILN_PROGRAM_FROM_BUILD);
    const uint64_t bytes = program_stats(s).bytes;
    uint8_t blob[8192], again[8192];
    const size_t size = get_blob(program, blob, sizeof blob);
    assert_int_equal(atomic_load(&s->devices[0].capture.count), 2);
    assert_int_equal(get_blob(program, again, sizeof again), size);
    assert_memory_equal(blob, again, size);
    assert_int_equal(atomic_load(&s->devices[0].capture.count), 2);
    assert_int_equal(program_stats(s).bytes, bytes + size);
    kiln_program_release(&program);
    kiln_program_desc_release(&desc);
    kiln_program_context_free(&s->context);
}

/* A program that isn't kept has a blob too, and can be made from that blob. */
static void test_blob_of_what_is_not_kept(void **state)
{
    program_scene *s = *state;
    s->params.rules = KILN_RULES_IMAGES;
    program_scene_open(s);
    kiln_program_desc *desc = describe_source(s, "source");
    kiln_program *program = get_from(desc, KILN_PROGRAM_FROM_PRIVATE_BUILD);
    uint8_t blob[8192];
    const size_t size = get_blob(program, blob, sizeof blob);
    kiln_program_release(&program);
    kiln_program_result result = {.struct_size = sizeof result};
    assert_int_equal(kiln_program_create_from_cache_blob(desc, size, blob, &program, &result, NULL),
                     KILN_OK);
    assert_int_equal(result.from, KILN_PROGRAM_FROM_BLOB);
    assert_true(result.load_ns > 0);
    assert_int_equal(get_blob(program, NULL, 0), size);
    kiln_program_release(&program);
    kiln_program_desc_release(&desc);
}

/* If the device reports a limit as TOO_LARGE, this must not look as if the caller's buffer were too
 * small. */
static void test_unavailable_blob(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    kiln_program *program = get_from(desc, KILN_PROGRAM_FROM_BUILD);
    script(&s->devices[0].capture, 1, KILN_E_TOO_LARGE);
    size_t size = 1;
    assert_int_equal(kiln_program_get_cache_blob(program, &size, NULL), KILN_E_UNSUPPORTED);
    assert_int_equal(size, 0);
    assert_true(get_blob(program, NULL, 0) > 0);
    kiln_program_release(&program);
    kiln_program_desc_release(&desc);
}

/* A program made from a blob is removed with its image, like one that was built. */
static void test_blob_of_an_image(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    kiln_program_desc_params params = image_of("image");
    params.image = 7;
    kiln_program_desc *desc = describe(s, &params);
    kiln_program *program = get_from(desc, KILN_PROGRAM_FROM_BUILD);
    uint8_t blob[8192];
    const size_t size = get_blob(program, blob, sizeof blob);
    kiln_program_release(&program);
    for (int is_of_blob = 0; is_of_blob < 2; is_of_blob++) {
        assert_int_equal(kiln_program_context_remove_image(s->context, 7), 1);
        assert_int_equal(atomic_load(&s->devices[0].live_programs), 0);
        assert_int_equal(
            kiln_program_create_from_cache_blob(desc, size, blob, &program, NULL, NULL), KILN_OK);
        kiln_program_release(&program);
    }
    kiln_program_desc_release(&desc);
}

/* A kept failure of a build says nothing about a blob. */
static void test_blob_after_a_kept_failure(void **state)
{
    program_scene *s = *state;
    s->params.flags = KILN_CACHE_RETAIN_FAILURES;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    kiln_program *program = get_from(desc, KILN_PROGRAM_FROM_BUILD);
    uint8_t blob[8192];
    const size_t size = get_blob(program, blob, sizeof blob);
    kiln_program_release(&program);
    kiln_program_context_clear(s->context);
    script(&s->devices[0].build, 1, KILN_E_BUILD);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kiln_program_get(desc, &program, NULL, NULL), KILN_E_BUILD);
    }
    assert_int_equal(atomic_load(&s->devices[0].build.count), 1);
    kiln_error error = {.struct_size = sizeof error};
    kiln_program_result result = {.struct_size = sizeof result};
    assert_int_equal(
        kiln_program_create_from_cache_blob(desc, size, blob, &program, &result, &error), KILN_OK);
    assert_int_equal(result.from, KILN_PROGRAM_FROM_BLOB);
    assert_string_equal(error.text, "");
    kiln_program_release(&program);
    touch(desc, KILN_PROGRAM_FROM_MEMORY);
    kiln_program_desc_release(&desc);
}

/* An entry with the same key in a store is not a blob. */
static void test_entry_of_another_kind(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    kiln_program *program = get_from(desc, KILN_PROGRAM_FROM_BUILD);
    uint8_t bytes[8192];
    const size_t size = get_blob(program, bytes, sizeof bytes);
    kiln_program_release(&program);
    kiln_program_context_clear(s->context);
    kiln_entry *blob = NULL, *other = NULL;
    assert_int_equal(kiln_entry_decode(bytes, size, &blob), KILN_OK);
    const kiln_entry_params params = {.struct_size = sizeof params,
                                      .key = kiln_entry_key(blob),
                                      .kind = KILN_ENTRY_PROGRAM,
                                      .payload = kiln_entry_payload(blob)};
    assert_int_equal(kiln_entry_new(&params, &other), KILN_OK);
    const kiln_bytes encoding = kiln_entry_encoding(other);
    kiln_error error = {.struct_size = sizeof error};
    assert_int_equal(kiln_program_create_from_cache_blob(desc, encoding.size, encoding.data,
                                                         &program, NULL, &error),
                     KILN_E_REFUSED);
    assert_non_null(strstr(error.text, "not a cache blob"));
    assert_null(program);
    kiln_entry_release(&other);
    kiln_entry_release(&blob);
    kiln_program_desc_release(&desc);
}

static void test_blobs_count_toward_the_size(void **state)
{
    program_scene *s = *state;
    s->devices[0].bytes = 1000;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    kiln_program *program = get_from(desc, KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(program_stats(s).bytes, 1000);
    const size_t size = get_blob(program, NULL, 0);
    assert_int_equal(get_blob(program, NULL, 0), size);
    assert_int_equal(program_stats(s).bytes, 1000 + size);
    kiln_program_context_clear(s->context);
    assert_int_equal(program_stats(s).bytes, 0);
    assert_int_equal(program_stats(s).lingering_bytes, 1000 + size);
    kiln_program_release(&program);
    assert_int_equal(program_stats(s).lingering_bytes, 0);
    /* The same is true of a program that was made from a blob, and of a program that was evicted
     * from the map. */
    uint8_t blob[8192];
    program = get_from(desc, KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(get_blob(program, blob, sizeof blob), size);
    kiln_program_release(&program);
    kiln_program_context_clear(s->context);
    assert_int_equal(kiln_program_create_from_cache_blob(desc, size, blob, &program, NULL, NULL),
                     KILN_OK);
    assert_int_equal(program_stats(s).bytes, 1000 + size);
    kiln_program_release(&program);
    kiln_program_context_clear(s->context);
    program = get_from(desc, KILN_PROGRAM_FROM_BUILD);
    kiln_program_context_clear(s->context);
    assert_int_equal(get_blob(program, NULL, 0), size);
    assert_int_equal(program_stats(s).lingering_bytes, 1000 + size);
    kiln_program_release(&program);
    assert_int_equal(program_stats(s).lingering_bytes, 0);
    kiln_program_desc_release(&desc);
}

/* To make room for a blob, other programs may be evicted, in the order of the policy. With
 * NO_EVICT, no program is evicted. */
static void test_blobs_need_room(void **state)
{
    program_scene *s = *state;
    static const uint32_t policies[] = {KILN_POLICY_LRU, KILN_POLICY_NO_EVICT};
    s->devices[0].bytes = 4000;
    for (int i = 0; i < 2; i++) {
        s->params.policy = policies[i];
        s->params.max_bytes = 8000;
        program_scene_open(s);
        kiln_program_desc *other = describe_image(s, "other"), *desc = describe_image(s, "image");
        touch(other, KILN_PROGRAM_FROM_BUILD);
        kiln_program *program = get_from(desc, KILN_PROGRAM_FROM_BUILD);
        assert_int_equal(program_stats(s).entries, 2);
        const size_t size = get_blob(program, NULL, 0);
        assert_true(size <= 4000);
        const bool has_evicted = policies[i] == KILN_POLICY_LRU;
        assert_int_equal(program_stats(s).entries, has_evicted ? 1 : 2);
        assert_int_equal(program_stats(s).bytes, (has_evicted ? 4000 : 8000) + size);
        assert_int_equal(atomic_load(&s->devices[0].live_programs), has_evicted ? 1 : 2);
        kiln_program_release(&program);
        kiln_program_desc_release(&desc);
        kiln_program_desc_release(&other);
        kiln_program_context_free(&s->context);
    }
}

/* A program that alone exceeds the bounds is evicted, and no other program is evicted for it. */
static void test_blob_that_is_too_large(void **state)
{
    program_scene *s = *state;
    s->params.max_bytes = 4000;
    program_scene_open(s);
    kiln_program_desc *other = describe_image(s, "other"), *desc = describe_image(s, "image");
    touch(other, KILN_PROGRAM_FROM_BUILD);
    s->devices[0].bytes = 3900;
    kiln_program *program = get_from(desc, KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(program_stats(s).entries, 2);
    const size_t size = get_blob(program, NULL, 0);
    assert_int_equal(program_stats(s).bytes, strlen("other"));
    assert_int_equal(program_stats(s).lingering_bytes, 3900 + size);
    assert_int_equal(program_stats(s).evictions, 1);
    touch(other, KILN_PROGRAM_FROM_MEMORY);
    kiln_program_release(&program);
    kiln_program_desc_release(&desc);
    kiln_program_desc_release(&other);
}

/* A thread that asks for a program while it is being built, either from the program's blob or
 * without one. */
typedef struct latecomer {
    program_scene *scene;
    kiln_program_desc *desc;
    uint8_t blob[8192];
    size_t size; /* 0: without a blob */
    pthread_t thread;
    kiln_status status;
    kiln_program_result result;
} latecomer;

static void *come(void *user)
{
    latecomer *late = user;
    kiln_program *program = NULL;
    late->status = kiln_program_create_from_cache_blob(late->desc, late->size, late->blob, &program,
                                                       &late->result, NULL);
    kiln_program_release(&program);
    return NULL;
}

static void let_it_wait(void *user)
{
    latecomer *late = user;
    assert_int_equal(pthread_create(&late->thread, NULL, come, late), 0);
    while (program_stats(late->scene).waits == 0) {
        sched_yield();
    }
}

static void build_while_it_waits(latecomer *late)
{
    scripted_device *device = &late->scene->devices[0];
    late->result = (kiln_program_result){.struct_size = sizeof late->result};
    device->while_building = let_it_wait;
    device->user = late;
    touch(late->desc, KILN_PROGRAM_FROM_BUILD);
    device->while_building = NULL;
    pthread_join(late->thread, NULL);
    assert_int_equal(late->status, KILN_OK);
    assert_int_equal(late->result.from, KILN_PROGRAM_FROM_MEMORY);
    assert_int_equal(late->result.waited, 1);
    assert_true(late->result.wait_ns > 0);
}

static void test_blob_that_waits_says_so(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    latecomer late = {.scene = s, .desc = describe_image(s, "image")};
    kiln_program *program = get_from(late.desc, KILN_PROGRAM_FROM_BUILD);
    late.size = get_blob(program, late.blob, sizeof late.blob);
    kiln_program_release(&program);
    kiln_program_context_clear(s->context);
    build_while_it_waits(&late);
    kiln_program_desc_release(&late.desc);
}

/* ---- results and errors ---- */

static void test_no_store_is_no_miss(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    kiln_program *program = NULL;
    kiln_program_result result = {.struct_size = sizeof result, .store = KILN_MISS};
    assert_int_equal(kiln_program_get(desc, &program, &result, NULL), KILN_OK);
    assert_int_equal(result.from, KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(result.store, KILN_OK);
    kiln_program_release(&program);
    kiln_program_desc_release(&desc);
}

/* The result of a build is reported even if memory keeps nothing. */
static void test_last_miss_is_noted(void **state)
{
    program_scene *s = *state;
    char directory[SCRATCH_DIRECTORY_SIZE];
    scratch_make(directory);
    const kiln_store_params noting = {.struct_size = sizeof noting,
                                      .flags = KILN_STORE_NOTE_MISSES};
    assert_int_equal(kiln_store_open(directory, &noting, &s->params.store, NULL), KILN_OK);
    s->params.flags = KILN_CACHE_DISABLED;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    touch(desc, KILN_PROGRAM_FROM_PRIVATE_BUILD);
    kiln_key *missed = NULL;
    int64_t missed_s = 0;
    assert_int_equal(kiln_store_get_last_miss(s->params.store, &missed, &missed_s), KILN_OK);
    assert_true(kiln_key_equals(missed, kiln_program_desc_key(desc)));
    kiln_key_release(&missed);
    kiln_program_desc_release(&desc);
    kiln_program_context_free(&s->context);
    kiln_store_close(&s->params.store);
    scratch_remove(directory);
}

/* A hit is counted once, by the thread that finds the program. */
static void test_hits_are_counted_once(void **state)
{
    program_scene *s = *state;
    char directory[SCRATCH_DIRECTORY_SIZE];
    scratch_make(directory);
    assert_int_equal(kiln_store_open(directory, NULL, &s->params.store, NULL), KILN_OK);
    program_scene_open(s);
    latecomer late = {.scene = s, .desc = describe_image(s, "image")};
    build_while_it_waits(&late);
    touch(late.desc, KILN_PROGRAM_FROM_MEMORY);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kiln_program_context_drain(s->context, UINT64_C(60000000000)), KILN_OK);
        kiln_store_stat stat = {.struct_size = sizeof stat};
        assert_int_equal(kiln_store_get_stat(s->params.store, 0, &stat), KILN_OK);
        assert_int_equal(stat.totals.hits_memory, 2);
        assert_int_equal(stat.totals.waits, 1);
        assert_int_equal(stat.totals.builds, 1);
    }
    kiln_program_desc_release(&late.desc);
    kiln_program_context_free(&s->context);
    kiln_store_close(&s->params.store);
    scratch_remove(directory);
}

/* If a repeated call succeeds, the error of the first one is not reported. */
static void test_no_error_if_evictions_made_room(void **state)
{
    program_scene *s = *state;
    /* The build of a program that isn't kept writes the caller's error directly. */
    s->params.rules = KILN_RULES_IMAGES;
    program_scene_open(s);
    kiln_program_desc *input = NULL, *link = describe_link(s, &input);
    script(&s->devices[0].compile, 1, KILN_E_RESOURCES);
    script(&s->devices[0].link, 1, KILN_E_RESOURCES);
    kiln_error error = {.struct_size = sizeof error};
    kiln_program *program = NULL;
    assert_int_equal(kiln_program_get(link, &program, NULL, &error), KILN_OK);
    assert_string_equal(error.text, "");
    assert_int_equal(atomic_load(&s->devices[0].link.count), 2);
    kiln_program_release(&program);
    kiln_program_desc_release(&link);
    kiln_program_desc_release(&input);
}

/* An entry that the device can't load just now stays as it is, and nothing leaks. */
static void test_an_entry_that_cannot_be_loaded_stays(void **state)
{
    program_scene *s = *state;
    char directory[SCRATCH_DIRECTORY_SIZE];
    scratch_make(directory);
    assert_int_equal(kiln_store_open(directory, NULL, &s->params.store, NULL), KILN_OK);
    for (int i = 0; i < 2; i++) {
        program_scene_open(s);
        kiln_program_desc *desc = describe_image(s, "image");
        script(&s->devices[0].load, i, KILN_E_IO);
        touch(desc, KILN_PROGRAM_FROM_BUILD);
        assert_int_equal(atomic_load(&s->devices[0].load.count), i);
        assert_int_equal(atomic_load(&s->devices[0].capture.count), 1);
        kiln_program_context_free(&s->context);
        assert_int_equal(kiln_store_contains(s->params.store, kiln_program_desc_key(desc)),
                         KILN_OK);
        kiln_program_desc_release(&desc);
    }
    kiln_store_close(&s->params.store);
    scratch_remove(directory);
}

static void test_reasons_report_what_was_found(void **state)
{
    program_scene *s = *state;
    script(&s->devices[0].identity, 1, KILN_E_UNSUPPORTED);
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    const kiln_program_caching caching = caching_of(desc);
    assert_int_equal(caching.memory, KILN_UNCACHED_DEVICE);
    assert_non_null(strstr(caching.text, kiln_uncached_text(KILN_UNCACHED_DEVICE)));
    assert_non_null(strstr(caching.text, ": the inputs of builds by scripted are unknown"));
    kiln_program_desc_release(&desc);
}

/* If the device reports no size, a link has the size of everything that is linked. */
static void test_size_of_a_link(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    kiln_program_desc *input = NULL, *link = describe_link(s, &input);
    touch(link, KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(program_stats(s).bytes, strlen("input"));
    kiln_program_desc_release(&link);
    kiln_program_desc_release(&input);
}

/* ---- ops ---- */

static void check_refused(program_scene *s, const kiln_device_ops *ops)
{
    s->params.ops = ops;
    assert_int_equal(kiln_program_context_new(&s->params, &s->context), KILN_E_INVALID);
    assert_null(s->context);
}

static void test_ops_that_lack_something(void **state)
{
    program_scene *s = *state;
    static const size_t needed[] = {
        offsetof(kiln_device_ops, name),           offsetof(kiln_device_ops, identity),
        offsetof(kiln_device_ops, describe),       offsetof(kiln_device_ops, build),
        offsetof(kiln_device_ops, capture),        offsetof(kiln_device_ops, load),
        offsetof(kiln_device_ops, kernel),         offsetof(kiln_device_ops, release_program),
        offsetof(kiln_device_ops, release_kernel),
    };
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        kiln_device_ops ops = scripted_cheap_ops;
        memset((char *)&ops + needed[i], 0, sizeof(void *));
        check_refused(s, &ops);
        ops = scripted_cheap_ops;
        ops.struct_size = needed[i];
        check_refused(s, &ops);
    }
    kiln_device_ops ops = scripted_cheap_ops;
    ops.struct_size = 0;
    check_refused(s, &ops);
    ops = scripted_cheap_ops;
    ops.capture_cost = KILN_CAPTURE_EXPENSIVE + 1;
    check_refused(s, &ops);
    ops = scripted_never_ops;
    ops.capture = NULL;
    s->params.ops = &ops;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    touch(desc, KILN_PROGRAM_FROM_BUILD);
    kiln_program_desc_release(&desc);
    kiln_program_context_free(&s->context);
}

static kiln_status make_nothing(void *device, const kiln_program_source *source, void **ret_program,
                                char **ret_log)
{
    (void)device, (void)source, (void)ret_program, (void)ret_log;
    return KILN_OK;
}

static kiln_status link_nothing(void *device, void *const *objects, size_t count,
                                const char *options, void **ret_program, char **ret_log)
{
    (void)device, (void)objects, (void)count, (void)options, (void)ret_program, (void)ret_log;
    return KILN_OK;
}

static kiln_status load_nothing(void *device, const kiln_program_source *source,
                                const kiln_entry *entry, void **ret_program)
{
    (void)device, (void)source, (void)entry, (void)ret_program;
    return KILN_OK;
}

static kiln_status make_no_kernel(void *device, void *program, const char *name, void **ret_kernel)
{
    (void)device, (void)program, (void)name, (void)ret_kernel;
    return KILN_OK;
}

static void check_nothing_comes(program_scene *s, const kiln_program_desc *desc)
{
    kiln_program *program = NULL;
    kiln_error error = {.struct_size = sizeof error};
    assert_int_equal(kiln_program_get(desc, &program, NULL, &error), KILN_E_INVALID);
    assert_null(program);
    assert_non_null(strstr(error.text, "scripted succeeded but returned no object"));
    assert_int_equal(program_stats(s).entries, 0);
}

/* Success without a result counts as a failure. */
static void test_ops_that_return_no_object(void **state)
{
    program_scene *s = *state;
    kiln_device_ops ops = scripted_cheap_ops;
    s->params.ops = &ops;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image"), *input = NULL,
                      *link = describe_link(s, &input);
    ops.build = make_nothing;
    check_nothing_comes(s, desc);
    ops.link = link_nothing;
    check_nothing_comes(s, link);
    ops = scripted_cheap_ops;
    ops.compile = make_nothing;
    check_nothing_comes(s, link);
    ops = scripted_cheap_ops;

    kiln_program *program = get_from(desc, KILN_PROGRAM_FROM_BUILD);
    uint8_t blob[8192];
    const size_t size = get_blob(program, blob, sizeof blob);
    ops.kernel = make_no_kernel;
    for (int is_alone = 0; is_alone < 2; is_alone++) {
        kiln_kernel *kernel = NULL;
        assert_int_equal(kiln_program_get_kernel(program, "k", 0, &kernel, NULL), KILN_E_INVALID);
        assert_null(kernel);
        kiln_program_context_clear(s->context);
    }
    kiln_program_release(&program);
    ops.load = load_nothing;
    assert_int_equal(kiln_program_create_from_cache_blob(desc, size, blob, &program, NULL, NULL),
                     KILN_E_INVALID);
    kiln_program_desc_release(&link);
    kiln_program_desc_release(&input);
    kiln_program_desc_release(&desc);
    kiln_program_context_free(&s->context);
}

static void check_no_outcome(program_scene *s, scripted_call *call, const kiln_program_desc *desc)
{
    kiln_program *program = NULL;
    kiln_error error = {.struct_size = sizeof error};
    script(call, SCRIPTED_ALWAYS, KILN_MISS);
    assert_int_equal(kiln_program_get(desc, &program, NULL, &error), KILN_E_INVALID);
    assert_null(program);
    assert_string_equal(error.text, "scripted returned \"not there\"");
    assert_int_equal(program_stats(s).entries, 0);
    script(call, 0, KILN_OK);
}

/* A positive status that the contract of an op does not define is an error. */
static void test_outcomes_that_ops_do_not_have(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image"), *input = NULL,
                      *link = describe_link(s, &input);
    check_no_outcome(s, &s->devices[0].build, desc);
    check_no_outcome(s, &s->devices[0].compile, link);
    check_no_outcome(s, &s->devices[0].link, link);

    kiln_program *program = get_from(desc, KILN_PROGRAM_FROM_BUILD);
    uint8_t blob[8192];
    const size_t size = get_blob(program, blob, sizeof blob);
    kiln_kernel *kernel = NULL;
    script(&s->devices[0].kernel, SCRIPTED_ALWAYS, KILN_BUSY);
    assert_int_equal(kiln_program_get_kernel(program, "k", 0, &kernel, NULL), KILN_E_INVALID);
    assert_null(kernel);
    kiln_program_release(&program);
    kiln_program_context_clear(s->context);
    script(&s->devices[0].load, SCRIPTED_ALWAYS, KILN_BUSY);
    assert_int_equal(kiln_program_create_from_cache_blob(desc, size, blob, &program, NULL, NULL),
                     KILN_E_INVALID);
    assert_null(program);

    kiln_program_desc *refused = NULL;
    kiln_error error = {.struct_size = sizeof error};
    const kiln_program_desc_params image = {
        .struct_size = sizeof image, .form = KILN_SOURCE_IL, .code = {"other", 5}};
    script(&s->devices[0].describe, SCRIPTED_ALWAYS, KILN_TIMEOUT);
    assert_int_equal(kiln_program_desc_new(s->context, &image, &refused, &error), KILN_E_INVALID);
    assert_null(refused);
    assert_non_null(strstr(error.text, "scripted returned"));
    kiln_program_context *none = NULL;
    script(&s->devices[0].identity, SCRIPTED_ALWAYS, KILN_EXISTS);
    assert_int_equal(kiln_program_context_new(&s->params, &none), KILN_E_INVALID);
    assert_null(none);

    kiln_program_desc_release(&link);
    kiln_program_desc_release(&input);
    kiln_program_desc_release(&desc);
    kiln_program_context_free(&s->context);
}

#define TEST(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, program_scene_set_up, program_scene_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_no_blob_of_what_changed_meanwhile),
        TEST(test_a_blob_is_taken_outside_locks),
        TEST(test_blob_of_what_is_not_kept),
        TEST(test_unavailable_blob),
        TEST(test_blob_of_an_image),
        TEST(test_blob_after_a_kept_failure),
        TEST(test_entry_of_another_kind),
        TEST(test_blobs_count_toward_the_size),
        TEST(test_blobs_need_room),
        TEST(test_blob_that_is_too_large),
        TEST(test_blob_that_waits_says_so),
        TEST(test_no_store_is_no_miss),
        TEST(test_last_miss_is_noted),
        TEST(test_hits_are_counted_once),
        TEST(test_no_error_if_evictions_made_room),
        TEST(test_an_entry_that_cannot_be_loaded_stays),
        TEST(test_outcomes_that_ops_do_not_have),
        TEST(test_reasons_report_what_was_found),
        TEST(test_size_of_a_link),
        TEST(test_ops_that_lack_something),
        TEST(test_ops_that_return_no_object),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
