/* SPDX-License-Identifier: Apache-2.0
 *
 * The contents of a context's two maps, the cost of look-ups, and the maps after the context ended.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "memory/policy.h"
#include "program/context.h"
#include "program/obtain.h"
#include "support/program_scene.h"
#include "support/store_scene.h"

static kiln_kernel *kernel_of(kiln_program *program, const char *name, size_t device)
{
    kiln_kernel *kernel = NULL;
    assert_int_equal(kiln_program_get_kernel(program, name, device, &kernel, NULL), KILN_OK);
    assert_non_null(kiln_kernel_handle(kernel));
    return kernel;
}

static uint64_t frequency_of(const kiln_program *program)
{
    const kilni_object *object = (const kilni_object *)program;
    return atomic_load(&object->use) & KILNI_POLICY_MAX_FREQUENCY;
}

/* ---- programs that are evicted ---- */

static void test_kernels_are_evicted_with_their_programs(void **state)
{
    enum { PROGRAMS = 100, KERNELS = 3 };
    program_scene *s = *state;
    s->params.max_programs = PROGRAMS;
    s->params.policy = KILN_POLICY_FIFO;
    program_scene_open(s);
    for (int i = 0; i < PROGRAMS + 10; i++) {
        char text[24];
        snprintf(text, sizeof text, "image %d", i);
        kiln_program_desc *desc = describe_image(s, text);
        kiln_program *program = get_from(desc, KILN_PROGRAM_FROM_BUILD);
        static const char *const names[KERNELS] = {"a", "b", "c"};
        for (int k = 0; k < KERNELS; k++) {
            kiln_kernel *kernel = kernel_of(program, names[k], 0);
            kiln_kernel_release(&kernel);
        }
        kiln_program_release(&program);
        kiln_program_desc_release(&desc);
    }
    assert_int_equal(program_stats(s).entries, PROGRAMS);
    assert_int_equal(kernel_stats(s).entries, PROGRAMS * KERNELS);
    assert_int_equal(atomic_load(&s->devices[0].live_kernels), PROGRAMS * KERNELS);
    kiln_program_context_clear(s->context);
    assert_int_equal(kernel_stats(s).entries, 0);
    assert_int_equal(atomic_load(&s->devices[0].live_kernels), 0);
    assert_int_equal(atomic_load(&s->devices[0].live_programs), 0);
}

static void test_failures_that_are_kept_are_bounded(void **state)
{
    program_scene *s = *state;
    s->params.flags = KILN_CACHE_RETAIN_FAILURES;
    s->params.max_programs = 64;
    program_scene_open(s);
    for (int i = 0; i < 20; i++) {
        char text[24];
        snprintf(text, sizeof text, "image %d", i);
        script(&s->devices[0].build, 1, KILN_E_BUILD);
        kiln_program_desc *desc = describe_image(s, text);
        kiln_program *program = NULL;
        assert_int_equal(kiln_program_get(desc, &program, NULL, NULL), KILN_E_BUILD);
        kiln_program_desc_release(&desc);
    }
    assert_int_equal(program_stats(s).failures, 20);
    assert_int_equal(program_stats(s).retained_failures, 4);
    assert_in_range(program_stats(s).retained_failure_bytes, 4 * 256, 64 << 10);
}

/* ---- programs whose kernels are held ---- */

enum { HELD = 10, MORE = 5 };

/* Evicting a program whose kernel is held would free nothing, and the program would have to be
 * built again. */
typedef struct held_scene {
    kiln_program_desc *descs[HELD + MORE];
    kiln_kernel *kernels[HELD + MORE];
} held_scene;

static void open_held(program_scene *s, held_scene *h)
{
    program_scene_open(s);
    for (int i = 0; i < HELD + MORE; i++) {
        char text[24];
        snprintf(text, sizeof text, "image %d", i);
        h->descs[i] = describe_image(s, text);
        kiln_program *program = get_from(h->descs[i], KILN_PROGRAM_FROM_BUILD);
        h->kernels[i] = kernel_of(program, "k", 0);
        kiln_program_release(&program);
        if (i >= HELD) {
            kiln_kernel_release(&h->kernels[i]);
        }
    }
}

static void close_held(held_scene *h)
{
    for (int i = 0; i < HELD + MORE; i++) {
        kiln_kernel_release(&h->kernels[i]);
        kiln_program_desc_release(&h->descs[i]);
    }
}

