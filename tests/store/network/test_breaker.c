/* SPDX-License-Identifier: Apache-2.0 */
#include "support/store_scene.h"

#include "store/network/breaker.h"

#define MS UINT64_C(1000000)
#define S (1000 * MS)

static void note_faults(kilni_breaker *breaker, unsigned count, uint64_t now_ns)
{
    for (unsigned i = 0; i < count; i++) {
        kilni_breaker_note_fault(breaker, now_ns, KILNI_FAULT_BROKEN);
    }
}

static void test_a_new_breaker_admits_everyone(void **state)
{
    (void)state;
    kilni_breaker breaker = {0};
    assert_true(kilni_breaker_admits(&breaker, 5 * S));
    assert_true(kilni_breaker_admits(&breaker, 5 * S));
    assert_false(kilni_breaker_is_known(&breaker, 5 * S));
}

static void test_three_faults_in_a_row_open_it(void **state)
{
    (void)state;
    kilni_breaker breaker = {0};
    kilni_breaker_note_answer(&breaker, 5 * S);
    note_faults(&breaker, 2, 5 * S);
    kilni_breaker_note_answer(&breaker, 5 * S);
    note_faults(&breaker, 2, 5 * S);
    assert_true(kilni_breaker_admits(&breaker, 5 * S));
    note_faults(&breaker, 1, 5 * S);
    assert_false(kilni_breaker_admits(&breaker, 5 * S));
    assert_false(kilni_breaker_admits(&breaker, 5 * S + 799 * MS));
}

/* Of the callers that ask after the pause, one is admitted, and the others are refused until its
 * call ends. */
static void test_one_probe(void **state)
{
    (void)state;
    kilni_breaker breaker = {0};
    note_faults(&breaker, 1, 5 * S);
    assert_false(kilni_breaker_is_closed(&breaker, 5 * S + 1200 * MS));
    assert_true(kilni_breaker_admits(&breaker, 5 * S + 1200 * MS));
    assert_false(kilni_breaker_admits(&breaker, 5 * S + 1200 * MS));
    kilni_breaker_note_answer(&breaker, 5 * S + 1200 * MS);
    assert_true(kilni_breaker_admits(&breaker, 5 * S + 1200 * MS));
    assert_true(kilni_breaker_admits(&breaker, 5 * S + 1200 * MS));
}

/* Each failed probe doubles the pause, which is at most 45 s, jitter included. If no caller reports
 * a result, all callers are admitted within a minute. */
static void test_pauses_grow(void **state)
{
    (void)state;
    kilni_breaker breaker = {0};
    uint64_t now_ns = 5 * S;
    note_faults(&breaker, 1, now_ns);
    for (unsigned i = 0; i < 100; i++) {
        const uint64_t pause_ns = i < 6 ? S << i : 37500 * MS;
        assert_in_range(kilni_breaker_retry_ns(&breaker), now_ns, now_ns + 45 * S);
        assert_false(kilni_breaker_admits(&breaker, now_ns + pause_ns * 79 / 100));
        now_ns += pause_ns * 121 / 100;
        assert_true(kilni_breaker_admits(&breaker, now_ns));
        note_faults(&breaker, 1, now_ns);
    }
    now_ns = kilni_breaker_retry_ns(&breaker);
    assert_true(kilni_breaker_admits(&breaker, now_ns));
    assert_false(kilni_breaker_admits(&breaker, now_ns));
    assert_true(kilni_breaker_is_closed(&breaker, now_ns + 2 * S));
    /* After the server was silent, no caller waits for it again within a minute. */
    kilni_breaker_note_fault(&breaker, now_ns, KILNI_FAULT_SILENT);
    assert_false(kilni_breaker_is_closed(&breaker, now_ns + 60 * S - 1));
    assert_true(kilni_breaker_is_closed(&breaker, now_ns + 60 * S));
}

static void test_a_fault_of_an_unknown_server_opens_it_at_once(void **state)
{
    (void)state;
    static const kilni_server_fault faults[] = {KILNI_FAULT_SILENT, KILNI_FAULT_UNREACHABLE,
                                                KILNI_FAULT_BROKEN};
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        kilni_breaker breaker = {0};
        kilni_breaker_note_fault(&breaker, 5 * S, faults[i]);
        assert_false(kilni_breaker_admits(&breaker, 5 * S));
        assert_int_equal(kilni_breaker_fault(&breaker), faults[i]);
        kilni_breaker_note_answer(&breaker, 10 * S);
        assert_true(kilni_breaker_is_known(&breaker, 69 * S));
        kilni_breaker_note_fault(&breaker, 69 * S, faults[i]);
        assert_true(kilni_breaker_admits(&breaker, 69 * S));
        kilni_breaker_note_answer(&breaker, 70 * S);
        assert_false(kilni_breaker_is_known(&breaker, 130 * S));
        kilni_breaker_note_fault(&breaker, 130 * S, faults[i]);
        assert_false(kilni_breaker_admits(&breaker, 130 * S));
    }
}

static void test_a_pause_that_is_ordered(void **state)
{
    (void)state;
    kilni_breaker breaker = {0};
    kilni_breaker_note_answer(&breaker, 5 * S);
    kilni_breaker_rest(&breaker, 5 * S, S, KILNI_FAULT_BUSY);
    assert_false(kilni_breaker_admits(&breaker, 5 * S + 999 * MS));
    assert_true(kilni_breaker_admits(&breaker, 6 * S));
}

