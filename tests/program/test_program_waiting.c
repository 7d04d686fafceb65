/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs that another thread is building: deadlines, and pending answers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "support/program_scene.h"

/* A build that lasts until the test lets it continue. */
typedef struct slow_build {
    pthread_t thread;
    const kiln_program_desc *desc;
    kiln_program *program;
    kiln_status status;
    atomic_bool is_building, may_go;
} slow_build;

static void wait_in_build(void *user)
{
    slow_build *b = user;
    atomic_store(&b->is_building, true);
    while (!atomic_load(&b->may_go)) {
        sched_yield();
    }
}

static void *get_slowly(void *argument)
{
    slow_build *b = argument;
    b->status = kiln_program_get(b->desc, &b->program, NULL, NULL);
    return NULL;
}

static void start_build(program_scene *s, slow_build *b, const kiln_program_desc *desc)
{
    *b = (slow_build){.desc = desc};
    s->devices[0].while_building = wait_in_build;
    s->devices[0].user = b;
    assert_int_equal(pthread_create(&b->thread, NULL, get_slowly, b), 0);
    while (!atomic_load(&b->is_building)) {
        sched_yield();
    }
    s->devices[0].while_building = NULL;
}

static void end_build(slow_build *b, kiln_status status)
{
    atomic_store(&b->may_go, true);
    pthread_join(b->thread, NULL);
    assert_int_equal(b->status, status);
    kiln_program_release(&b->program);
}

static void count(void *user)
{
    atomic_fetch_add((atomic_int *)user, 1);
}

static void test_waiting_for_a_program_ends_with_its_time(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    slow_build b;
    start_build(s, &b, desc);
    kiln_program *program = NULL;
    static const uint64_t waits[] = {KILN_NO_WAIT, 1000000};
    for (int i = 0; i < 2; i++) {
        const kiln_program_params params = {.struct_size = sizeof params, .wait_ns = waits[i]};
        assert_int_equal(kiln_program_obtain(desc, &params, &program, NULL, NULL), KILN_TIMEOUT);
        assert_null(program);
    }
    end_build(&b, KILN_OK);
    const kiln_program_params params = {.struct_size = sizeof params, .wait_ns = KILN_NO_WAIT};
    kiln_program_result result = {.struct_size = sizeof result};
    assert_int_equal(kiln_program_obtain(desc, &params, &program, &result, NULL), KILN_OK);
    assert_int_equal(result.from, KILN_PROGRAM_FROM_MEMORY);
    kiln_program_release(&program);
    struct {
        kiln_program_params known;
        uint64_t later;
    } longer = {.known = {.struct_size = sizeof longer}, .later = 1};
    assert_int_equal(kiln_program_obtain(desc, &longer.known, &program, NULL, NULL),
                     KILN_E_INVALID);
    kiln_program_desc_release(&desc);
}

static void test_a_find_neither_builds_nor_waits(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    kiln_program *program = NULL;
    kiln_pending *pending = NULL;
    assert_int_equal(kiln_program_find(desc, &program, &pending, NULL), KILN_MISS);
    assert_int_equal(atomic_load(&s->devices[0].build.count), 0);
    assert_int_equal(program_stats(s).failures, 0);
    slow_build b;
    start_build(s, &b, desc);
    assert_int_equal(kiln_program_find(desc, &program, &pending, NULL), KILN_BUSY);
    assert_null(program);
    atomic_int called = 0;
    assert_int_equal(kiln_pending_notify(pending, count, &called), KILN_OK);
    assert_int_equal(kiln_program_wait(pending, KILN_NO_WAIT, &program, NULL), KILN_TIMEOUT);
    assert_int_equal(atomic_load(&called), 0);
    end_build(&b, KILN_OK);
    assert_int_equal(atomic_load(&called), 1);
    assert_int_equal(kiln_program_wait(pending, 0, &program, NULL), KILN_OK);
    assert_non_null(kiln_program_handle(program));
    kiln_program_release(&program);
    kiln_pending_drop(&pending);
    assert_int_equal(kiln_program_find(desc, &program, &pending, NULL), KILN_OK);
    assert_null(pending);
    kiln_program_release(&program);
    assert_int_equal(kiln_program_find(NULL, &program, &pending, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_program_wait(NULL, 0, &program, NULL), KILN_E_INVALID);
    kiln_program_desc_release(&desc);
}

/* A lasting failure is reported to all waiting callers; after a transient failure the next caller
 * builds.
 */
static void test_pending_programs_that_are_never_built(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    static const struct {
        kiln_status failure, answer;
    } cases[] = {{KILN_E_BUILD, KILN_E_BUILD},
                 {KILN_E_UNSUPPORTED, KILN_E_UNSUPPORTED},
                 {KILN_E_IO, KILN_MISS}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kiln_program_desc *desc = describe_image(s, "image");
        script(&s->devices[0].build, 1, cases[i].failure);
        slow_build b;
        start_build(s, &b, desc);
        kiln_program *program = NULL;
        kiln_pending *pending = NULL;
        assert_int_equal(kiln_program_find(desc, &program, &pending, NULL), KILN_BUSY);
        end_build(&b, cases[i].failure);
        assert_int_equal(kiln_program_wait(pending, 0, &program, NULL), cases[i].answer);
        kiln_pending_drop(&pending);
        kiln_program_desc_release(&desc);
    }
}

#define TEST(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, program_scene_set_up, program_scene_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_waiting_for_a_program_ends_with_its_time),
        TEST(test_a_find_neither_builds_nor_waits),
        TEST(test_pending_programs_that_are_never_built),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
