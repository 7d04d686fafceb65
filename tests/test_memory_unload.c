/* SPDX-License-Identifier: Apache-2.0
 *
 * The library is unloaded while threads that looked things up go on, and end later.
 *
 *     test_memory_unload LIBRARY
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#include <kiln/cache.h>

enum { THREADS = 24, ROUNDS = 3 };

static const char *library_path;

/* What the test calls of the library. */
static struct calls {
    __typeof__(&kiln_cache_new) cache_new;
    __typeof__(&kiln_cache_free) cache_free;
    __typeof__(&kiln_section_enter) section_enter;
    __typeof__(&kiln_section_leave) section_leave;
    __typeof__(&kiln_cache_peek) peek;
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
    *(void **)&calls.builder_new = find(library, "kiln_key_builder_new");
    *(void **)&calls.builder_free = find(library, "kiln_key_builder_free");
    *(void **)&calls.builder_finish = find(library, "kiln_key_builder_finish");
    *(void **)&calls.key_release = find(library, "kiln_key_release");
}

typedef struct scene {
    kiln_cache *cache;
    kiln_key *key;
    pthread_barrier_t looked, unloaded;
} scene;

static void *look_and_stay(void *argument)
{
    scene *s = argument;
    kiln_section section;
    calls.section_enter(s->cache, &section);
    calls.peek(&section, s->key);
    calls.section_leave(&section);
    pthread_barrier_wait(&s->looked);
    pthread_barrier_wait(&s->unloaded);
    return NULL;
}

static void load_and_unload(void)
{
    void *library = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    find_calls(library);
    scene s = {0};
    kiln_key_builder *builder = NULL;
    assert_int_equal(calls.builder_new(&builder), KILN_OK);
    assert_int_equal(calls.builder_finish(builder, &s.key), KILN_OK);
    calls.builder_free(&builder);
    assert_int_equal(calls.cache_new(NULL, &s.cache), KILN_OK);
    pthread_barrier_init(&s.looked, NULL, THREADS + 1);
    pthread_barrier_init(&s.unloaded, NULL, THREADS + 1);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, look_and_stay, &s), 0);
    }
    pthread_barrier_wait(&s.looked);
    calls.cache_free(&s.cache);
    calls.key_release(&s.key);
    assert_int_equal(dlclose(library), 0);
    /* It is gone, else this test would say nothing. */
    assert_null(dlopen(library_path, RTLD_NOW | RTLD_NOLOAD));
    pthread_barrier_wait(&s.unloaded);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    pthread_barrier_destroy(&s.looked);
    pthread_barrier_destroy(&s.unloaded);
}

static void test_threads_outlive_the_library(void **state)
{
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        load_and_unload();
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: test_memory_unload LIBRARY\n");
        return 2;
    }
    library_path = argv[1];
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads_outlive_the_library)};
    return cmocka_run_group_tests_name("memory unload", tests, NULL, NULL);
}
