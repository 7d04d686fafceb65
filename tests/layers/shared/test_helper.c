/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests when layers start the helper, and what it inherits. A script takes the place of the tool.
 * Each test runs a program in a process of its own, whose helpers become children of this one: once
 * it has no more children, all of them have ended.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kiln/key.h>

#include "../../../layers/shared/helper.h"
#include "../../../layers/shared/session.h"
#include "../../../layers/shared/upgrade.h"
#include "support/child.h"

#define THREADS 8
#define PROCESSES 16

/* Where the tests put their files: the tool, what it tells, and the cache. */
static char folder[64], tool[80], told[80], cache[80];

/* Writes a line for each start, and leaves its facts, which the last start overwrites. */
static const char script[] = "#!/bin/sh\n"
                             "told=${0%/*}/told\n"
                             "exec 9>\"$told.part.$$\"\n"
                             "printf 'argument %s\\n' \"$@\" >&9\n"
                             "env | sed 's/^/variable /' >&9\n"
                             "grep '^Sig[BI]' /proc/self/status >&9\n"
                             "printf 'folder %s\\n' \"$(pwd)\" >&9\n"
                             "for file in 0 1 2 3 4 5 6 7 8; do\n"
                             "    if at=$(readlink \"/proc/$$/fd/$file\"); then\n"
                             "        printf 'file %s %s\\n' \"$file\" \"$at\" >&9\n"
                             "    fi\n"
                             "done\n"
                             "mv \"$told.part.$$\" \"$told\"\n"
                             "echo x >>\"${0%/*}/starts\"\n";

/* ---- scenes ---- */

static void write_file(const char *path, const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static int set_up(void **state)
{
    (void)state;
    const char *parent = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.40s/kiln-helper-XXXXXX", parent ? parent : "/tmp");
    assert_non_null(mkdtemp(folder));
    snprintf(tool, sizeof tool, "%s/tool", folder);
    snprintf(told, sizeof told, "%s/told", folder);
    snprintf(cache, sizeof cache, "%s/cache", folder);
    write_file(tool, script, 0700);
    setenv("KILN_DIR", cache, 1);
    setenv("KILN_TOOL", tool, 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char command[96];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

/* Ends when no process is left that a program has started. */
static void wait_for_helpers(void)
{
    while (waitpid(-1, NULL, 0) >= 0 || errno == EINTR) {
    }
    assert_int_equal(errno, ECHILD);
}

/* Returns how many helpers have run since the tests began. */
static long starts(void)
{
    char path[80];
    struct stat found;
    snprintf(path, sizeof path, "%s/starts", folder);
    return stat(path, &found) == 0 ? (long)found.st_size / 2 : 0;
}

static long requests(void)
{
    char path[112];
    snprintf(path, sizeof path, "%s/v1/requests", cache);
    DIR *opened = opendir(path);
    long count = 0;
    for (struct dirent *item; opened && (item = readdir(opened));) {
        count += item->d_name[0] != '.';
    }
    if (opened) {
        closedir(opened);
    }
    return count;
}

/* Runs the body in a program that has a layer. */
static void run_program(void (*body)(void))
{
    assert_int_equal(run_in_child(body), 0);
    wait_for_helpers();
}

static void start_session(void)
{
    CHECK(session_start() == KILN_OK);
    CHECK(session_requests());
}

static void run_threads(void *(*body)(void *))
{
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, body, NULL) == 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
}

/* ---- when it is started ---- */

static void *build_often(void *unused)
{
    (void)unused;
    for (int i = 0; i < 100; i++) {
        helper_build_starts();
        helper_look_for_requests();
        helper_expect();
        helper_build_ends();
    }
    return NULL;
}

static void *end_process(void *unused)
{
    (void)unused;
    helper_process_ends();
    return NULL;
}

static void expect_in_many_threads(void)
{
    start_session();
    helper_build_starts(); /* no pause */
    run_threads(build_often);
    run_threads(end_process);
}

static void threads_start_one_helper(void **state)
{
    (void)state;
    run_program(expect_in_many_threads);
    assert_int_equal(starts(), 1);
}

/* Nothing is built, so there is a pause. */
static void expect_in_a_pause(void)
{
    start_session();
    helper_expect();
    run_threads(end_process);
}

static void pause_and_end_start_one_helper(void **state)
{
    (void)state;
    for (int i = 1; i <= 5; i++) {
        run_program(expect_in_a_pause);
        assert_int_equal(starts(), i);
    }
}

static void expect_nothing_after_a_fork(void)
{
    helper_forget();
    helper_process_ends();
}

static void fork_while_a_request_is_pending(void)
{
    start_session();
    helper_build_starts();
    helper_expect();
    CHECK(run_in_child(expect_nothing_after_a_fork) == 0);
    CHECK(starts() == 0);
    helper_process_ends();
}

static void forked_child_starts_none(void **state)
{
    (void)state;
    run_program(fork_while_a_request_is_pending);
    assert_int_equal(starts(), 1);
}

static void start_at_once(void)
{
    start_session();
    helper_start();
}

static void tool_that_others_could_replace(void **state)
{
    (void)state;
    chmod(tool, 0722);
    run_program(start_at_once);
    chmod(tool, 0700);
    chmod(folder, 0702);
    run_program(start_at_once);
    assert_int_equal(starts(), 0);
    chmod(folder, 0700);
    run_program(start_at_once);
    assert_int_equal(starts(), 1);
}

static void start_as_subreaper(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    start_at_once();
    CHECK(waitpid(-1, NULL, __WALL) == -1 && errno == ECHILD);
}

static void process_that_adopts_orphans_starts_none(void **state)
{
    (void)state;
    run_program(start_as_subreaper);
    assert_int_equal(starts(), 0);
}

#define NOBODY 65534

static void start_with_effective_user(void)
{
    start_session();
    CHECK(seteuid(NOBODY) == 0);
    helper_start();
    CHECK(seteuid(0) == 0);
}

static void start_with_effective_group(void)
{
    start_session();
    CHECK(setegid(NOBODY) == 0);
    helper_start();
}

/* The helper could get back the rights that the program has put aside. */
static void process_with_two_users_starts_none(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("only root can become a different user\n");
        skip();
    }
    chmod(folder, 0755);
    chmod(tool, 0755);
    run_program(start_with_effective_user);
    run_program(start_with_effective_group);
    assert_int_equal(starts(), 0);
}

/* ---- what it inherits ---- */

static void start_with_much_to_inherit(void)
{
    sigset_t some;
    sigemptyset(&some);
    sigaddset(&some, SIGTERM);
    sigprocmask(SIG_BLOCK, &some, NULL);
    signal(SIGINT, SIG_IGN);
    signal(SIGCHLD, SIG_IGN);
    setenv("KILN_TEST_SECRET", "x", 1);
    setenv("KILN_MAX_SIZE", "3M", 1);
    CHECK(dup2(open(tool, O_RDONLY), 7) == 7); /* not closed by execve */
    CHECK(chdir(folder) == 0);
    start_session();
    helper_start();
    CHECK(waitpid(-1, NULL, __WALL) == -1 && errno == ECHILD);
}

static void assert_tells(const char *text, const char *line)
{
    char wanted[160];
    snprintf(wanted, sizeof wanted, "\n%s\n", line);
    if (!strstr(text, wanted)) {
        fail_msg("'%s' is not in what the helper tells:%s", line, text);
    }
}

static void helper_inherits_only_what_it_needs(void **state)
{
    (void)state;
    char text[4096] = "\n";
    char directory[128];
    run_program(start_with_much_to_inherit);
    assert_int_equal(starts(), 1);
    FILE *file = fopen(told, "r");
    assert_non_null(file);
    text[1 + fread(text + 1, 1, sizeof text - 2, file)] = '\0';
    fclose(file);
    snprintf(directory, sizeof directory, "argument capture\nargument --dir\nargument %s", cache);
    assert_tells(text, directory);
    assert_tells(text, "argument --idle");
    assert_tells(text, "variable KILN_MAX_SIZE=3M");
    assert_null(strstr(text, "KILN_TEST_SECRET"));
    assert_null(strstr(text, "KILN_TOOL"));
    assert_tells(text, "SigBlk:\t0000000000000000");
    assert_tells(text, "SigIgn:\t0000000000000000");
    assert_tells(text, "folder /");
    assert_tells(text, "file 0 /dev/null");
    assert_tells(text, "file 1 /dev/null");
    assert_tells(text, "file 2 /dev/null");
    assert_null(strstr(text, "file 7"));
}

/* ---- after an upgrade ---- */

static kiln_key *key_of(const char *driver)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    CHECK(kiln_key_builder_new(&builder) == KILN_OK);
    kiln_key_builder_add_text(builder, "source", "x");
    kiln_key_builder_add_text(builder, "nvrtc.version", driver);
    CHECK(kiln_key_builder_finish(builder, &key) == KILN_OK);
    kiln_key_builder_free(&builder);
    return key;
}

