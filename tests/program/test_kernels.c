/* SPDX-License-Identifier: Apache-2.0
 *
 * The map of kernels: its limit, the lock of a kernel that threads share, and a kernel that can't
 * be made.
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
#include <time.h>

#include "support/program_scene.h"

static void test_the_bound_counts_kernels(void **state)
{
    (void)state;
    program_scene s = {0};
    program_scene_init(&s);
    s.params.max_kernels = 2;
    program_scene_open(&s);
    kiln_program_desc *program = describe_image(&s, "image");
    for (int i = 0; i < 5; i++) {
        char name[16];
        snprintf(name, sizeof name, "k%d", i);
        kiln_kernel_desc *kernel = describe_kernel(program, name);
        touch_kernel(kernel);
        kiln_kernel_desc_release(&kernel);
        assert_int_equal(kernel_stats(&s).entries, i < 2 ? i + 1 : 2);
        assert_int_equal(atomic_load(&s.devices[0].live_kernels), i < 2 ? i + 1 : 2);
    }
    assert_int_equal(program_stats(&s).entries, 1);
    kiln_program_desc_release(&program);
    assert_true(program_scene_close(&s));
}

typedef struct second {
    kiln_kernel *kernel;
    atomic_bool is_coming, was_let_in;
    bool is_first_done; /* written under the lock */
    bool saw_first_done;
} second;

static void *lock_too(void *user)
{
    second *other = user;
    atomic_store(&other->is_coming, true);
    kiln_kernel_lock(other->kernel);
    atomic_store(&other->was_let_in, true);
    other->saw_first_done = other->is_first_done;
    kiln_kernel_unlock(other->kernel);
    return NULL;
}

/* The second thread gets the lock once the first has released it. If the lock did not work, the
 * second thread would get in during the sleep. */
static void test_a_kernels_lock_excludes_other_threads(void **state)
{
    (void)state;
    program_scene s = {0};
    program_scene_init(&s);
    program_scene_open(&s);
    kiln_program_desc *program = describe_image(&s, "image");
    kiln_kernel_desc *named = describe_kernel(program, "k");
    second other = {0};
    assert_int_equal(kiln_kernel_get(named, &other.kernel, NULL), KILN_OK);
    pthread_t thread;
    kiln_kernel_lock(other.kernel);
    assert_int_equal(pthread_create(&thread, NULL, lock_too, &other), 0);
    while (!atomic_load(&other.is_coming)) {
        sched_yield();
    }
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    assert_false(atomic_load(&other.was_let_in));
    other.is_first_done = true;
    kiln_kernel_unlock(other.kernel);
    pthread_join(thread, NULL);
    assert_true(other.saw_first_done);
    kiln_kernel_lock(NULL);
    kiln_kernel_unlock(NULL);
    kiln_kernel_release(&other.kernel);
    kiln_kernel_desc_release(&named);
    kiln_program_desc_release(&program);
    assert_true(program_scene_close(&s));
}

/* ---- a kernel that fails while another thread waits for it ---- */

static kiln_program_context
    *awaited; /* a thread must wait in this context's map of kernels first */

static kiln_status make_kernel_awaited(void *device, void *program, const char *name,
                                       void **ret_kernel)
{
    kiln_cache_stats stats = {.struct_size = sizeof stats};
    while (kiln_program_context_get_kernel_stats(awaited, &stats) == KILN_OK && stats.waits == 0) {
        sched_yield();
    }
    return scripted_cheap_ops.kernel(device, program, name, ret_kernel);
}

typedef struct asker {
    const kiln_kernel_desc *desc;
    kiln_status status;
    pthread_t thread;
} asker;

static void *ask(void *user)
{
    asker *a = user;
    kiln_kernel *kernel = NULL;
    a->status = kiln_kernel_get(a->desc, &kernel, NULL);
    kiln_kernel_release(&kernel);
    return NULL;
}

/* Only the first thread gets the device's failure; every other thread asks the device itself. */
static void test_own_failure_does_not_reach_waiters(void **state)
{
    (void)state;
    program_scene s = {0};
    program_scene_init(&s);
    kiln_device_ops ops = scripted_cheap_ops;
    ops.kernel = make_kernel_awaited;
    s.params.ops = &ops;
    program_scene_open(&s);
    awaited = s.context;
    kiln_program_desc *program = describe_image(&s, "image");
    kiln_kernel_desc *named = describe_kernel(program, "k");
    script(&s.devices[0].kernel, 1, KILN_E_IO);
    asker askers[2] = {{.desc = named}, {.desc = named}};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&askers[i].thread, NULL, ask, &askers[i]), 0);
    }
    int failed = 0;
    for (int i = 0; i < 2; i++) {
        pthread_join(askers[i].thread, NULL);
        failed += askers[i].status == KILN_E_IO;
        assert_true(askers[i].status == KILN_E_IO || askers[i].status == KILN_OK);
    }
    assert_int_equal(failed, 1);
    assert_int_equal(atomic_load(&s.devices[0].kernel.count), 2);
    kiln_kernel_desc_release(&named);
    kiln_program_desc_release(&program);
    assert_true(program_scene_close(&s));
}

/* A held kernel keeps its program, which counts as lingering once it has left the map. */
static void test_a_program_that_its_kernels_keep_lingers(void **state)
{
    (void)state;
    program_scene s = {0};
    program_scene_init(&s);
    s.devices[0].bytes = 1000;
    program_scene_open(&s);
    kiln_program_desc *desc = describe_image(&s, "image");
    kiln_program *program = NULL;
    kiln_kernel *kernels[2] = {NULL};
    assert_int_equal(kiln_program_get(desc, &program, NULL, NULL), KILN_OK);
    for (int i = 0; i < 2; i++) {
        const char *name = i == 0 ? "k" : "l";
        assert_int_equal(kiln_program_get_kernel(program, name, 0, &kernels[i], NULL), KILN_OK);
    }
    assert_int_equal(program_stats(&s).lingering_entries, 0);
    kiln_program_context_clear(s.context);
    assert_int_equal(program_stats(&s).lingering_entries, 1);
    kiln_program_release(&program);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(program_stats(&s).lingering_entries, 1);
        assert_int_equal(program_stats(&s).lingering_bytes, 1000);
        kiln_kernel_release(&kernels[i]);
    }
    assert_int_equal(program_stats(&s).lingering_entries, 0);
    assert_int_equal(program_stats(&s).lingering_bytes, 0);
    kiln_program_desc_release(&desc);
    assert_true(program_scene_close(&s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_program_that_its_kernels_keep_lingers),
        cmocka_unit_test(test_the_bound_counts_kernels),
        cmocka_unit_test(test_a_kernels_lock_excludes_other_threads),
        cmocka_unit_test(test_own_failure_does_not_reach_waiters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
