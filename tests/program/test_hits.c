/* SPDX-License-Identifier: Apache-2.0
 *
 * A look-up that hits in memory takes no lock, allocates nothing, hashes nothing and makes no
 * system call.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "key/hash.h"
#include "support/constant_scene.h"
#include "support/failing_malloc.h"
#include "support/program_scene.h"

#define HITS 1000

/* ---- what it costs ---- */

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_trylock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex);

kiln_digest __real_kilni_hash(const void *bytes, size_t size);
kiln_digest __wrap_kilni_hash(const void *bytes, size_t size);

static atomic_int locks, hashes;

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    atomic_fetch_add(&locks, 1);
    return __real_pthread_mutex_lock(mutex);
}

int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    atomic_fetch_add(&locks, 1);
    return __real_pthread_mutex_trylock(mutex);
}

kiln_digest __wrap_kilni_hash(const void *bytes, size_t size)
{
    atomic_fetch_add(&hashes, 1);
    return __real_kilni_hash(bytes, size);
}

typedef void (*hit_fn)(void *user);

static void hit_often(hit_fn hit, void *user)
{
    for (int i = 0; i < HITS; i++) {
        hit(user);
    }
}

/* The hit runs in a child process that may only read, write and exit. Sanitizers make system calls
 * themselves, so system calls are not checked under them. */
static void check_system_calls(hit_fn hit, void *user)
{
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        hit(user);
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0) {
            hit_often(hit, user);
        }
        syscall(SYS_exit, 0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
#else
    (void)hit, (void)user;
#endif
}

/* The first look-up of a thread registers the thread. Its first pin on an object that has been
 * pinned often allocates the thread's tally. */
static void check_cost(hit_fn hit, void *user)
{
    hit_often(hit, user);
    failing_malloc_arm(SIZE_MAX);
    atomic_store(&locks, 0);
    atomic_store(&hashes, 0);
    hit_often(hit, user);
    const int taken = atomic_load(&locks);
    assert_int_equal(failing_malloc_disarm(), 0);
    assert_int_equal(taken, 0);
    assert_int_equal(atomic_load(&hashes), 0);
    check_system_calls(hit, user);
}

/* ---- objects ---- */

typedef struct object_scene {
    kiln_cache *cache;
    kiln_key *key;
    int object;
} object_scene;

/* Does nothing: the object belongs to the test. */
static void leave(void *user, void *object)
{
    (void)user, (void)object;
}

static kiln_status give(void *user, const kiln_key *key, kiln_built *ret_built, kiln_error *error)
{
    (void)key, (void)error;
    *ret_built = (kiln_built){.object = user, .bytes = 1};
    return KILN_OK;
}

static void take_the_result(void *user)
{
    object_scene *s = user;
    kiln_pin *pin = NULL;
    assert_int_equal(kiln_cache_get_or_build(s->cache, s->key, give, &s->object, &pin, NULL),
                     KILN_OK);
    assert_ptr_equal(kiln_pin_object(pin), &s->object);
    kiln_pin_release(&pin);
}

static void peek_at_the_result(void *user)
{
    object_scene *s = user;
    kiln_section section;
    kiln_section_enter(s->cache, &section);
    assert_ptr_equal(kiln_cache_peek(&section, s->key), &s->object);
    kiln_section_leave(&section);
}

static void test_a_result_that_is_ready(void **state)
{
    (void)state;
    object_scene s = {.key = key_of("object")};
    const kiln_cache_params params = {.struct_size = sizeof params, .destroy = leave};
    assert_int_equal(kiln_cache_new(&params, &s.cache), KILN_OK);
    check_cost(take_the_result, &s);
    check_cost(peek_at_the_result, &s);
    kiln_cache_free(&s.cache);
    kiln_key_release(&s.key);
}

/* ---- programs and kernels ---- */

typedef struct kernel_scene {
    program_scene programs;
    kiln_program_desc *program;
    kiln_kernel_desc *kernel;
} kernel_scene;

