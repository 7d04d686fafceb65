/* SPDX-License-Identifier: Apache-2.0
 *
 * A program closes the library while threads that used it still run, or while threads are inside
 * it. The library stays loaded.
 *
 *   test_memory_unload LIBRARY
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include <kiln/cache.h>

enum { THREADS = 24, ROUNDS = 3 };

static const char *library_path;

/* The functions of the library that the test calls. */
static struct calls {
    __typeof__(&kiln_cache_new) cache_new;
    __typeof__(&kiln_cache_free) cache_free;
    __typeof__(&kiln_section_enter) section_enter;
    __typeof__(&kiln_section_leave) section_leave;
    __typeof__(&kiln_cache_peek) peek;
    __typeof__(&kiln_cache_get_or_build) get_or_build;
    __typeof__(&kiln_cache_clear) clear;
    __typeof__(&kiln_pin_release) pin_release;
    __typeof__(&kiln_key_builder_new) builder_new;
    __typeof__(&kiln_key_builder_free) builder_free;
    __typeof__(&kiln_key_builder_finish) builder_finish;
    __typeof__(&kiln_key_release) key_release;
} calls;

static void *find(void *library, const char *name)
{
    void *found = dlsym(library, name);
    assert_non_null(found);
    return found;
}

static void find_calls(void *library)
{
    *(void **)&calls.cache_new = find(library, "kiln_cache_new");
    *(void **)&calls.cache_free = find(library, "kiln_cache_free");
    *(void **)&calls.section_enter = find(library, "kiln_section_enter");
    *(void **)&calls.section_leave = find(library, "kiln_section_leave");
    *(void **)&calls.peek = find(library, "kiln_cache_peek");
    *(void **)&calls.get_or_build = find(library, "kiln_cache_get_or_build");
    *(void **)&calls.clear = find(library, "kiln_cache_clear");
    *(void **)&calls.pin_release = find(library, "kiln_pin_release");
    *(void **)&calls.builder_new = find(library, "kiln_key_builder_new");
    *(void **)&calls.builder_free = find(library, "kiln_key_builder_free");
    *(void **)&calls.builder_finish = find(library, "kiln_key_builder_finish");
    *(void **)&calls.key_release = find(library, "kiln_key_release");
}

typedef struct scene {
    kiln_cache *cache;
    kiln_key *key;
    pthread_barrier_t looked, closed;
    pthread_barrier_t destroying;
    bool is_destroyed;
} scene;

static void *open_library(scene *s, kiln_destroy_fn destroy, unsigned thread_count)
{
    void *library = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    find_calls(library);
    kiln_key_builder *builder = NULL;
    const kiln_cache_params params = {.struct_size = sizeof params, .destroy = destroy, .user = s};
    assert_int_equal(calls.builder_new(&builder), KILN_OK);
    assert_int_equal(calls.builder_finish(builder, &s->key), KILN_OK);
    calls.builder_free(&builder);
    assert_int_equal(calls.cache_new(&params, &s->cache), KILN_OK);
    pthread_barrier_init(&s->looked, NULL, thread_count + 1);
    pthread_barrier_init(&s->closed, NULL, thread_count + 1);
    pthread_barrier_init(&s->destroying, NULL, thread_count + 1);
    return library;
}

static void close_library(void *library)
{
    assert_int_equal(dlclose(library), 0);
    void *still = dlopen(library_path, RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(still);
    dlclose(still);
}

static void end_barriers(scene *s)
{
    pthread_barrier_destroy(&s->looked);
    pthread_barrier_destroy(&s->closed);
    pthread_barrier_destroy(&s->destroying);
}

/* ---- threads that end later ---- */

static void *look_and_stay(void *argument)
{
    scene *s = argument;
    kiln_section section;
    calls.section_enter(s->cache, &section);
    calls.peek(&section, s->key);
    calls.section_leave(&section);
    pthread_barrier_wait(&s->looked);
    pthread_barrier_wait(&s->closed);
    return NULL;
}

static void load_and_close(void)
{
    scene s = {0};
    void *library = open_library(&s, NULL, THREADS);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, look_and_stay, &s), 0);
    }
    pthread_barrier_wait(&s.looked);
    calls.cache_free(&s.cache);
    calls.key_release(&s.key);
    close_library(library);
    pthread_barrier_wait(&s.closed);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    end_barriers(&s);
}

static void test_threads_end_after_the_library_was_closed(void **state)
{
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        load_and_close();
    }
}

/* ---- a thread that destroys an object ---- */

static kiln_status build(void *user, const kiln_key *key, kiln_built *ret_built, kiln_error *error)
{
    (void)key, (void)error;
    *ret_built = (kiln_built){.object = user, .bytes = 1};
    return KILN_OK;
}

/* The library calls this function, which returns only after the library was closed. */
static void destroy_slowly(void *user, void *object)
{
    scene *s = user;
    (void)object;
    pthread_barrier_wait(&s->destroying);
    pthread_barrier_wait(&s->closed);
    s->is_destroyed = true;
}

/* Looks the object up first, so that code of the library also runs at the end of the thread. */
static void *look_and_clear(void *argument)
{
    scene *s = argument;
    kiln_section section;
    calls.section_enter(s->cache, &section);
    calls.peek(&section, s->key);
    calls.section_leave(&section);
    calls.clear(s->cache);
    return NULL;
}

static void test_the_library_is_closed_while_a_thread_is_in_it(void **state)
{
    (void)state;
    scene s = {0};
    kiln_pin *pin = NULL;
    pthread_t thread;
    void *library = open_library(&s, destroy_slowly, 1);
    assert_int_equal(calls.get_or_build(s.cache, s.key, build, &s, &pin, NULL), KILN_OK);
    calls.pin_release(&pin);
    assert_int_equal(pthread_create(&thread, NULL, look_and_clear, &s), 0);
    pthread_barrier_wait(&s.destroying);
    close_library(library);
    pthread_barrier_wait(&s.closed);
    pthread_join(thread, NULL);
    assert_true(s.is_destroyed);
    /* Valid, because the library is still loaded. */
    calls.cache_free(&s.cache);
    calls.key_release(&s.key);
    end_barriers(&s);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: test_memory_unload LIBRARY\n");
        return 2;
    }
    library_path = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_library_is_closed_while_a_thread_is_in_it),
        cmocka_unit_test(test_threads_end_after_the_library_was_closed),
    };
    return cmocka_run_group_tests_name("memory unload", tests, NULL, NULL);
}
