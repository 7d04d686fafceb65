/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "../../../layers/opencl/working_directory.c"

typedef struct scratch {
    char path[64];
    char before[PATH_MAX];
} scratch;

static int set_up(void **state)
{
    scratch *s = calloc(1, sizeof *s);
    assert_non_null(s);
    const char *parent = getenv("TMPDIR");
    snprintf(s->path, sizeof s->path, "%.40s/kiln-wd-XXXXXX", parent ? parent : "/tmp");
    assert_non_null(getcwd(s->before, sizeof s->before));
    assert_non_null(mkdtemp(s->path));
    assert_int_equal(chdir(s->path), 0);
    assert_int_equal(mkdir("a", 0700), 0);
    assert_int_equal(mkdir("b", 0700), 0);
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    scratch *s = *state;
    assert_int_equal(chdir(s->path), 0);
    rmdir("a");
    rmdir("b");
    rmdir("c");
    assert_int_equal(chdir(s->before), 0);
    assert_int_equal(rmdir(s->path), 0);
    free(s);
    return 0;
}

/* Where some work ran. */
typedef struct witness {
    int runs;
    char folder[PATH_MAX];
    pthread_t thread;
} witness;

static void look_around(void *user)
{
    witness *w = user;
    w->runs++;
    w->thread = pthread_self();
    char path[PATH_MAX] = "";
    const char *name = getcwd(path, sizeof path) ? strrchr(path, '/') + 1 : "";
    snprintf(w->folder, sizeof w->folder, "%s", name);
}

static witness run_in(const working_directory *directory)
{
    witness w = {0};
    working_directory_run(directory, look_around, &w);
    assert_int_equal(w.runs, 1);
    return w;
}

static working_directory note(const char *path)
{
    working_directory directory = {0};
    assert_int_equal(chdir(path), 0);
    assert_int_equal(working_directory_note(&directory), KILN_OK);
    return directory;
}

static void runs_where_it_was(void **state)
{
    (void)state;
    if (!working_directory_can_be_kept()) {
        skip();
    }
    working_directory a = note("a");
    assert_int_equal(chdir("../b"), 0);
    assert_string_equal(run_in(&a).folder, "a");

    /* The process's stays what it is. */
    witness here = {0};
    look_around(&here);
    assert_string_equal(here.folder, "b");
    working_directory_done(&a);
    assert_null(a.path);
}

static void runs_here_without_one(void **state)
{
    (void)state;
    const working_directory none = {0};
    const witness w = run_in(&none);
    assert_true(pthread_equal(w.thread, pthread_self()));
}

/* What has the name now is another. */
static void runs_here_where_it_is_gone(void **state)
{
    (void)state;
    working_directory a = note("a");
    assert_int_equal(chdir("../b"), 0);
    assert_int_equal(rename("../a", "../c"), 0);
    assert_string_equal(run_in(&a).folder, "b");
    assert_int_equal(mkdir("../a", 0700), 0);
    assert_string_equal(run_in(&a).folder, "b");
    working_directory_done(&a);
}

static void notes_none_that_is_gone(void **state)
{
    (void)state;
    working_directory directory = {0};
    assert_int_equal(chdir("a"), 0);
    assert_int_equal(rmdir("../a"), 0);
    assert_int_equal(working_directory_note(&directory), KILN_E_UNSUPPORTED);
    assert_null(directory.path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(runs_where_it_was, set_up, tear_down),
        cmocka_unit_test_setup_teardown(runs_here_without_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(runs_here_where_it_is_gone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(notes_none_that_is_gone, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
