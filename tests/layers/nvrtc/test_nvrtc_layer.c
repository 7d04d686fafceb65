/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the layer of NVRTC without its audit library, with a stand-in for libnvrtc: whichever
 * resource the layer runs out of, the program gets NVRTC's answers.
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
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../../layers/nvrtc/hooks.h"
#include "../../../layers/shared/session.h"
#include "support/failing_malloc.h"

nvrtc_layer_entry kiln_nvrtc_layer_hooks;

static struct link_map *map;
static kilni_nvrtc_functions real;
static const nvrtc_hooks *hooks;
static nvrtc_library *library;

/* ---- a program ---- */

/* Returns the stand-in's output for a source without directives, and one option. */
static char *expected_ptx(const char *source)
{
    char *ptx = NULL;
    assert_true(asprintf(&ptx, "%s\n// -x\n", source) > 0);
    return ptx;
}

static void check_answers(kilni_nvrtc_program program, const char *ptx)
{
    size_t size = 0;
    const char *name = NULL;
    assert_int_equal(hooks->size(library, program, KILNI_NVRTC_PTX, &size), 0);
    assert_int_equal(size, strlen(ptx) + 1);
    char *bytes = malloc(size);
    while (!bytes) {
        bytes = malloc(size); /* the failing allocation may have been this one; the next succeeds */
    }
    assert_int_equal(hooks->get(library, program, KILNI_NVRTC_PTX, bytes), 0);
    assert_string_equal(bytes, ptx);
    free(bytes);
    assert_int_equal(hooks->lowered_name(library, program, "f<int>", &name), 0);
    assert_string_equal(name, "_Z_f<int>");
    assert_int_equal(hooks->add_name(library, program, "late"),
                     KILNI_NVRTC_NAMES_AFTER_COMPILATION);
}

static void compile_and_check(const char *source, const char *ptx)
{
    static const char *const options[] = {"-x"}, *const names[] = {"h.h"}, *const headers[] = {""};
    kilni_nvrtc_program program = NULL;
    assert_int_equal(hooks->create(library, &program, source, "/a/k.cu", 1, headers, names), 0);
    assert_int_equal(hooks->add_name(library, program, "f<int>"), 0);
    assert_int_equal(hooks->compile(library, program, 1, options), 0);
    check_answers(program, ptx);
    assert_int_equal(hooks->destroy(library, &program), 0);
    assert_null(program);
}

/* ---- out of memory ---- */

static void test_memory_runs_out_while_compiling(void **state)
{
    (void)state;
    size_t asked = 0, n = 1;
    for (; n == 1 || asked >= n - 1; n++) {
        char source[64];
        snprintf(source, sizeof source, "source number %zu", n);
        char *ptx = expected_ptx(source);
        failing_malloc_arm(n);
        compile_and_check(source, ptx);
        asked = failing_malloc_disarm();
        free(ptx);
    }
    assert_true(n > 30);
}

static void test_memory_runs_out_while_looking_up(void **state)
{
    (void)state;
    static const char source[] = "always the same";
    char *ptx = expected_ptx(source);
    size_t asked = 0, n = 1;
    compile_and_check(source, ptx);
    for (; n == 1 || asked >= n - 1; n++) {
        failing_malloc_arm(n);
        compile_and_check(source, ptx);
        asked = failing_malloc_disarm();
    }
    assert_true(n > 8);
    free(ptx);
}

static void test_attaching(void **state)
{
    (void)state;
    assert_ptr_equal(hooks->attach(map, &real), library); /* the library is attached already */
    kilni_nvrtc_functions lacking = real;
    lacking.compile = NULL;
    struct link_map other = *map;
    assert_null(hooks->attach(&other, &lacking));
}

/* ---- threads ---- */

static void *compile_many(void *user)
{
    const int own = *(const int *)user;
    for (int i = 0; i < 50; i++) {
        char source[64];
        /* All threads compile every second program; only this thread compiles the others. */
        snprintf(source, sizeof source, "shared %d", i % 2 ? i : 100 * own + i);
        char *ptx = expected_ptx(source);
        compile_and_check(source, ptx);
        free(ptx);
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[4];
    int numbers[4];
    for (int i = 0; i < 4; i++) {
        numbers[i] = i + 1;
        assert_int_equal(pthread_create(&threads[i], NULL, compile_many, &numbers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
}

/* ---- set-up ---- */

static void open_library(const char *path)
{
    void *handle = dlopen(path, RTLD_NOW);
    if (!handle || dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
#define FIND(member, type, exported) real.member = (type *)dlsym(handle, exported);
    KILNI_NVRTC_FUNCTIONS(FIND)
#undef FIND
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_runs_out_while_compiling),
        cmocka_unit_test(test_memory_runs_out_while_looking_up),
        cmocka_unit_test(test_attaching),
        cmocka_unit_test(test_threads),
    };
    char folder[] = "/tmp/kiln-nvrtc-layer-XXXXXX", command[64];
    if (argc < 2 || !mkdtemp(folder)) {
        fprintf(stderr, "usage: test_nvrtc_layer LIBNVRTC\n");
        return 2;
    }
    setenv("KILN_DIR", folder, 1);
    unsetenv("KILN_DISABLE");
    open_library(argv[1]);
    hooks = kiln_nvrtc_layer_hooks();
    library = hooks ? hooks->attach(map, &real) : NULL;
    if (!library) {
        fprintf(stderr, "the layer does not take %s\n", argv[1]);
        return 2;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    session_drain();
    kiln_cache_clear(
        session_requests()->memory); /* leak checkers do not recognize pointers in it */
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) == 0 ? failed : 1;
}