static void find_program(void *user)
{
    kernel_scene *s = user;
    kiln_program *program = NULL;
    assert_int_equal(kiln_program_get(s->program, &program, NULL, NULL), KILN_OK);
    kiln_program_release(&program);
}

static void find_kernel(void *user)
{
    touch_kernel(((kernel_scene *)user)->kernel);
}

static void peek_at_kernel(void *user)
{
    kernel_scene *s = user;
    kiln_section section;
    kiln_kernel_section_enter(s->programs.context, &section);
    assert_non_null(kiln_kernel_peek(&section, s->kernel));
    kiln_section_leave(&section);
}

static void test_a_program_and_its_kernel(void **state)
{
    (void)state;
    kernel_scene s = {0};
    program_scene_init(&s.programs);
    program_scene_open(&s.programs);
    s.program = describe_image(&s.programs, "image");
    s.kernel = describe_kernel(s.program, "k");
    check_cost(find_program, &s);
    check_cost(find_kernel, &s);
    check_cost(peek_at_kernel, &s);
    /* A kernel in memory is found without a look-up of its program. */
    const uint64_t hits = program_stats(&s.programs).hits;
    find_kernel(&s);
    assert_int_equal(program_stats(&s.programs).hits, hits);
    kiln_kernel_desc_release(&s.kernel);
    kiln_program_desc_release(&s.program);
    assert_true(program_scene_close(&s.programs));
}

/* ---- constants ---- */

typedef struct constant_hit {
    kiln_constant_cache *cache;
    kiln_key *key;
    kiln_watch *watch;
} constant_hit;

static void find_constant(void *user)
{
    constant_hit *s = user;
    const kiln_constant_params params = {.struct_size = sizeof params};
    kiln_reservation answer = {0};
    assert_int_equal(kiln_constant_get_or_add(s->cache, s->key, 8, &params, &answer, NULL),
                     KILN_OK);
    assert_int_equal(answer.outcome, KILN_HIT);
    kiln_pin_release(&answer.pin);
}

static void look_at_handle(void *user)
{
    assert_int_equal(kiln_watch_is_live(((constant_hit *)user)->watch), 1);
}

static void test_a_constant_and_a_held_handle(void **state)
{
    (void)state;
    backend b;
    backend_init(&b);
    constant_hit s = {.cache = new_device(), .key = key_of("weights")};
    kiln_pin *pin = put_as(&b, s.cache, s.key, 8, 1, 0);
    assert_int_equal(kiln_pin_watch(pin, &s.watch), KILN_OK);
    kiln_pin_release(&pin);
    check_cost(find_constant, &s);
    check_cost(look_at_handle, &s);
    kiln_watch_free(&s.watch);
    assert_int_equal(kiln_constant_remove_if_exist(s.cache, s.key), KILN_OK);
    kiln_key_release(&s.key);
}

/* Checks that the counters of locks, allocations and hashes work at all. */
static void test_misses_have_a_cost(void **state)
{
    (void)state;
    atomic_store(&hashes, 0);
    object_scene s = {.key = key_of("object")};
    assert_true(atomic_load(&hashes) > 0);
    const kiln_cache_params params = {.struct_size = sizeof params, .destroy = leave};
    assert_int_equal(kiln_cache_new(&params, &s.cache), KILN_OK);
    failing_malloc_arm(SIZE_MAX);
    atomic_store(&locks, 0);
    take_the_result(&s);
    assert_true(atomic_load(&locks) > 0);
    assert_true(failing_malloc_disarm() > 0);
    kiln_cache_free(&s.cache);
    kiln_key_release(&s.key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_misses_have_a_cost),
        cmocka_unit_test(test_a_result_that_is_ready),
        cmocka_unit_test(test_a_program_and_its_kernel),
        cmocka_unit_test(test_a_constant_and_a_held_handle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