/* ---- two processes ---- */

static char scratch[SCRATCH_DIRECTORY_SIZE];
static char file[SCRATCH_PATH_SIZE];

static int set_up(void **state)
{
    (void)state;
    scratch_make(scratch);
    snprintf(file, sizeof file, "%s/server", scratch);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    scratch_remove(scratch);
    return 0;
}

static void test_one_fault_for_all_processes(void **state)
{
    (void)state;
    kilni_breaker first = {.file = file}, other = {.file = file};
    note_faults(&first, 1, 5 * S);
    assert_false(kilni_breaker_is_closed(&other, 5 * S));
    assert_false(kilni_breaker_admits(&other, 5 * S + 799 * MS));
    /* One of the two processes probes. */
    assert_true(kilni_breaker_admits(&other, 6200 * MS));
    assert_false(kilni_breaker_admits(&first, 6200 * MS));
    assert_false(kilni_breaker_admits(&other, 6200 * MS));
    /* A new fault doubles the pause for both. */
    note_faults(&other, 1, 6500 * MS);
    assert_false(kilni_breaker_admits(&first, 8 * S));
    /* An answer ends the pause for both processes, although a process reads the file only once a
     * second. */
    kilni_breaker_note_answer(&other, 8500 * MS);
    assert_true(kilni_breaker_is_closed(&other, 8500 * MS));
    assert_true(kilni_breaker_is_closed(&first, 9 * S));
    assert_int_not_equal(access(file, F_OK), 0);
}

static void test_a_server_that_answers_this_process(void **state)
{
    (void)state;
    kilni_breaker first = {.file = file}, other = {.file = file};
    note_faults(&first, 1, 5 * S);
    kilni_breaker_note_answer(&other, 6 * S);
    assert_true(kilni_breaker_is_closed(&other, 6 * S));
    /* A fault after the answer counts. */
    note_faults(&first, 1, 7 * S);
    assert_false(kilni_breaker_is_closed(&other, 8 * S));
}

static void test_what_concerns_one_process(void **state)
{
    (void)state;
    kilni_breaker first = {.file = file}, other = {.file = file};
    kilni_breaker_rest(&first, 5 * S, 40 * S, KILNI_FAULT_REFUSED);
    assert_false(kilni_breaker_is_closed(&first, 7 * S));
    assert_true(kilni_breaker_is_closed(&other, 7 * S));
}

/* A probe finds that the server answers again, but refuses this process. */
static void test_a_probe_that_is_refused(void **state)
{
    (void)state;
    kilni_breaker first = {.file = file}, other = {.file = file};
    note_faults(&first, 1, 5 * S);
    assert_true(kilni_breaker_admits(&other, 6200 * MS));
    kilni_breaker_rest(&other, 6300 * MS, 40 * S, KILNI_FAULT_REFUSED);
    assert_true(kilni_breaker_is_closed(&first, 8 * S));
    kilni_breaker_note_answer(&first, 8 * S);
    assert_false(kilni_breaker_is_closed(&other, 9 * S));
    assert_false(kilni_breaker_admits(&other, 46 * S));
    assert_true(kilni_breaker_admits(&other, 47 * S));
}

/* If the file cannot be written, the process keeps the state to itself. */
static void test_no_folder(void **state)
{
    (void)state;
    kilni_breaker breaker = {.file = "/nonexistent/server"};
    note_faults(&breaker, 1, 5 * S);
    assert_false(kilni_breaker_is_closed(&breaker, 5 * S));
    assert_false(kilni_breaker_is_closed(&breaker, 7 * S));
    assert_true(kilni_breaker_admits(&breaker, 7 * S));
}

/* If a folder can no longer be written, it still contains the state of an earlier fault. */
static void test_an_older_file(void **state)
{
    (void)state;
    kilni_breaker first = {.file = file}, other = {.file = file};
    note_faults(&first, 1, 5 * S);
    assert_true(kilni_breaker_admits(&other, 6200 * MS));
    other.file = "/nonexistent/server";
    note_faults(&other, 1, 6500 * MS);
    other.file = file;
    const uint64_t retry_ns = kilni_breaker_retry_ns(&other);
    assert_in_range(retry_ns, 8 * S, 10 * S);
    assert_false(kilni_breaker_is_closed(&other, 7600 * MS));
    assert_int_equal(kilni_breaker_retry_ns(&other), retry_ns);
}

static void test_a_damaged_file(void **state)
{
    (void)state;
    kilni_breaker first = {.file = file}, other = {.file = file};
    note_faults(&first, 1, 5 * S);
    assert_int_equal(truncate(file, 20), 0);
    assert_true(kilni_breaker_is_closed(&other, 5 * S));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_new_breaker_admits_everyone),
        cmocka_unit_test(test_three_faults_in_a_row_open_it),
        cmocka_unit_test(test_one_probe),
        cmocka_unit_test(test_pauses_grow),
        cmocka_unit_test(test_a_fault_of_an_unknown_server_opens_it_at_once),
        cmocka_unit_test(test_a_pause_that_is_ordered),
        cmocka_unit_test_setup_teardown(test_one_fault_for_all_processes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_server_that_answers_this_process, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_concerns_one_process, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_probe_that_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_folder, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_an_older_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_damaged_file, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
