/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs with inputs that only a build reveals: they are found in memory by their revision, and
 * in a store if the device's load accepts them.
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

#define THREADS 4
#define DRAIN_NS UINT64_C(60000000000)

/* ---- a scene whose sources read, with a store or without ---- */

typedef struct fixture {
    program_scene scene;
    char directory[SCRATCH_DIRECTORY_SIZE];
} fixture;

static int set_up(void **state)
{
    fixture *f = test_calloc(1, sizeof *f);
    program_scene_init(&f->scene);
    f->scene.params.ops = &scripted_revised_ops;
    for (int i = 0; i < SCENE_DEVICES; i++) {
        atomic_store(&f->scene.devices[i].revision, 1);
    }
    scratch_make(f->directory);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    const bool is_clean = program_scene_close(&f->scene);
    kiln_store_close(&f->scene.params.store);
    scratch_remove(f->directory);
    test_free(f);
    return is_clean ? 0 : -1;
}

static void open_store(fixture *f)
{
    assert_int_equal(kiln_store_open(f->directory, NULL, &f->scene.params.store, NULL), KILN_OK);
}

/* A context with the same store and nothing in memory. */
static void open_again(program_scene *s)
{
    kiln_program_context_free(&s->context);
    program_scene_open(s);
}

static kiln_stats totals_of(const program_scene *s)
{
    assert_int_equal(kiln_program_context_drain(s->context, DRAIN_NS), KILN_OK);
    kiln_store_stat stat = {.struct_size = sizeof stat};
    assert_int_equal(kiln_store_get_stat(s->params.store, 0, &stat), KILN_OK);
    assert_int_equal(stat.entries, stat.totals.puts > 0);
    return stat.totals;
}

static bool is_stored(const program_scene *s, const kiln_program_desc *desc)
{
    assert_int_equal(kiln_program_context_drain(s->context, DRAIN_NS), KILN_OK);
    return kiln_store_contains(s->params.store, kiln_program_desc_key(desc)) == KILN_OK;
}

static void revise(program_scene *s, uint64_t revision)
{
    atomic_store(&s->devices[0].revision, revision);
}

/* Returns the value of a program built from @text if its build read @revision. */
static uint64_t value_in(const char *text, uint64_t revision)
{
    const uint64_t value = scripted_value(scripted_value(0, text, strlen(text)), "", 0);
    return scripted_value(value, &revision, sizeof revision);
}

static uint64_t value_of(const kiln_program *program)
{
    return ((const scripted_program *)kiln_program_handle(program))->value;
}

/* Gets the program of "image", and checks where it came from and which revision its build read. */
static void touch_in(const kiln_program_desc *desc, uint32_t from, uint64_t revision)
{
    kiln_program *program = get_from(desc, from);
    assert_int_equal(value_of(program), value_in("image", revision));
    kiln_program_release(&program);
}

static void assert_equal_keys(const kiln_program_desc *a, const kiln_program_desc *b)
{
    assert_true(kiln_key_equals(kiln_program_desc_key(a), kiln_program_desc_key(b)));
}

static kiln_program_desc *describe_link(const program_scene *s, const kiln_program_desc *first,
                                        const kiln_program_desc *second)
{
    const kiln_program_desc *const inputs[] = {first, second};
    const kiln_program_desc_params params = {
        .struct_size = sizeof params, .linked = inputs, .linked_count = 2};
    return describe(s, &params);
}

/* ---- memory ---- */

static void check_kernels(kiln_program_desc *first, kiln_program_desc *second)
{
    kiln_kernel_desc *named = describe_kernel(first, "k"), *other = describe_kernel(second, "k");
    void *handle = touch_kernel(named);
    assert_ptr_not_equal(touch_kernel(other), handle);
    assert_ptr_equal(touch_kernel(named), handle);
    kiln_kernel_desc_release(&named);
    kiln_kernel_desc_release(&other);
}

/* Two revisions share no program, whether or not memory distinguishes devices. */
static void test_revisions_share_no_program(void **state)
{
    fixture *f = *state;
    program_scene *s = &f->scene;
    for (size_t devices = 1; devices <= SCENE_DEVICES; devices += 2) {
        s->params.device_count = devices;
        program_scene_open(s);
        revise(s, 1);
        kiln_program_desc *first = describe_image(s, "image");
        touch_in(first, KILN_PROGRAM_FROM_BUILD, 1);
        revise(s, 2);
        kiln_program_desc *second = describe_image(s, "image"), *same = describe_image(s, "image");
        assert_equal_keys(first, second);
        touch_in(second, KILN_PROGRAM_FROM_BUILD, 2);
        touch_in(same, KILN_PROGRAM_FROM_MEMORY, 2);
        touch_in(first, KILN_PROGRAM_FROM_MEMORY, 1);
        assert_int_equal(program_stats(s).entries, 2);
        check_kernels(first, second);
        kiln_program_desc_release(&first);
        kiln_program_desc_release(&second);
        kiln_program_desc_release(&same);
        kiln_program_context_free(&s->context);
    }
}

