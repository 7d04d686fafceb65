/* SPDX-License-Identifier: Apache-2.0
 *
 * The guarantees of kiln/cache.h for pending answers, for cycles across caches, for builds that
 * fail transiently, and for what kiln_cache_obtain reports.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory/notice.h"
#include "support/failing_malloc.h"
#include "support/memory_scene.h"

static const uint64_t LONG_NS = UINT64_C(20000000000);

/* ---- pending answers ---- */

static kiln_pending *ask_pending(scene *s, uint32_t key, uint64_t group)
{
    kiln_reservation r =
        reserve_with(s, key, (kiln_reserve_params){.flags = KILN_RESERVE_PENDING, .group = group});
    assert_int_equal(r.outcome, KILN_PENDING);
    assert_null(r.pin);
    assert_null(r.ticket);
    assert_non_null(r.pending);
    return r.pending;
}

static kiln_status poll(kiln_pending *pending, kiln_reservation *ret_reservation)
{
    *ret_reservation = (kiln_reservation){0};
    return kiln_pending_wait(pending, KILN_NO_WAIT, ret_reservation, NULL);
}

static void count(void *user)
{
    atomic_fetch_add((atomic_int *)user, 1);
}

static void test_a_pending_answer_becomes_a_pin(void **state)
{
    scene *s = *state;
    open_cache(s);
    kiln_ticket *ticket = own(s, 0);
    kiln_pending *pending = ask_pending(s, 0, 0), *second = ask_pending(s, 0, 0);
    atomic_int called = 0;
    assert_int_equal(kiln_pending_notify(pending, count, &called), KILN_OK);
    assert_int_equal(kiln_pending_notify(pending, count, &called), KILN_E_INVALID);
    kiln_reservation r;
    assert_int_equal(poll(pending, &r), KILN_TIMEOUT);
    assert_int_equal(atomic_load(&called), 0);
    kiln_pending_drop(&second);
    assert_null(second);
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[0], 10, 1, NULL), KILN_OK);
    assert_int_equal(atomic_load(&called), 1);
    /* The pending answer keeps the object. */
    kiln_cache_clear(s->cache);
    assert_int_equal(ends(s, 0), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(poll(pending, &r), KILN_OK);
        assert_int_equal(r.outcome, KILN_HIT);
        assert_ptr_equal(kiln_pin_object(r.pin), &s->objects[0]);
        kiln_pin_release(&r.pin);
    }
    assert_int_equal(stats_of(s->cache).hits, 2);
    kiln_pending_drop(&pending);
    kiln_pending_drop(&pending);
    kiln_pending_drop(NULL);
    assert_int_equal(ends(s, 0), 1);
    assert_int_equal(atomic_load(&called), 1);
}

static void test_an_available_answer_is_not_pending(void **state)
{
    scene *s = *state;
    open_cache(s);
    const kiln_reserve_params asked = {.flags = KILN_RESERVE_PENDING};
    kiln_reservation r = reserve_with(s, 0, asked);
    assert_int_equal(r.outcome, KILN_OWNER);
    assert_int_equal(kiln_ticket_fulfil(&r.ticket, &s->objects[0], 10, 1, NULL), KILN_OK);
    r = reserve_with(s, 0, asked);
    assert_int_equal(r.outcome, KILN_HIT);
    assert_null(r.pending);
    kiln_pin_release(&r.pin);
    kiln_reserve_params unknown = {.struct_size = sizeof unknown, .flags = 4};
    assert_int_equal(kiln_cache_reserve(s->cache, s->keys[1], &unknown, &r, NULL), KILN_E_INVALID);
    kiln_reserve_params look = {.struct_size = sizeof look, .flags = KILN_RESERVE_NO_TICKET};
    assert_int_equal(kiln_cache_reserve(s->cache, s->keys[1], &look, &r, NULL), KILN_MISS);
    assert_true(is_absent(s, 1));
    assert_int_equal(kiln_cache_reserve(s->cache, s->keys[0], &look, &r, NULL), KILN_OK);
    kiln_pin_release(&r.pin);
    assert_int_equal(kiln_pending_wait(NULL, 0, &r, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_pending_notify(NULL, count, NULL), KILN_E_INVALID);
}

static void test_failures_and_bypasses_are_answers(void **state)
{
    scene *s = *state;
    open_cache(s);
    kiln_ticket *tickets[] = {own(s, 0), own_with(s, 1, (kiln_reserve_params){.group = 7})};
    kiln_pending *pending[] = {ask_pending(s, 0, 0), ask_pending(s, 1, 7)};
    atomic_int called = 0;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kiln_pending_notify(pending[i], count, &called), KILN_OK);
    }
    kiln_ticket_abandon(&tickets[0], KILN_ABANDON_FAILED, KILN_E_BUILD, "no such type");
    assert_int_equal(atomic_load(&called), 1);
    kiln_error error = {.struct_size = sizeof error};
    kiln_reservation r;
    assert_int_equal(kiln_pending_wait(pending[0], 0, &r, &error), KILN_E_BUILD);
    assert_string_equal(error.text, "no such type");
    kiln_cache_remove_group(s->cache, 7);
    assert_int_equal(atomic_load(&called), 2);
    assert_int_equal(poll(pending[1], &r), KILN_OK);
    assert_int_equal(r.outcome, KILN_BYPASS);
    kiln_ticket_abandon(&tickets[1], KILN_ABANDON_FAILED, KILN_E_BUILD, NULL);
    for (int i = 0; i < 2; i++) {
        kiln_pending_drop(&pending[i]);
    }
}