static void note_build_with(const char *driver)
{
    kiln_key *key = key_of(driver);
    upgrade_note_build(key, "NVRTC ", "/nowhere/libnvrtc.so");
    kiln_key_release(&key);
}

static void build_with_the_old_driver(void)
{
    start_session();
    note_build_with("1");
}

static void *build_with_the_new_driver(void *unused)
{
    (void)unused;
    helper_build_starts();
    note_build_with("2");
    note_build_with("1");
    helper_build_ends();
    return NULL;
}

/* Sixteen processes with eight threads each build with a new driver. */
static void build_in_many_processes(void)
{
    for (int i = 0; i < PROCESSES; i++) {
        if (fork() == 0) {
            start_session();
            run_threads(build_with_the_new_driver);
            exit(0);
        }
    }
    int status;
    for (int i = 0; i < PROCESSES; i++) {
        CHECK(wait(&status) > 0 && status == 0);
    }
}

static void upgrade_starts_one_helper(void **state)
{
    (void)state;
    run_program(build_with_the_old_driver);
    assert_int_equal(starts(), 0);
    assert_int_equal(requests(), 0);
    run_program(build_in_many_processes);
    assert_int_equal(starts(), 1);
    assert_int_equal(requests(), 1);
    run_program(build_in_many_processes);
    assert_int_equal(starts(), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(threads_start_one_helper, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pause_and_end_start_one_helper, set_up, tear_down),
        cmocka_unit_test_setup_teardown(forked_child_starts_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tool_that_others_could_replace, set_up, tear_down),
        cmocka_unit_test_setup_teardown(process_that_adopts_orphans_starts_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(process_with_two_users_starts_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(helper_inherits_only_what_it_needs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(upgrade_starts_one_helper, set_up, tear_down),
    };
    unsetenv("KILN_DISABLE");
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
        perror("prctl");
        return 2;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