/* Each linked source has its own revision. */
static void test_revisions_of_what_is_linked(void **state)
{
    fixture *f = *state;
    program_scene *s = &f->scene;
    program_scene_open(s);
    s->devices[0].reader = "reader";
    kiln_program_desc *reader = describe_image(s, "reader"), *other = describe_image(s, "other");
    kiln_program_desc *const links[] = {describe_link(s, other, reader),
                                        describe_link(s, other, other)};
    script(&s->devices[0].revise, 0, KILN_OK);
    touch(links[0], KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(atomic_load(&s->devices[0].revise.count), 2);
    touch(links[1], KILN_PROGRAM_FROM_BUILD);
    revise(s, 2);
    kiln_program_desc *const again[] = {describe_link(s, other, reader),
                                        describe_link(s, other, other)};
    assert_equal_keys(again[0], links[0]);
    touch(again[0], KILN_PROGRAM_FROM_BUILD);
    touch(again[1], KILN_PROGRAM_FROM_MEMORY);
    touch(links[0], KILN_PROGRAM_FROM_MEMORY);
    kiln_program_context_clear(s->context);
    touch(links[0], KILN_PROGRAM_FROM_PRIVATE_BUILD);
    touch(again[0], KILN_PROGRAM_FROM_BUILD);
    for (int i = 0; i < 2; i++) {
        kiln_program_desc *link = links[i], *more = again[i];
        kiln_program_desc_release(&link);
        kiln_program_desc_release(&more);
    }
    kiln_program_desc_release(&reader);
    kiln_program_desc_release(&other);
}

static void read_more(void *user)
{
    scripted_device *device = user;
    atomic_fetch_add(&device->revision, 1);
}

static void read_more_while_building(program_scene *s)
{
    s->devices[0].while_building = read_more;
    s->devices[0].user = &s->devices[0];
}

/* No other caller gets the program, and it is not stored. */
static void test_program_changed_meanwhile_is_not_shared(void **state)
{
    fixture *f = *state;
    program_scene *s = &f->scene;
    open_store(f);
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    read_more_while_building(s);
    touch_in(desc, KILN_PROGRAM_FROM_PRIVATE_BUILD, 1);
    s->devices[0].while_building = NULL;
    touch_in(desc, KILN_PROGRAM_FROM_PRIVATE_BUILD, 2);
    assert_int_equal(program_stats(s).entries, 0);
    assert_false(is_stored(s, desc));
    assert_int_equal(atomic_load(&s->devices[0].capture.count), 0);

    kiln_program_desc *now = describe_image(s, "image");
    touch_in(now, KILN_PROGRAM_FROM_BUILD, 2);
    assert_true(is_stored(s, desc));
    kiln_program_desc_release(&now);
    kiln_program_desc_release(&desc);
}

/* ---- unknown revisions ---- */

static void check_uncached(program_scene *s, kiln_program_desc *desc)
{
    assert_null(kiln_program_desc_key(desc));
    const kiln_program_caching caching = caching_of(desc);
    assert_int_equal(caching.memory, KILN_UNCACHED_INPUTS);
    assert_int_equal(caching.store, KILN_UNCACHED_INPUTS);
    assert_non_null(strstr(caching.text, ": " SCRIPTED_NO_REVISION));
    touch(desc, KILN_PROGRAM_FROM_PRIVATE_BUILD);
    touch(desc, KILN_PROGRAM_FROM_PRIVATE_BUILD);
    assert_int_equal(program_stats(s).entries, 0);
}

static void test_revision_that_cannot_be_determined(void **state)
{
    fixture *f = *state;
    program_scene *s = &f->scene;
    program_scene_open(s);
    kiln_program_desc *told = describe_image(s, "other");
    script(&s->devices[0].revise, SCRIPTED_ALWAYS, KILN_E_UNSUPPORTED);
    kiln_program_desc *desc = describe_image(s, "image"), *link = describe_link(s, told, told);
    check_uncached(s, desc);
    assert_int_equal(atomic_load(&s->devices[0].build.count), 2);
    check_uncached(s, link);
    assert_int_equal(atomic_load(&s->devices[0].link.count), 2);
    kiln_program_desc_release(&link);
    kiln_program_desc_release(&desc);
    kiln_program_desc_release(&told);
}

static void test_revision_that_fails(void **state)
{
    fixture *f = *state;
    program_scene *s = &f->scene;
    program_scene_open(s);
    const kiln_program_desc_params params = image_of("image");
    kiln_program_desc *desc = NULL;
    kiln_error error = {.struct_size = sizeof error};
    script(&s->devices[0].revise, 1, KILN_E_IO);
    assert_int_equal(kiln_program_desc_new(s->context, &params, &desc, &error), KILN_E_IO);
    assert_string_equal(error.text, SCRIPTED_NO_REVISION);
    script(&s->devices[0].revise, 1, KILN_TIMEOUT);
    assert_int_equal(kiln_program_desc_new(s->context, &params, &desc, &error), KILN_E_INVALID);
    assert_null(desc);
}

/* Older ops lack the function that returns revisions. */
static void test_ops_without_revision(void **state)
{
    fixture *f = *state;
    program_scene *s = &f->scene;
    kiln_device_ops ops = scripted_revised_ops;
    ops.struct_size = offsetof(kiln_device_ops, revision);
    s->params.ops = &ops;
    open_store(f);
    program_scene_open(s);
    kiln_program_desc *first = describe_image(s, "image");
    touch_in(first, KILN_PROGRAM_FROM_BUILD, 1);
    open_again(s);
    kiln_program_desc *desc = describe_image(s, "image");
    script(&s->devices[0].describe, 0, KILN_OK);
    touch_in(desc, KILN_PROGRAM_FROM_STORE, 1);
    assert_int_equal(atomic_load(&s->devices[0].describe.count), 0);
    revise(s, 2);
    kiln_program_desc *second = describe_image(s, "image");
    touch_in(second, KILN_PROGRAM_FROM_MEMORY, 1);
    assert_int_equal(atomic_load(&s->devices[0].revise.count), 0);
    kiln_program_desc_release(&first);
    kiln_program_desc_release(&desc);
    kiln_program_desc_release(&second);
    kiln_program_context_free(&s->context);
}

/* ---- stores ---- */

static kiln_program_result result_of(const kiln_program_desc *desc)
{
    kiln_program *program = NULL;
    kiln_program_result result = {.struct_size = sizeof result};
    assert_int_equal(kiln_program_get(desc, &program, &result, NULL), KILN_OK);
    kiln_program_release(&program);
    return result;
}

/* The entry is sound: it stays until a newer one replaces it. */
static void test_entry_of_another_revision_is_replaced(void **state)
{
    fixture *f = *state;
    program_scene *s = &f->scene;
    open_store(f);
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    touch_in(desc, KILN_PROGRAM_FROM_BUILD, 1);
    kiln_program_desc_release(&desc);
    open_again(s);
    revise(s, 2);
    desc = describe_image(s, "image");
    const kiln_program_result result = result_of(desc);
    assert_int_equal(result.from, KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(result.store, KILN_MISS);
    touch_in(desc, KILN_PROGRAM_FROM_MEMORY, 2);
    kiln_stats totals = totals_of(s);
    assert_int_equal(totals.corrupt, 0);
    assert_int_equal(totals.misses, 2);
    assert_int_equal(totals.puts, 2);
    kiln_program_desc_release(&desc);

    open_again(s);
    desc = describe_image(s, "image");
    touch_in(desc, KILN_PROGRAM_FROM_STORE, 2);
    totals = totals_of(s);
    assert_int_equal(totals.puts, 2);
    assert_int_equal(totals.hits_store, 1);
    kiln_program_desc_release(&desc);
}

/* The entry of a link is examined too. */
static void test_entry_of_a_link_is_replaced(void **state)
{
    fixture *f = *state;
    program_scene *s = &f->scene;
    open_store(f);
    for (int i = 0; i < 3; i++) {
        program_scene_open(s);
        kiln_program_desc *input = describe_image(s, "input"),
                          *link = describe_link(s, input, input);
        script(&s->devices[0].load, i == 1 ? SCRIPTED_ALWAYS : 0, KILN_MISS);
        touch(link, i == 2 ? KILN_PROGRAM_FROM_STORE : KILN_PROGRAM_FROM_BUILD);
        assert_int_equal(totals_of(s).puts, i == 0 ? 1 : 2);
        assert_int_equal(totals_of(s).corrupt, 0);
        kiln_program_desc_release(&link);
        kiln_program_desc_release(&input);
        kiln_program_context_free(&s->context);
    }
}

/* load compares the entry with the present inputs, but the description was made from earlier
 * ones. */
static void test_entry_of_another_key_is_not_used(void **state)
{
    fixture *f = *state;
    program_scene *s = &f->scene;
    open_store(f);
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    touch(desc, KILN_PROGRAM_FROM_BUILD);
    kiln_program_desc_release(&desc);
    open_again(s);
    desc = describe_image(s, "image");
    atomic_store(&s->devices[0].included, 1);
    const kiln_program_result result = result_of(desc);
    assert_int_equal(result.from, KILN_PROGRAM_FROM_PRIVATE_BUILD);
    assert_int_equal(result.store, KILN_MISS);
    assert_in_range(atomic_load(&s->devices[0].load.count), 1, 2);
    assert_int_equal(atomic_load(&s->devices[0].live_programs), 0);
    assert_int_equal(program_stats(s).entries, 0);
    assert_int_equal(totals_of(s).puts, 1);
    atomic_store(&s->devices[0].included, 0);
    touch(desc, KILN_PROGRAM_FROM_STORE);
    kiln_program_desc_release(&desc);
}

/* ---- blobs ---- */

static void check_refused(const kiln_program_desc *desc, const uint8_t *blob, size_t size)
{
    kiln_program *program = NULL;
    kiln_error error = {.struct_size = sizeof error};
    assert_int_equal(kiln_program_create_from_cache_blob(desc, size, blob, &program, NULL, &error),
                     KILN_E_REFUSED);
    assert_null(program);
    assert_int_equal(error.status, KILN_E_REFUSED);
    assert_string_equal(error.text, "the blob: its inputs have changed");
}

static void test_blob_of_another_revision_is_refused(void **state)
{
    fixture *f = *state;
    program_scene *s = &f->scene;
    program_scene_open(s);
    kiln_program_desc *first = describe_image(s, "image");
    kiln_program *program = get_from(first, KILN_PROGRAM_FROM_BUILD);
    uint8_t blob[8192];
    size_t size = sizeof blob;
    assert_int_equal(kiln_program_get_cache_blob(program, &size, blob), KILN_OK);
    kiln_program_release(&program);
    revise(s, 2);
    kiln_program_desc *second = describe_image(s, "image");
    check_refused(second, blob, size);
    touch_in(second, KILN_PROGRAM_FROM_BUILD, 2);
    kiln_program_context_clear(s->context);

    /* If the key has changed since, the blob is not valid either. */
    revise(s, 1);
    atomic_store(&s->devices[0].included, 1);
    check_refused(first, blob, size);
    assert_int_equal(atomic_load(&s->devices[0].live_programs), 0);
    atomic_store(&s->devices[0].included, 0);
    assert_int_equal(kiln_program_create_from_cache_blob(first, size, blob, &program, NULL, NULL),
                     KILN_OK);
    kiln_program_release(&program);
    kiln_program_desc_release(&first);
    kiln_program_desc_release(&second);
}

/* A program of an earlier revision yields no blob, even if the rules do not keep the program. */
static void test_no_blob_of_another_revision(void **state)
{
    fixture *f = *state;
    program_scene *s = &f->scene;
    for (uint32_t rules = KILN_RULES_ALL; rules <= KILN_RULES_IMAGES; rules++) {
        s->params.rules = rules;
        program_scene_open(s);
        kiln_program_desc_params params = image_of("image");
        params.form = KILN_SOURCE_TEXT;
        kiln_program_desc *desc = describe(s, &params);
        read_more_while_building(s);
        kiln_program *program = get_from(desc, KILN_PROGRAM_FROM_PRIVATE_BUILD);
        s->devices[0].while_building = NULL;
        size_t size = 1;
        assert_int_equal(kiln_program_get_cache_blob(program, &size, NULL), KILN_E_UNSUPPORTED);
        assert_int_equal(size, 0);
        assert_int_equal(atomic_load(&s->devices[0].capture.count), 0);
        kiln_program_release(&program);
        kiln_program_desc_release(&desc);
        script(&s->devices[0].revise, 1, KILN_E_UNSUPPORTED);
        desc = describe(s, &params);
        assert_int_equal(kiln_program_desc_cache_blob_id(desc, &size, NULL), KILN_OK);
        assert_int_equal(size, 0);
        kiln_program_desc_release(&desc);
        kiln_program_context_free(&s->context);
    }
}

/* ---- builds that fail ---- */

/* A caller that asks during the first build, which fails. */
typedef struct latecomer {
    program_scene *scene;
    const kiln_program_desc *desc;
    _Atomic uint64_t *changes; /* a variable to increment meanwhile; NULL: none */
    pthread_t thread;
    kiln_status status;
} latecomer;

static void *come(void *user)
{
    latecomer *late = user;
    kiln_program *program = NULL;
    late->status = kiln_program_get(late->desc, &program, NULL, NULL);
    kiln_program_release(&program);
    return NULL;
}

static void let_it_wait(void *user)
{
    latecomer *late = user;
    late->scene->devices[0].while_building = NULL;
    assert_int_equal(pthread_create(&late->thread, NULL, come, late), 0);
    while (program_stats(late->scene).waits == 0) {
        sched_yield();
    }
    if (late->changes) {
        atomic_fetch_add(late->changes, 1);
    }
}

static void check_failing(program_scene *s, _Atomic uint64_t *changes)
{
    s->params.flags = KILN_CACHE_RETAIN_FAILURES;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    latecomer late = {.scene = s, .desc = desc, .changes = changes};
    s->devices[0].while_building = let_it_wait;
    s->devices[0].user = &late;
    script(&s->devices[0].build, 1, KILN_E_BUILD);
    kiln_program *program = NULL;
    assert_int_equal(kiln_program_get(desc, &program, NULL, NULL), KILN_E_BUILD);
    pthread_join(late.thread, NULL);
    assert_int_equal(late.status, changes ? KILN_OK : KILN_E_BUILD);
    assert_int_equal(program_stats(s).retained_failures, changes ? 0 : 1);
    assert_int_equal(kiln_program_get(desc, &program, NULL, NULL),
                     changes ? KILN_OK : KILN_E_BUILD);
    kiln_program_release(&program);
    assert_int_equal(atomic_load(&s->devices[0].build.count), changes ? 3 : 1);
    kiln_program_desc_release(&desc);
    kiln_program_context_free(&s->context);
}

/* A failed build is the answer only for callers that asked with the same key. */
static void test_failure_belongs_to_its_key(void **state)
{
    fixture *f = *state;
    program_scene *s = &f->scene;
    check_failing(s, NULL);
    check_failing(s, &s->devices[0].revision);
    check_failing(s, &s->devices[0].included);
    s->params.ops = &scripted_cheap_ops;
    revise(s, 0);
    check_failing(s, &s->devices[0].included);
    check_failing(s, NULL);
}

/* ---- threads ---- */

typedef struct reader {
    program_scene *scene;
    pthread_t thread;
    int wrong;
} reader;

/* No caller gets a program whose inputs were read before its description was made. */
static void *get_many(void *user)
{
    reader *r = user;
    for (int i = 0; i < 200; i++) {
        const kiln_program_desc_params params = image_of("image");
        kiln_program_desc *desc = NULL;
        kiln_program *program = NULL;
        const uint64_t before = atomic_load(&r->scene->devices[0].revision);
        bool is_right = kiln_program_desc_new(r->scene->context, &params, &desc, NULL) == KILN_OK &&
                        kiln_program_get(desc, &program, NULL, NULL) == KILN_OK;
        const uint64_t after = atomic_load(&r->scene->devices[0].revision);
        uint64_t read = before;
        while (is_right && value_of(program) != value_in("image", read)) {
            is_right = read++ < after;
        }
        r->wrong += is_right ? 0 : 1;
        kiln_program_release(&program);
        kiln_program_desc_release(&desc);
        if (i % 10 == 0) {
            read_more(&r->scene->devices[0]);
        }
    }
    return NULL;
}

static void test_threads_get_what_is_read_now(void **state)
{
    fixture *f = *state;
    program_scene *s = &f->scene;
    open_store(f);
    program_scene_open(s);
    reader readers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        readers[i] = (reader){.scene = s};
        assert_int_equal(pthread_create(&readers[i].thread, NULL, get_many, &readers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(readers[i].thread, NULL);
        assert_int_equal(readers[i].wrong, 0);
    }
    assert_in_range(atomic_load(&s->devices[0].build.count), 1, THREADS * 200 - 1);
    assert_int_equal(totals_of(s).corrupt, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_revisions_share_no_program),
        TEST(test_revisions_of_what_is_linked),
        TEST(test_program_changed_meanwhile_is_not_shared),
        TEST(test_revision_that_cannot_be_determined),
        TEST(test_revision_that_fails),
        TEST(test_ops_without_revision),
        TEST(test_entry_of_another_revision_is_replaced),
        TEST(test_entry_of_a_link_is_replaced),
        TEST(test_entry_of_another_key_is_not_used),
        TEST(test_blob_of_another_revision_is_refused),
        TEST(test_no_blob_of_another_revision),
        TEST(test_failure_belongs_to_its_key),
        TEST(test_threads_get_what_is_read_now),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