/* A pending answer never becomes the owner, because nobody may be waiting for it. Instead, a
 * waiting thread or the next caller builds. */
static void test_a_pending_answer_never_owns(void **state)
{
    scene *s = *state;
    open_cache(s);
    kiln_ticket *ticket = own(s, 0);
    kiln_pending *pending = ask_pending(s, 0, 3);
    atomic_int called = 0;
    assert_int_equal(kiln_pending_notify(pending, count, &called), KILN_OK);
    kiln_ticket_abandon(&ticket, KILN_ABANDON_TRANSIENT, KILN_OK, NULL);
    assert_int_equal(atomic_load(&called), 1);
    assert_true(is_absent(s, 0));
    kiln_reservation r;
    assert_int_equal(kiln_pending_wait(pending, 0, &r, NULL), KILN_OK);
    assert_int_equal(r.outcome, KILN_OWNER);
    kiln_pending_drop(&pending);
    assert_int_equal(kiln_ticket_fulfil(&r.ticket, &s->objects[0], 10, 1, NULL), KILN_OK);
    assert_int_equal(kiln_cache_remove_group(s->cache, 3), 1);
    /* A pending answer does not become the owner if the owner's thread ends, either. */
    leaver l;
    start_leaver(&l, s);
    ticket = ticket_of_leaver(&l);
    pending = ask_pending(s, 0, 0);
    assert_int_equal(kiln_pending_notify(pending, count, &called), KILN_OK);
    end_leaver(&l);
    assert_int_equal(atomic_load(&called), 2);
    assert_int_equal(poll(pending, &r), KILN_OK);
    assert_int_equal(r.outcome, KILN_OWNER);
    kiln_ticket_abandon(&r.ticket, KILN_ABANDON_FAILED, KILN_E_BUILD, NULL);
    kiln_ticket_abandon(&ticket, KILN_ABANDON_FAILED, KILN_E_BUILD, NULL);
    kiln_pending_drop(&pending);
}

typedef struct pending_waiter {
    pthread_t thread;
    kiln_pending *pending;
    kiln_status status;
    kiln_reservation reservation;
} pending_waiter;

static void *wait_pending(void *argument)
{
    pending_waiter *w = argument;
    w->status = kiln_pending_wait(w->pending, 0, &w->reservation, NULL);
    return NULL;
}

static void test_threads_wait_for_one_pending_answer(void **state)
{
    scene *s = *state;
    open_cache(s);
    kiln_ticket *ticket = own(s, 0);
    kiln_pending *pending = ask_pending(s, 0, 0);
    pending_waiter waiters[3];
    for (int i = 0; i < 3; i++) {
        waiters[i] = (pending_waiter){.pending = pending};
        assert_int_equal(pthread_create(&waiters[i].thread, NULL, wait_pending, &waiters[i]), 0);
    }
    until_waiting(s, 3);
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[0], 10, 1, NULL), KILN_OK);
    for (int i = 0; i < 3; i++) {
        pthread_join(waiters[i].thread, NULL);
        assert_int_equal(waiters[i].status, KILN_OK);
        assert_int_equal(waiters[i].reservation.outcome, KILN_HIT);
        kiln_pin_release(&waiters[i].reservation.pin);
    }
    kiln_pending_drop(&pending);
}

/* If a thread asks for a key that it is building itself, this is not yet a cycle. It becomes one
 * when the thread waits for the answer. */