static void test_out_of_resources_keeps_programs_of_held_kernels(void **state)
{
    program_scene *s = *state;
    held_scene h = {0};
    open_held(s, &h);
    kiln_program_desc *wanted = describe_image(s, "wanted");
    script(&s->devices[0].build, 1, KILN_E_RESOURCES);
    touch(wanted, KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(program_stats(s).entries, HELD + 1);
    assert_int_equal(kernel_stats(s).entries, HELD);
    assert_int_equal(atomic_load(&s->devices[0].live_programs), HELD + 1);
    for (int i = 0; i < HELD; i++) {
        touch(h.descs[i], KILN_PROGRAM_FROM_MEMORY);
    }
    /* Once no kernel is held any longer, all programs may be evicted. */
    for (int i = 0; i < HELD; i++) {
        kiln_kernel_release(&h.kernels[i]);
    }
    kiln_program_desc *last = describe_image(s, "last");
    script(&s->devices[0].build, 1, KILN_E_RESOURCES);
    touch(last, KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(atomic_load(&s->devices[0].live_programs), 1);
    kiln_program_desc_release(&wanted);
    kiln_program_desc_release(&last);
    close_held(&h);
}

static void test_eviction_begins_with_programs_that_nobody_uses(void **state)
{
    program_scene *s = *state;
    s->params.policy = KILN_POLICY_LRU;
    s->params.max_programs = HELD + MORE;
    held_scene h = {0};
    open_held(s, &h);
    for (int i = 0; i < MORE; i++) {
        char text[24];
        snprintf(text, sizeof text, "more %d", i);
        kiln_program_desc *desc = describe_image(s, text);
        touch(desc, KILN_PROGRAM_FROM_BUILD);
        kiln_program_desc_release(&desc);
    }
    for (int i = 0; i < HELD; i++) {
        touch(h.descs[i], KILN_PROGRAM_FROM_MEMORY);
    }
    for (int i = HELD; i < HELD + MORE; i++) {
        touch(h.descs[i], KILN_PROGRAM_FROM_BUILD);
    }
    close_held(&h);
}

/* A kernel that was evicted from its map, or never was in it, holds its program like any other. */
static void test_kernels_in_no_map_hold_their_programs(void **state)
{
    program_scene *s = *state;
    s->params.max_kernels = 1;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image"), *wanted = describe_image(s, "wanted");
    kiln_program *program = get_from(desc, KILN_PROGRAM_FROM_BUILD);
    kiln_kernel *first = kernel_of(program, "a", 0), *second = kernel_of(program, "b", 0);
    assert_int_equal(kernel_stats(s).entries, 1);
    kiln_program_release(&program);
    kiln_kernel_release(&second);
    script(&s->devices[0].build, 1, KILN_E_RESOURCES);
    touch(wanted, KILN_PROGRAM_FROM_BUILD);
    touch(desc, KILN_PROGRAM_FROM_MEMORY);
    kiln_kernel_release(&first);
    kiln_program_desc_release(&desc);
    kiln_program_desc_release(&wanted);
}

/* ---- a device whose memory another thread is freeing ---- */

typedef struct slow_release {
    atomic_bool is_releasing, may_go;
} slow_release;

static slow_release *slow;

static void release_slowly(void *device, void *program)
{
    if (slow) {
        atomic_store(&slow->is_releasing, true);
        while (!atomic_load(&slow->may_go)) {
            sched_yield();
        }
    }
    scripted_cheap_ops.release_program(device, program);
}

static kiln_status build_if_there_is_room(void *device, const kiln_program_source *source,
                                          void **ret_program, char **ret_log)
{
    const scripted_device *scripted = device;
    return slow && atomic_load(&scripted->live_programs) > 1
               ? KILN_E_RESOURCES
               : scripted_cheap_ops.build(device, source, ret_program, ret_log);
}

typedef struct getter {
    pthread_t thread;
    const kiln_program_desc *desc;
    kiln_program *program;
    kiln_status status;
    atomic_bool is_done;
} getter;

static void *get_one(void *argument)
{
    getter *g = argument;
    g->status = kiln_program_get(g->desc, &g->program, NULL, NULL);
    atomic_store(&g->is_done, true);
    return NULL;
}

/* The device has room for two programs. One thread has evicted both and is still releasing them
 * when a second thread finds no room and nothing to evict. */
static void test_what_another_thread_is_freeing_is_waited_for(void **state)
{
    program_scene *s = *state;
    kiln_device_ops ops = scripted_cheap_ops;
    ops.build = build_if_there_is_room;
    ops.release_program = release_slowly;
    s->params.ops = &ops;
    program_scene_open(s);
    slow_release state_of_release = {0};
    kiln_program_desc *old[] = {describe_image(s, "a"), describe_image(s, "b")};
    kiln_program_desc *new[] = {describe_image(s, "c"), describe_image(s, "d")};
    touch(old[0], KILN_PROGRAM_FROM_BUILD);
    touch(old[1], KILN_PROGRAM_FROM_BUILD);
    slow = &state_of_release;
    getter getters[2] = {{.desc = new[0]}, {.desc = new[1]}};
    assert_int_equal(pthread_create(&getters[0].thread, NULL, get_one, &getters[0]), 0);
    while (!atomic_load(&slow->is_releasing)) {
        sched_yield();
    }
    assert_int_equal(pthread_create(&getters[1].thread, NULL, get_one, &getters[1]), 0);
    /* A call that did not wait would fail during this time. */
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    assert_false(atomic_load(&getters[1].is_done));
    atomic_store(&slow->may_go, true);
    for (int i = 0; i < 2; i++) {
        pthread_join(getters[i].thread, NULL);
        assert_int_equal(getters[i].status, KILN_OK);
    }
    slow = NULL;
    for (int i = 0; i < 2; i++) {
        kiln_program_release(&getters[i].program);
        kiln_program_desc_release(&old[i]);
        kiln_program_desc_release(&new[i]);
    }
    kiln_program_context_free(&s->context);
}

/* ---- keys ---- */

/* A look-up by an equal description compares the whole keys, so long parts would be slow. */
static void test_keys_of_the_maps_have_no_long_parts(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    char *text = calloc(1, 60001);
    memset(text, 'x', 60000);
    kiln_program_desc *first = describe_image(s, text), *second = describe_image(s, text);
    size_t size;
    kiln_key_encoding(first->memory_key, &size);
    assert_in_range(size, 1, 4096);
    assert_true(kiln_key_equals(first->memory_key, second->memory_key));
    kiln_kernel_desc *named = describe_kernel(first, text), *again = describe_kernel(second, text);
    void *handle = touch_kernel(named);
    assert_ptr_equal(touch_kernel(again), handle);
    text[30000] = 'y';
    kiln_program_desc *third = describe_image(s, text);
    assert_false(kiln_key_equals(first->memory_key, third->memory_key));
    assert_false(kiln_key_equals(first->key, third->key));
    kiln_program_desc *const descs[] = {first, second, third};
    for (int i = 0; i < 3; i++) {
        kiln_program_desc *desc = descs[i];
        kiln_program_desc_release(&desc);
    }
    kiln_kernel_desc_release(&named);
    kiln_kernel_desc_release(&again);
    free(text);
}

/* ---- uses ---- */

static void test_uses_of_kernels_count_for_the_program(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    kiln_program *program = get_from(desc, KILN_PROGRAM_FROM_BUILD);
    kiln_kernel_desc *named = describe_kernel(desc, "k");
    touch_kernel(named);
    const uint64_t before = frequency_of(program);
    touch_kernel(named);
    touch_kernel(named);
    assert_int_equal(frequency_of(program), before + 2);
    for (int i = 0; i < 20; i++) {
        touch_kernel(named);
    }
    assert_int_equal(frequency_of(program), KILNI_POLICY_MAX_FREQUENCY);
    kiln_program_release(&program);
    kiln_kernel_desc_release(&named);
    kiln_program_desc_release(&desc);
}

/* Uses of kernels keep their program, even when the number of uses reaches the largest frequency
 * that an object can have. */
static void test_uses_of_kernels_keep_the_program(void **state)
{
    program_scene *s = *state;
    s->params.max_programs = 2;
    s->params.policy = KILN_POLICY_LRU;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    kiln_kernel_desc *named = describe_kernel(desc, "k");
    for (int i = 0; i < 40; i++) {
        touch_kernel(named);
    }
    for (int i = 0; i < 3; i++) {
        const char text[] = {(char)('a' + i), '\0'};
        kiln_program_desc *other = describe_image(s, text);
        touch(other, KILN_PROGRAM_FROM_BUILD);
        kiln_program_desc_release(&other);
        touch_kernel(named);
    }
    touch(desc, KILN_PROGRAM_FROM_MEMORY);
    assert_int_equal(atomic_load(&s->devices[0].kernel.count), 1);
    kiln_kernel_desc_release(&named);
    kiln_program_desc_release(&desc);
}

/* ---- devices that share ---- */

static void test_adopted_programs_serve_all_that_share_their_device(void **state)
{
    program_scene *s = *state;
    s->params.device_count = 3;
    for (int i = 0; i < 3; i++) {
        s->devices[i].kind = i < 2 ? 1 : 2;
    }
    program_scene_open(s);
    for (size_t on = 0; on < 2; on++) {
        kiln_program_desc *desc = describe_image(s, "image");
        void *handle = NULL;
        char *log = NULL;
        assert_int_equal(scripted_cheap_ops.build(&s->devices[on], &desc->source, &handle, &log),
                         KILN_OK);
        kiln_program *program = NULL;
        assert_int_equal(kiln_program_adopt(s->context, on, handle, &program), KILN_OK);
        for (size_t device = 0; device < 2; device++) {
            kiln_kernel *kernel = kernel_of(program, "k", device);
            kiln_kernel_release(&kernel);
        }
        kiln_kernel *none = NULL;
        assert_int_equal(kiln_program_get_kernel(program, "k", 2, &none, NULL), KILN_E_INVALID);
        kiln_program *other = NULL;
        scripted_program *others = NULL;
        assert_int_equal(scripted_build(&s->devices[2], 1, &others), KILN_OK);
        assert_int_equal(kiln_program_adopt(s->context, 2, others, &other), KILN_OK);
        assert_int_equal(kiln_program_get_kernel(other, "k", on, &none, NULL), KILN_E_INVALID);
        kiln_kernel *kernel = kernel_of(other, "k", 2);
        kiln_kernel_release(&kernel);
        kiln_program_release(&other);
        assert_int_equal(atomic_load(&s->devices[on].live_programs), 1);
        kiln_program_release(&program);
        assert_int_equal(atomic_load(&s->devices[on].live_programs), 0);
        kiln_program_desc_release(&desc);
    }
}

/* ---- after the context ---- */

static void test_held_program_outlives_its_context(void **state)
{
    program_scene *s = *state;
    char directory[SCRATCH_DIRECTORY_SIZE];
    scratch_make(directory);
    assert_int_equal(kiln_store_open(directory, NULL, &s->params.store, NULL), KILN_OK);
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image"), *absent = describe_image(s, "other");
    kiln_kernel_desc *named = describe_kernel(desc, "k");
    kiln_program *program = get_from(desc, KILN_PROGRAM_FROM_BUILD), *again = NULL;
    uint8_t blob[8192];
    size_t size = sizeof blob;
    assert_int_equal(kiln_program_get_cache_blob(program, &size, blob), KILN_OK);
    touch_kernel(named);
    kiln_program_context_free(&s->context);
    kiln_kernel *kernel = kernel_of(program, "k", 0);
    kiln_program_caching caching = {.struct_size = sizeof caching};
    assert_int_equal(kiln_program_get_caching(program, &caching), KILN_OK);
    assert_int_equal(caching.memory, KILN_UNCACHED_OFF);
    assert_int_equal(caching.store, KILN_UNCACHED_OFF);
    assert_int_equal(kiln_program_get(absent, &again, NULL, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_program_get(desc, &again, NULL, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_program_create_from_cache_blob(desc, size, blob, &again, NULL, NULL),
                     KILN_E_INVALID);
    assert_null(again);
    kiln_kernel *other = NULL;
    assert_int_equal(kiln_kernel_get(named, &other, NULL), KILN_E_INVALID);
    kiln_program_release(&program);
    assert_int_equal(atomic_load(&s->devices[0].live_programs), 1);
    kiln_kernel_release(&kernel);
    assert_int_equal(atomic_load(&s->devices[0].live_programs), 0);
    kiln_kernel_desc_release(&named);
    kiln_program_desc_release(&absent);
    kiln_program_desc_release(&desc);
    kiln_store_close(&s->params.store);
    scratch_remove(directory);
}

#define TEST(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, program_scene_set_up, program_scene_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_kernels_are_evicted_with_their_programs),
        TEST(test_out_of_resources_keeps_programs_of_held_kernels),
        TEST(test_eviction_begins_with_programs_that_nobody_uses),
        TEST(test_kernels_in_no_map_hold_their_programs),
        TEST(test_what_another_thread_is_freeing_is_waited_for),
        TEST(test_failures_that_are_kept_are_bounded),
        TEST(test_keys_of_the_maps_have_no_long_parts),
        TEST(test_uses_of_kernels_count_for_the_program),
        TEST(test_uses_of_kernels_keep_the_program),
        TEST(test_adopted_programs_serve_all_that_share_their_device),
        TEST(test_held_program_outlives_its_context),
    };
    return cmocka_run_group_tests_name("program maps", tests, NULL, NULL);
}
