/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../../../layers/shared/spawn.c"

/* Starts a shell that writes a byte to a named pipe. */
typedef struct start {
    char folder[64];
    char pipe[80];
    int was_started;
} start;

static void run_shell(start *of)
{
    static char shell[] = "sh", option[] = "-c", script[] = "printf x >\"$0\"";
    char *const arguments[] = {shell, option, script, of->pipe, NULL};
    static char path[] = "PATH=/usr/bin:/bin";
    char *const environment[] = {path, NULL};
    of->was_started = spawn_detached("/bin/sh", arguments, environment);
}

static int set_up(void **state)
{
    start *of = calloc(1, sizeof *of);
    assert_non_null(of);
    const char *parent = getenv("TMPDIR");
    snprintf(of->folder, sizeof of->folder, "%.40s/kiln-spawn-XXXXXX", parent ? parent : "/tmp");
    assert_non_null(mkdtemp(of->folder));
    snprintf(of->pipe, sizeof of->pipe, "%s/pipe", of->folder);
    assert_int_equal(mkfifo(of->pipe, 0600), 0);
    *state = of;
    return 0;
}

static int tear_down(void **state)
{
    start *of = *state;
    unlink(of->pipe);
    rmdir(of->folder);
    free(of);
    return 0;
}

static void assert_ran(const start *of)
{
    assert_int_equal(of->was_started, 1);
    FILE *pipe = fopen(of->pipe, "r");
    assert_non_null(pipe);
    assert_int_equal(fgetc(pipe), 'x');
    assert_int_equal(fgetc(pipe), EOF);
    fclose(pipe);
}

static void skip_where_orphans_come_to_us(void)
{
    if (gets_orphans()) {
        skip();
    }
}

static void spawned_process_is_not_a_child(void **state)
{
    start *of = *state;
    skip_where_orphans_come_to_us();
    run_shell(of);
    assert_ran(of);
    assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1);
    assert_int_equal(errno, ECHILD);
}

static void reports_failure_to_start(void **state)
{
    const start *of = *state;
    char *const none[] = {NULL};
    assert_int_equal(spawn_detached(of->folder, none, none), 0);
}

static void *start_while_cancelled(void *of)
{
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    pthread_cancel(pthread_self());
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
    run_shell(of);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before == PTHREAD_CANCEL_ENABLE ? of : NULL;
}

/* The child processes use the memory of the thread that starts them, and must not act on its
 * cancellation. */
static void cancellation_takes_effect_after_the_start(void **state)
{
    start *of = *state;
    skip_where_orphans_come_to_us();
    pthread_t thread;
    void *result = NULL;
    assert_int_equal(pthread_create(&thread, NULL, start_while_cancelled, of), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, of);
    assert_ran(of);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(spawned_process_is_not_a_child, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reports_failure_to_start, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cancellation_takes_effect_after_the_start, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