static void test_a_cycle_is_found_when_a_thread_waits(void **state)
{
    scene *s = *state;
    open_cache(s);
    kiln_ticket *ticket = own(s, 0);
    kiln_pending *pending = ask_pending(s, 0, 0);
    kiln_reservation r;
    kiln_error error = {.struct_size = sizeof error};
    assert_int_equal(kiln_pending_wait(pending, 0, &r, &error), KILN_E_CYCLE);
    assert_non_null(strstr(error.text, " -> "));
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[0], 10, 1, NULL), KILN_OK);
    assert_int_equal(kiln_pending_wait(pending, 0, &r, NULL), KILN_OK);
    kiln_pin_release(&r.pin);
    kiln_pending_drop(&pending);
}

static void test_a_notice_is_sent_once(void **state)
{
    scene *s = *state;
    open_cache(s);
    kiln_ticket *ticket = own(s, 0);
    kiln_pending *pending = ask_pending(s, 0, 0);
    atomic_int called = 0;
    assert_int_equal(kiln_pending_notify(pending, count, &called), KILN_OK);
    kiln_pending_drop(&pending);
    assert_int_equal(atomic_load(&called), 1);
    pending = ask_pending(s, 0, 0);
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[0], 10, 1, NULL), KILN_OK);
    assert_int_equal(atomic_load(&called), 1);
    assert_int_equal(kiln_pending_notify(pending, count, &called), KILN_OK);
    assert_int_equal(atomic_load(&called), 2);
    kiln_pending_drop(&pending);
    assert_int_equal(atomic_load(&called), 2);
}

static void test_a_pending_answer_outlives_its_cache(void **state)
{
    scene *s = *state;
    open_cache(s);
    kiln_ticket *ticket = own(s, 0);
    kiln_pending *pending = ask_pending(s, 0, 0);
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[0], 10, 1, NULL), KILN_OK);
    kiln_cache_free(&s->cache);
    assert_int_equal(ends(s, 0), 0);
    kiln_reservation r;
    assert_int_equal(poll(pending, &r), KILN_OK);
    kiln_pin_release(&r.pin);
    kiln_pending_drop(&pending);
    assert_int_equal(ends(s, 0), 1);
}

static void test_nothing_is_pending_after_lack_of_memory(void **state)
{
    scene *s = *state;
    open_cache(s);
    kiln_ticket *ticket = own(s, 0);
    kiln_reserve_params params = {
        .struct_size = sizeof params, .flags = KILN_RESERVE_PENDING, .group = 5};
    kiln_reservation r = {0};
    for (size_t n = 1;; n++) {
        failing_malloc_arm(n);
        const kiln_status status = kiln_cache_reserve(s->cache, s->keys[0], &params, &r, NULL);
        if (failing_malloc_disarm() < n) {
            assert_int_equal(status, KILN_OK);
            break;
        }
        assert_int_equal(status, KILN_E_NO_MEMORY);
    }
    failing_malloc_arm(1);
    assert_int_equal(kiln_pending_notify(r.pending, count, NULL), KILN_E_NO_MEMORY);
    failing_malloc_disarm();
    kiln_pending_drop(&r.pending);
    kiln_ticket_abandon(&ticket, KILN_ABANDON_FAILED, KILN_E_BUILD, NULL);
}

/* After a fork, only the parent continues the build. A pending answer in the child asks for the key
 * again. */
static void test_a_child_asks_again(void **state)
{
    scene *s = *state;
    open_cache(s);
    leaver l;
    start_leaver(&l, s);
    kiln_ticket *ticket = ticket_of_leaver(&l);
    kiln_pending *pending = ask_pending(s, 0, 0);
    const pid_t child = fork();
    if (child == 0) {
        kiln_reservation r;
        const bool right = poll(pending, &r) == KILN_OK && r.outcome == KILN_OWNER;
        _exit(right ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[0], 10, 1, NULL), KILN_OK);
    end_leaver(&l);
    kiln_pending_drop(&pending);
}

typedef struct holder {
    atomic_bool holds, has_released, may_end;
} holder;

static void *hold_notices(void *argument)
{
    holder *h = argument;
    kilni_notices_lock();
    atomic_store(&h->holds, true);
    usleep(50000);
    atomic_store(&h->has_released, true);
    kilni_notices_unlock();
    /* If a thread ended before the fork and was never joined, TSan reports it as a leak of the
     * child. */
    while (!atomic_load(&h->may_end)) {
        sched_yield();
    }
    return NULL;
}

/* A fork waits while a thread changes the notices. Otherwise the child's first notice would wait
 * for ever. */
static void test_no_fork_while_a_thread_changes_the_notices(void **state)
{
    scene *s = *state;
    open_cache(s);
    holder h = {0};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, hold_notices, &h), 0);
    while (!atomic_load(&h.holds)) {
        sched_yield();
    }
    const pid_t child = fork();
    if (child == 0) {
        _exit(atomic_load(&h.has_released) ? 0 : 1);
    }
    atomic_store(&h.may_end, true);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    pthread_join(thread, NULL);
    assert_int_equal(status, 0);
}

