/* SPDX-License-Identifier: Apache-2.0 */
#include "support/store_scene.h"

#include <pthread.h>

#include "os/clock.h"
#include "store/network/prober.h"

#define MS UINT64_C(1000000)
#define S (1000 * MS)

static kilni_breaker breaker;
static kilni_prober prober;
static _Atomic unsigned probes;
static _Atomic bool is_answered;

/* Stands in for an exchange with a server. */
static void probe(kilni_prober *probing)
{
    atomic_fetch_add(&probes, 1);
    if (atomic_load(&is_answered)) {
        kilni_breaker_note_answer(probing->breaker, kilni_clock_ns());
    } else {
        kilni_breaker_note_fault(probing->breaker, kilni_clock_ns() - 1600 * MS,
                                 KILNI_FAULT_SILENT);
    }
}

/* Makes a breaker that has been open for so long that the next probe is due. */
static void open_breaker(void)
{
    breaker = (kilni_breaker){0};
    kilni_breaker_note_fault(&breaker, kilni_clock_ns() - 2 * S, KILNI_FAULT_SILENT);
}

static int set_up(void **state)
{
    (void)state;
    open_breaker();
    kilni_prober_init(&prober, &breaker, probe);
    atomic_store(&probes, 0);
    atomic_store(&is_answered, true);
    return 0;
}

/* ---- work on the I/O thread ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t finished = PTHREAD_COND_INITIALIZER;
static bool is_finished; /* the lock guards it */

static void finish(void)
{
    pthread_mutex_lock(&lock);
    is_finished = true;
    pthread_cond_signal(&finished);
    pthread_mutex_unlock(&lock);
}

/* Runs a task on the I/O thread, and waits for its end. */
static void run_there(void (*run)(kilni_task *task))
{
    kilni_task task = {.run = run};
    is_finished = false;
    assert_int_equal(kilni_loop_post(&task), KILN_OK);
    pthread_mutex_lock(&lock);
    while (!is_finished) {
        pthread_cond_wait(&finished, &lock);
    }
    pthread_mutex_unlock(&lock);
}

static void do_nothing(kilni_task *task)
{
    (void)task;
    finish();
}

static void start_and_stop(kilni_task *task)
{
    (void)task;
    /* No probe is due yet. */
    kilni_breaker_rest(&breaker, kilni_clock_ns(), 60 * S, KILNI_FAULT_BUSY);
    kilni_prober_start_here(&prober);
    kilni_prober_stop(&prober);
    open_breaker();
    finish();
}

static void stop(kilni_task *task)
{
    (void)task;
    kilni_prober_stop(&prober);
    finish();
}

static void test_it_probes_until_the_breaker_is_closed(void **state)
{
    (void)state;
    kilni_prober_start(&prober);
    kilni_prober_start(&prober); /* does not start a second prober */
    run_there(do_nothing);
    while (!kilni_breaker_is_closed(&breaker, kilni_clock_ns())) {
        kilni_sleep_ns(1000000);
    }
    run_there(do_nothing);
    assert_int_equal(atomic_load(&probes), 1);
    /* The prober can be started again. */
    while (atomic_load(&prober.running_in) != KILNI_NO_PROCESS) {
        kilni_sleep_ns(1000000);
    }
    run_there(do_nothing);
    open_breaker();
    kilni_prober_start(&prober);
    while (atomic_load(&probes) == 1) {
        kilni_sleep_ns(1000000);
    }
    run_there(stop);
}

/* A stopped prober must not run, because its owner frees it. */
static void test_one_that_was_stopped_does_not_run(void **state)
{
    (void)state;
    run_there(start_and_stop);
    run_there(do_nothing);
    run_there(do_nothing);
    assert_int_equal(atomic_load(&probes), 0);
}

static void test_a_failed_probe_is_repeated(void **state)
{
    (void)state;
    atomic_store(&is_answered, false);
    kilni_prober_start(&prober);
    run_there(do_nothing);
    assert_int_equal(atomic_load(&probes), 1);
    assert_false(kilni_breaker_is_closed(&breaker, kilni_clock_ns()));
    atomic_store(&is_answered, true);
    while (atomic_load(&probes) == 1) {
        kilni_sleep_ns(10000000);
    }
    run_there(stop);
    assert_true(kilni_breaker_is_closed(&breaker, kilni_clock_ns()));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_it_probes_until_the_breaker_is_closed, set_up),
        cmocka_unit_test_setup(test_one_that_was_stopped_does_not_run, set_up),
        cmocka_unit_test_setup(test_a_failed_probe_is_repeated, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
