/* SPDX-License-Identifier: Apache-2.0
 *
 * The map of kernels: its bound, and the lock of a kernel that threads share.
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
    bool is_first_done; /* by who has the lock */
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

/* Who comes second gets in once the first is done. The rest is what a lock that is none would need
 * to let it in before. */
static void test_a_kernels_lock_is_one_threads(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_bound_counts_kernels),
        cmocka_unit_test(test_a_kernels_lock_is_one_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