/* ---- cycles across caches ---- */

typedef struct other_side {
    pthread_t thread;
    kiln_cache *owned, *wanted;
    const kiln_key *key;
    test_object *object;
    atomic_bool is_ready;
    kiln_status status;
    uint32_t outcome;
} other_side;

/* Owns a key in one cache, and waits for the key in the other cache. */
static void *own_and_ask(void *argument)
{
    other_side *o = argument;
    kiln_reservation r, wanted = {0};
    assert_int_equal(kiln_cache_reserve(o->owned, o->key, NULL, &r, NULL), KILN_OK);
    atomic_store(&o->is_ready, true);
    kiln_reserve_params params = {.struct_size = sizeof params, .wait_ns = LONG_NS};
    o->status = kiln_cache_reserve(o->wanted, o->key, &params, &wanted, NULL);
    o->outcome = wanted.outcome;
    kiln_pin_release(&wanted.pin);
    kiln_ticket_fulfil(&r.ticket, o->object, 1, 1, NULL);
    return NULL;
}

static void test_a_cycle_across_caches_is_seen(void **state)
{
    scene *s = *state;
    open_cache(s);
    const kiln_cache_params params = {.struct_size = sizeof params, .destroy = count_end};
    kiln_cache *second = NULL;
    assert_int_equal(kiln_cache_new(&params, &second), KILN_OK);
    kiln_ticket *ticket = own(s, 0);
    other_side o = {
        .owned = second, .wanted = s->cache, .key = s->keys[0], .object = &s->objects[1]};
    assert_int_equal(pthread_create(&o.thread, NULL, own_and_ask, &o), 0);
    until_waiting(s, 1);
    kiln_reserve_params wait = {.struct_size = sizeof wait, .wait_ns = UINT64_C(300000000)};
    kiln_reservation r;
    kiln_error error = {.struct_size = sizeof error};
    assert_int_equal(kiln_cache_reserve(second, s->keys[0], &wait, &r, &error), KILN_E_CYCLE);
    assert_non_null(strstr(error.text, " -> "));
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[0], 1, 1, NULL), KILN_OK);
    pthread_join(o.thread, NULL);
    assert_int_equal(o.status, KILN_OK);
    assert_int_equal(o.outcome, KILN_HIT);
    kiln_cache_free(&second);
}

/* ---- builds that fail transiently ---- */

enum { CROWD = 12 };

typedef struct crowd {
    scene *s;
    kiln_status failure;
    atomic_int builds, failed;
} crowd;

/* The first build lasts until the other threads wait. */
static kiln_status build_and_fail(void *user, const kiln_key *key, kiln_built *ret_built,
                                  kiln_error *error)
{
    (void)key;
    (void)ret_built;
    crowd *c = user;
    if (atomic_fetch_add(&c->builds, 1) == 0) {
        until_waiting(c->s, CROWD - 1);
    }
    snprintf(error->text, sizeof error->text, "the disk is busy");
    return c->failure;
}

static void *build_in_crowd(void *argument)
{
    crowd *c = argument;
    kiln_pin *pin = NULL;
    kiln_error error = {.struct_size = sizeof error};
    const kiln_status status =
        kiln_cache_get_or_build(c->s->cache, c->s->keys[0], build_and_fail, c, &pin, &error);
    atomic_fetch_add(&c->failed,
                     status == c->failure && strcmp(error.text, "the disk is busy") == 0);
    return NULL;
}

static void test_a_flight_is_tried_twice_and_then_all_are_answered(void **state)
{
    scene *s = *state;
    static const struct {
        kiln_status failure;
        int builds;
    } cases[] = {{KILN_E_IO, 2},    {KILN_E_RESOURCES, 2},   {KILN_E_NO_MEMORY, 2},
                 {KILN_TIMEOUT, 2}, {KILN_E_UNSUPPORTED, 1}, {KILN_E_INVALID, 1},
                 {KILN_E_BUILD, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        open_cache(s);
        crowd c = {.s = s, .failure = cases[i].failure};
        pthread_t threads[CROWD];
        for (int k = 0; k < CROWD; k++) {
            assert_int_equal(pthread_create(&threads[k], NULL, build_in_crowd, &c), 0);
        }
        for (int k = 0; k < CROWD; k++) {
            pthread_join(threads[k], NULL);
        }
        assert_int_equal(atomic_load(&c.builds), cases[i].builds);
        assert_int_equal(atomic_load(&c.failed), CROWD);
        assert_true(is_absent(s, 0));
        kiln_cache_free(&s->cache);
    }
    open_cache(s);
}

/* ---- how an object was obtained ---- */

static kiln_status build_object(void *user, const kiln_key *key, kiln_built *ret_built,
                                kiln_error *error)
{
    (void)key;
    (void)error;
    *ret_built = (kiln_built){.object = user, .bytes = 10, .cost_ns = 1};
    return KILN_OK;
}

typedef struct obtainer {
    pthread_t thread;
    scene *s;
    kiln_status status;
    kiln_served served;
} obtainer;

static void *obtain_first(void *argument)
{
    obtainer *o = argument;
    kiln_pin *pin = NULL;
    o->status = kiln_cache_obtain(o->s->cache, o->s->keys[0], NULL, build_object, &o->s->objects[2],
                                  &pin, &o->served, NULL);
    kiln_pin_release(&pin);
    return NULL;
}

static void test_callers_are_told_how_an_object_was_obtained(void **state)
{
    scene *s = *state;
    open_cache(s);
    kiln_ticket *ticket = own(s, 0);
    kiln_pin *pin = NULL;
    kiln_served served = 0;
    kiln_reserve_params params = {.struct_size = sizeof params, .wait_ns = KILN_NO_WAIT};
    assert_int_equal(
        kiln_cache_obtain(s->cache, s->keys[0], &params, build_object, NULL, &pin, &served, NULL),
        KILN_TIMEOUT);
    assert_null(pin);
    obtainer o = {.s = s};
    assert_int_equal(pthread_create(&o.thread, NULL, obtain_first, &o), 0);
    until_waiting(s, 1);
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[0], 10, 1, NULL), KILN_OK);
    pthread_join(o.thread, NULL);
    assert_int_equal(o.status, KILN_OK);
    assert_int_equal(o.served, KILN_SERVED_WAITED);
    assert_int_equal(
        kiln_cache_obtain(s->cache, s->keys[0], NULL, build_object, NULL, &pin, &served, NULL),
        KILN_OK);
    assert_int_equal(served, KILN_SERVED_HIT);
    kiln_pin_release(&pin);
    params = (kiln_reserve_params){.struct_size = sizeof params, .group = 8};
    assert_int_equal(kiln_cache_obtain(s->cache, s->keys[1], &params, build_object, &s->objects[1],
                                       &pin, &served, NULL),
                     KILN_OK);
    assert_int_equal(served, KILN_SERVED_BUILT);
    kiln_pin_release(&pin);
    assert_int_equal(kiln_cache_remove_group(s->cache, 8), 1);
    /* The announced size is respected: there is no room for it. */
    assert_int_equal(kiln_cache_set_policy(s->cache, KILN_POLICY_NO_EVICT), KILN_OK);
    params = (kiln_reserve_params){.struct_size = sizeof params, .bytes = KILN_UNLIMITED};
    assert_int_equal(kiln_cache_obtain(s->cache, s->keys[3], &params, build_object, &s->objects[3],
                                       &pin, &served, NULL),
                     KILN_OK);
    assert_int_equal(served, KILN_SERVED_BYPASSED);
    kiln_pin_release(&pin);
    assert_int_equal(ends(s, 3), 1);
    params = (kiln_reserve_params){.struct_size = sizeof params, .flags = KILN_RESERVE_PENDING};
    assert_int_equal(
        kiln_cache_obtain(s->cache, s->keys[3], &params, build_object, NULL, &pin, NULL, NULL),
        KILN_E_INVALID);
}

#define IN_SCENE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_SCENE(test_a_pending_answer_becomes_a_pin),
        IN_SCENE(test_an_available_answer_is_not_pending),
        IN_SCENE(test_failures_and_bypasses_are_answers),
        IN_SCENE(test_a_pending_answer_never_owns),
        IN_SCENE(test_threads_wait_for_one_pending_answer),
        IN_SCENE(test_a_cycle_is_found_when_a_thread_waits),
        IN_SCENE(test_a_notice_is_sent_once),
        IN_SCENE(test_a_pending_answer_outlives_its_cache),
        IN_SCENE(test_nothing_is_pending_after_lack_of_memory),
        IN_SCENE(test_a_child_asks_again),
        IN_SCENE(test_no_fork_while_a_thread_changes_the_notices),
        IN_SCENE(test_a_cycle_across_caches_is_seen),
        IN_SCENE(test_a_flight_is_tried_twice_and_then_all_are_answered),
        IN_SCENE(test_callers_are_told_how_an_object_was_obtained),
    };
    return cmocka_run_group_tests_name("memory pending", tests, NULL, NULL);
}
