/* SPDX-License-Identifier: Apache-2.0
 *
 * The guarantees of kiln/cache.h for reservations, tickets, waiters and cycles.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <kiln/cache.h>

#include "os/os.h"
#include "support/failing_malloc.h"
#include "support/memory_scene.h"

/* ---- reserve, fulfil, abandon ---- */

static void test_the_answers_to_a_reservation(void **state)
{
    scene *s = *state;
    open_cache(s);
    kiln_ticket *ticket = own(s, 0);
    kiln_reserve_params no_wait = {.struct_size = sizeof no_wait, .wait_ns = KILN_NO_WAIT};
    kiln_reservation r;
    assert_int_equal(kiln_cache_reserve(s->cache, s->keys[0], &no_wait, &r, NULL), KILN_TIMEOUT);
    assert_int_equal(stats_of(s->cache).waits, 0);
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[0], 10, 1, NULL), KILN_OK);
    r = reserve_with(s, 0, (kiln_reserve_params){0});
    assert_int_equal(r.outcome, KILN_HIT);
    assert_ptr_equal(kiln_pin_object(r.pin), &s->objects[0]);
    assert_null(r.ticket);
    kiln_pin_release(&r.pin);
    assert_int_equal(ends(s, 0), 0);
    kiln_cache_stats stats = stats_of(s->cache);
    assert_int_equal(stats.hits, 1);
    assert_int_equal(stats.misses, 1);
}

static void test_reservations_of_other_versions(void **state)
{
    scene *s = *state;
    open_cache(s);
    struct {
        kiln_reserve_params known;
        uint64_t later;
    } longer = {.known = {.struct_size = sizeof longer}, .later = 1};
    kiln_reservation r;
    kiln_error error = {.struct_size = sizeof error};
    assert_int_equal(kiln_cache_reserve(s->cache, s->keys[0], &longer.known, &r, &error),
                     KILN_E_INVALID);
    assert_string_not_equal(error.text, "");
    longer.later = 0;
    assert_int_equal(kiln_cache_reserve(s->cache, s->keys[0], &longer.known, &r, NULL), KILN_OK);
    assert_int_equal(r.outcome, KILN_OWNER);
    kiln_ticket_abandon(&r.ticket, KILN_ABANDON_FAILED, KILN_E_BUILD, NULL);
}

static void test_fulfil_refuses_what_is_missing(void **state)
{
    scene *s = *state;
    open_cache(s);
    kiln_ticket *ticket = NULL;
    kiln_pin *pin = NULL;
    assert_int_equal(kiln_ticket_fulfil(NULL, &s->objects[0], 1, 1, &pin), KILN_E_INVALID);
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[0], 1, 1, &pin), KILN_E_INVALID);
    ticket = own(s, 0);
    assert_int_equal(kiln_ticket_fulfil(&ticket, NULL, 1, 1, &pin), KILN_E_INVALID);
    assert_non_null(ticket);
    assert_null(pin);
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[0], 1, 1, &pin), KILN_OK);
    kiln_pin_release(&pin);
    assert_true(is_ready(s, 0));
}

static void test_flight_answers_all_waiters(void **state)
{
    scene *s = *state;
    open_cache(s);
    kiln_ticket *ticket = own(s, 0);
    asker askers[3];
    for (int i = 0; i < 3; i++) {
        start_asker(&askers[i], s, 0);
    }
    until_waiting(s, 3);
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[0], 10, 1, NULL), KILN_OK);
    for (int i = 0; i < 3; i++) {
        join_asker(&askers[i]);
        assert_int_equal(askers[i].status, KILN_OK);
        assert_int_equal(askers[i].reservation.outcome, KILN_HIT);
        assert_ptr_equal(kiln_pin_object(askers[i].reservation.pin), &s->objects[0]);
    }
    kiln_cache_stats stats = stats_of(s->cache);
    assert_int_equal(stats.hits, 3);
    assert_int_equal(stats.misses, 1);
    assert_int_equal(stats.waits, 3);
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[0]), KILN_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ends(s, 0), 0);
        kiln_pin_release(&askers[i].reservation.pin);
    }
    assert_int_equal(ends(s, 0), 1);
}

static void test_failure_reaches_all_waiters(void **state)
{
    scene *s = *state;
    open_cache(s);
    kiln_ticket *ticket = own(s, 0);
    asker askers[3];
    for (int i = 0; i < 3; i++) {
        start_asker(&askers[i], s, 0);
    }
    until_waiting(s, 3);
    kiln_ticket_abandon(&ticket, KILN_ABANDON_FAILED, KILN_E_REFUSED, "the device said no");
    assert_null(ticket);
    for (int i = 0; i < 3; i++) {
        join_asker(&askers[i]);
        assert_int_equal(askers[i].status, KILN_E_REFUSED);
        assert_int_equal(askers[i].error.status, KILN_E_REFUSED);
        assert_string_equal(askers[i].error.text, "the device said no");
    }
    assert_int_equal(stats_of(s->cache).failures, 1);
    assert_true(is_absent(s, 0));
}

static void test_failures_have_a_status_and_a_text(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.flags = KILN_CACHE_RETAIN_FAILURES});
    kiln_ticket *ticket = own(s, 0);
    kiln_ticket_abandon(&ticket, KILN_ABANDON_FAILED, KILN_OK, NULL);
    kiln_reservation r;
    kiln_error error = {.struct_size = sizeof error};
    assert_int_equal(kiln_cache_reserve(s->cache, s->keys[0], NULL, &r, &error), KILN_E_INVALID);
    assert_string_equal(error.text, kiln_status_text(KILN_E_INVALID));

    char text[1000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    ticket = own(s, 1);
    kiln_ticket_abandon(&ticket, KILN_ABANDON_FAILED, KILN_E_BUILD, text);
    assert_int_equal(kiln_cache_reserve(s->cache, s->keys[1], NULL, &r, &error), KILN_E_BUILD);
    assert_int_equal(strlen(error.text), sizeof error.text - 1);
}

static void test_a_transient_failure_makes_one_waiter_the_owner(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.flags = KILN_CACHE_RETAIN_FAILURES});
    kiln_ticket *ticket = own_with(s, 0, (kiln_reserve_params){.bytes = 30, .group = 4});
    leaver next;
    start_leaver_with(&next, s, (kiln_reserve_params){.group = 5});
    until_waiting(s, 1);
    asker askers[2];
    for (int i = 0; i < 2; i++) {
        start_asker(&askers[i], s, 0);
        until_waiting(s, (uint64_t)i + 2);
    }
    kiln_ticket_abandon(&ticket, KILN_ABANDON_TRANSIENT, KILN_E_IO, "not told");
    kiln_ticket *second = ticket_of_leaver(&next);
    assert_int_equal(stats_of(s->cache).misses, 2);
    assert_int_equal(stats_of(s->cache).reserved_bytes, 30);
    assert_int_equal(stats_of(s->cache).failures, 1);
    assert_int_equal(kiln_ticket_fulfil(&second, &s->objects[0], 20, 1, NULL), KILN_OK);
    end_leaver(&next);
    for (int i = 0; i < 2; i++) {
        join_asker(&askers[i]);
        assert_int_equal(askers[i].status, KILN_OK);
        assert_int_equal(askers[i].reservation.outcome, KILN_HIT);
        kiln_pin_release(&askers[i].reservation.pin);
    }
    assert_int_equal(stats_of(s->cache).waits, 3);
    assert_int_equal(kiln_cache_remove_group(s->cache, 4), 0);
    assert_int_equal(kiln_cache_remove_group(s->cache, 5), 1);
    assert_int_equal(ends(s, 0), 1);
}

/* The first two owners of the flight gave no group. The object gets the group of the third owner,
 * which fulfils the ticket. */
static void test_an_object_gets_a_group_late(void **state)
{
    scene *s = *state;
    open_cache(s);
    kiln_ticket *first = own(s, 0);
    leaver without, with;
    start_leaver(&without, s);
    until_waiting(s, 1);
    start_leaver_with(&with, s, (kiln_reserve_params){.group = 5});
    until_waiting(s, 2);
    kiln_ticket_abandon(&first, KILN_ABANDON_TRANSIENT, KILN_E_IO, "not told");
    kiln_ticket *lost = ticket_of_leaver(&without);
    end_leaver(&without);
    kiln_ticket *last = ticket_of_leaver(&with);
    assert_int_equal(kiln_ticket_fulfil(&last, &s->objects[0], 20, 1, NULL), KILN_OK);
    end_leaver(&with);
    kiln_pin *other = put_with(s, 1, 20, 1, 5);
    kiln_pin_release(&other);
    assert_int_equal(kiln_cache_remove_group(s->cache, 5), 2);
    assert_int_equal(ends(s, 0), 1);
    kiln_ticket_abandon(&lost, KILN_ABANDON_FAILED, KILN_E_BUILD, NULL);
}

static void test_no_memory_for_a_group(void **state)
{
    scene *s = *state;
    open_cache(s);
    kiln_ticket *ticket = own(s, 0);
    asker grouped = {.s = s,
                     .params = {.struct_size = sizeof grouped.params, .group = 5},
                     .error = {.struct_size = sizeof grouped.error}};
    failing_malloc_arm(1);
    assert_int_equal(pthread_create(&grouped.thread, NULL, ask, &grouped), 0);
    join_asker(&grouped);
    assert_int_equal(failing_malloc_disarm(), 1);
    assert_int_equal(grouped.status, KILN_E_NO_MEMORY);
    assert_string_not_equal(grouped.error.text, "");
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[0], 20, 1, NULL), KILN_OK);
    assert_true(is_ready(s, 0));
}

static void test_unshareable_constant_is_bypassed(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.flags = KILN_CACHE_RETAIN_FAILURES});
    kiln_ticket *ticket = own(s, 0);
    asker askers[2];
    start_asker(&askers[0], s, 0);
    start_asker(&askers[1], s, 0);
    until_waiting(s, 2);
    kiln_ticket_abandon(&ticket, KILN_ABANDON_UNSHAREABLE, KILN_E_BUILD, "not told");
    for (int i = 0; i < 2; i++) {
        join_asker(&askers[i]);
        assert_int_equal(askers[i].status, KILN_OK);
        assert_int_equal(askers[i].reservation.outcome, KILN_BYPASS);
        assert_null(askers[i].reservation.pin);
        assert_null(askers[i].reservation.ticket);
    }
    kiln_cache_stats stats = stats_of(s->cache);
    assert_int_equal(stats.bypasses, 2);
    assert_int_equal(stats.failures, 0);
    assert_true(is_absent(s, 0));
}

static void test_waiting_ends_with_its_time(void **state)
{
    scene *s = *state;
    open_cache(s);
    kiln_ticket *ticket = own(s, 0);
    asker patient;
    asker hasty = {.s = s, .params = {.struct_size = sizeof hasty.params, .wait_ns = 1000000}};
    assert_int_equal(pthread_create(&hasty.thread, NULL, ask, &hasty), 0);
    start_asker(&patient, s, 0);
    join_asker(&hasty);
    assert_int_equal(hasty.status, KILN_TIMEOUT);
    until_waiting(s, 2);
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[0], 10, 1, NULL), KILN_OK);
    join_asker(&patient);
    assert_int_equal(patient.status, KILN_OK);
    kiln_pin_release(&patient.reservation.pin);
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[0]), KILN_OK);
    assert_int_equal(ends(s, 0), 1);
}

static void test_a_long_wait_is_not_cut_short(void **state)
{
    scene *s = *state;
    const uint64_t waits[] = {3600000000000, KILN_NO_WAIT - 1, KILN_UNLIMITED};
    open_cache(s);
    for (uint32_t i = 0; i < 3; i++) {
        kiln_ticket *ticket = own(s, i);
        asker a = {.s = s, .key = i};
        a.params = (kiln_reserve_params){.struct_size = sizeof a.params, .wait_ns = waits[i]};
        assert_int_equal(pthread_create(&a.thread, NULL, ask, &a), 0);
        until_waiting(s, i + 1);
        rest();
        assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[i], 10, 1, NULL), KILN_OK);
        join_asker(&a);
        assert_int_equal(a.status, KILN_OK);
        kiln_pin_release(&a.reservation.pin);
    }
}

/* ---- tickets and the ends of threads ---- */

static void test_a_ticket_that_was_taken_outlives_its_thread(void **state)
{
    scene *s = *state;
    open_cache(s);
    leaver gone;
    start_leaver(&gone, s);
    kiln_ticket *ticket = ticket_of_leaver(&gone);
    assert_int_equal(kiln_ticket_take(ticket), KILN_OK);
    end_leaver(&gone);
    asker later;
    start_asker(&later, s, 0);
    until_waiting(s, 1);
    /* The ticket now belongs to this thread. */
    kiln_reservation r;
    assert_int_equal(kiln_cache_reserve(s->cache, s->keys[0], NULL, &r, NULL), KILN_E_CYCLE);
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[0], 10, 1, NULL), KILN_OK);
    join_asker(&later);
    assert_int_equal(later.status, KILN_OK);
    assert_int_equal(later.reservation.outcome, KILN_HIT);
    kiln_pin_release(&later.reservation.pin);
    assert_int_equal(kiln_ticket_take(NULL), KILN_E_INVALID);
}

static void test_waiters_survive_the_end_of_the_owners_thread(void **state)
{
    scene *s = *state;
    open_cache(s);
    leaver leavers[3];
    kiln_ticket *lost[3];
    start_leaver(&leavers[0], s);
    lost[0] = ticket_of_leaver(&leavers[0]);
    for (uint32_t i = 1; i < 3; i++) {
        start_leaver(&leavers[i], s);
        until_waiting(s, i);
    }
    /* When a thread ends, its ticket passes to the thread that has waited longest. */
    for (uint32_t i = 1; i < 3; i++) {
        end_leaver(&leavers[i - 1]);
        lost[i] = ticket_of_leaver(&leavers[i]);
    }
    end_leaver(&leavers[2]);
    kiln_ticket *last = own(s, 0);
    for (int i = 0; i < 3; i++) {
        kiln_pin *pin = NULL;
        assert_int_equal(kiln_ticket_fulfil(&lost[i], &s->objects[i], 10, 1, &pin), KILN_OK);
        assert_ptr_equal(kiln_pin_object(pin), &s->objects[i]);
        assert_false(is_ready(s, 0));
        kiln_pin_release(&pin);
        assert_int_equal(ends(s, (uint32_t)i), 1);
    }
    assert_int_equal(kiln_ticket_fulfil(&last, &s->objects[3], 10, 1, NULL), KILN_OK);
    kiln_pin *pin = pin_of(s, 0);
    assert_ptr_equal(kiln_pin_object(pin), &s->objects[3]);
    kiln_pin_release(&pin);
    assert_int_equal(stats_of(s->cache).reserved_bytes, 0);
}

static void test_waiters_survive_a_cleared_abandoned_ticket(void **state)
{
    scene *s = *state;
    open_cache(s);
    leaver gone;
    leaver waiter;
    start_leaver(&gone, s);
    kiln_ticket *first = ticket_of_leaver(&gone);
    start_leaver(&waiter, s);
    until_waiting(s, 1);
    kiln_cache_clear(s->cache);
    /* A second flight of the same key is in progress at the same time. */
    kiln_ticket *other = own(s, 0);
    end_leaver(&gone);
    kiln_ticket *second = ticket_of_leaver(&waiter);
    assert_int_equal(kiln_ticket_fulfil(&other, &s->objects[0], 10, 1, NULL), KILN_OK);
    assert_int_equal(kiln_ticket_fulfil(&second, &s->objects[1], 10, 1, NULL), KILN_OK);
    assert_int_equal(ends(s, 1), 1);
    kiln_pin *pin = pin_of(s, 0);
    assert_ptr_equal(kiln_pin_object(pin), &s->objects[0]);
    kiln_pin_release(&pin);
    kiln_ticket_abandon(&first, KILN_ABANDON_FAILED, KILN_E_BUILD, NULL);
    end_leaver(&waiter);
}

static void test_a_ticket_without_waiters_is_kept(void **state)
{
    scene *s = *state;
    open_cache(s);
    leaver gone;
    start_leaver(&gone, s);
    kiln_ticket *ticket = ticket_of_leaver(&gone);
    end_leaver(&gone);
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[0], 10, 1, NULL), KILN_OK);
    assert_true(is_ready(s, 0));
}

static void test_waiters_survive_lack_of_memory_for_a_ticket(void **state)
{
    scene *s = *state;
    open_cache(s);
    leaver gone;
    start_leaver(&gone, s);
    kiln_ticket *ticket = ticket_of_leaver(&gone);
    asker waiter;
    start_asker(&waiter, s, 0);
    until_waiting(s, 1);
    failing_malloc_arm(1);
    end_leaver(&gone);
    assert_int_equal(failing_malloc_disarm(), 1);
    join_asker(&waiter);
    assert_int_equal(waiter.status, KILN_E_NO_MEMORY);
    assert_string_not_equal(waiter.error.text, "");
    kiln_ticket_abandon(&ticket, KILN_ABANDON_FAILED, KILN_E_BUILD, NULL);
    assert_true(is_absent(s, 0));
}

/* ---- cycles ---- */

static void test_waiting_for_an_own_ticket_is_a_cycle(void **state)
{
    scene *s = *state;
    open_cache(s);
    kiln_ticket *ticket = own(s, 3);
    kiln_reserve_params params = {.struct_size = sizeof params, .wait_ns = 1000000000};
    kiln_reservation r;
    kiln_error error = {.struct_size = sizeof error};
    assert_int_equal(kiln_cache_reserve(s->cache, s->keys[3], &params, &r, &error), KILN_E_CYCLE);
    assert_int_equal(error.status, KILN_E_CYCLE);
    assert_non_null(strstr(error.text, "key-3"));
    assert_int_equal(stats_of(s->cache).waits, 0);
    kiln_ticket_abandon(&ticket, KILN_ABANDON_FAILED, KILN_E_BUILD, NULL);
}

/* A thread that takes the ticket of one key, waits for a second key, and then ends its ticket. */
typedef struct link_of_chain {
    asker a;
    uint32_t owned;
    pthread_barrier_t *ready;
} link_of_chain;

static void *own_and_wait(void *argument)
{
    link_of_chain *l = argument;
    kiln_ticket *ticket = own(l->a.s, l->owned);
    pthread_barrier_wait(l->ready);
    ask(&l->a);
    kiln_pin_release(&l->a.reservation.pin);
    assert_int_equal(kiln_ticket_fulfil(&ticket, &l->a.s->objects[l->owned], 1, 1, NULL), KILN_OK);
    return NULL;
}

static void start_link(link_of_chain *l, scene *s, uint32_t owned, uint32_t wanted,
                       pthread_barrier_t *ready)
{
    *l = (link_of_chain){.a = {.s = s, .key = wanted}, .owned = owned, .ready = ready};
    l->a.params.struct_size = sizeof l->a.params;
    l->a.error.struct_size = sizeof l->a.error;
    assert_int_equal(pthread_create(&l->a.thread, NULL, own_and_wait, l), 0);
}

/* This thread owns key 0. A second thread owns key 1 and waits for 0; a third owns key 2 and waits
 * for 1. */
static void test_a_cycle_through_others_is_seen(void **state)
{
    scene *s = *state;
    open_cache(s);
    kiln_ticket *ticket = own(s, 0);
    pthread_barrier_t ready;
    pthread_barrier_init(&ready, NULL, 3);
    link_of_chain links[2];
    start_link(&links[0], s, 1, 0, &ready);
    start_link(&links[1], s, 2, 1, &ready);
    pthread_barrier_wait(&ready);
    until_waiting(s, 2);
    kiln_reservation r;
    kiln_error error = {.struct_size = sizeof error};
    assert_int_equal(kiln_cache_reserve(s->cache, s->keys[2], NULL, &r, &error), KILN_E_CYCLE);
    assert_non_null(strstr(error.text, "key-0"));
    assert_non_null(strstr(error.text, "key-1"));
    assert_non_null(strstr(error.text, "key-2"));
    assert_int_equal(stats_of(s->cache).waits, 2);
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[0], 1, 1, NULL), KILN_OK);
    for (int i = 0; i < 2; i++) {
        join_asker(&links[i].a);
        assert_int_equal(links[i].a.status, KILN_OK);
    }
    pthread_barrier_destroy(&ready);
    assert_true(is_ready(s, 2));
}

/* Two caches, each with one key: a flight of the first cache is handed over to a thread that owns a
 * flight of the second cache. */
typedef struct handover {
    scene *s; /* the first cache; key 0 */
    kiln_cache *other;
    atomic_bool owns_other;
    atomic_bool is_armed;
    int searches;       /* for cycles, during the handover */
    kiln_status answer; /* the status of the last search */
} handover;

static handover *observed;

/* Owns the key of the second cache, and waits for the key of the first. */
static void *own_one_and_wait(void *argument)
{
    handover *h = argument;
    kiln_reservation mine, awaited;
    assert_int_equal(kiln_cache_reserve(h->other, h->s->keys[0], NULL, &mine, NULL), KILN_OK);
    atomic_store(&h->owns_other, true);
    assert_int_equal(kiln_cache_reserve(h->s->cache, h->s->keys[0], NULL, &awaited, NULL), KILN_OK);
    assert_int_equal(awaited.outcome, KILN_OWNER);
    kiln_ticket_abandon(&awaited.ticket, KILN_ABANDON_FAILED, KILN_E_BUILD, NULL);
    kiln_ticket_abandon(&mine.ticket, KILN_ABANDON_FAILED, KILN_E_BUILD, NULL);
    return NULL;
}

/* Asks for the key that the thread above owns. It waits for the shortest time possible, because
 * only the search for a cycle before the wait matters. */
static void *search_for_a_cycle(void *argument)
{
    handover *h = argument;
    const kiln_reserve_params params = {.struct_size = sizeof params, .wait_ns = 1};
    kiln_reservation answer;
    h->answer = kiln_cache_reserve(h->other, h->s->keys[0], &params, &answer, NULL);
    h->searches++;
    return NULL;
}

/* The engine reads the clock when it hands a flight over. */
static int search_meanwhile(clockid_t clock, struct timespec *ret_time)
{
    pthread_t thread;
    if (atomic_exchange(&observed->is_armed, false)) {
        assert_int_equal(pthread_create(&thread, NULL, search_for_a_cycle, observed), 0);
        pthread_join(thread, NULL);
    }
    return clock_gettime(clock, ret_time);
}

static void test_a_search_for_a_cycle_ends_during_a_handover(void **state)
{
    scene *s = *state;
    open_cache(s);
    handover h = {.s = s};
    const kiln_cache_params params = {.struct_size = sizeof params};
    assert_int_equal(kiln_cache_new(&params, &h.other), KILN_OK);
    observed = &h;
    kilni_os_table table = *kilni_os_system();
    table.clock_gettime = search_meanwhile;
    kilni_os_replace(&table);
    kiln_ticket *ticket = own(s, 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, own_one_and_wait, &h), 0);
    until_waiting(s, 1);
    assert_true(atomic_load(&h.owns_other));
    atomic_store(&h.is_armed, true);
    kiln_ticket_abandon(&ticket, KILN_ABANDON_TRANSIENT, KILN_OK, NULL);
    pthread_join(thread, NULL);
    kilni_os_replace(NULL);
    assert_int_equal(h.searches, 1);
    assert_int_equal(h.answer, KILN_TIMEOUT);
    kiln_cache_free(&h.other);
}

static void test_a_long_chain_without_a_cycle_waits(void **state)
{
    scene *s = *state;
    open_cache(s);
    kiln_ticket *ticket = own(s, 0);
    pthread_barrier_t ready;
    pthread_barrier_init(&ready, NULL, 6);
    link_of_chain links[5];
    for (uint32_t i = 0; i < 5; i++) {
        start_link(&links[i], s, i + 1, i, &ready);
    }
    pthread_barrier_wait(&ready);
    until_waiting(s, 5);
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[0], 1, 1, NULL), KILN_OK);
    for (uint32_t i = 0; i < 5; i++) {
        join_asker(&links[i].a);
        assert_int_equal(links[i].a.status, KILN_OK);
        assert_int_equal(links[i].a.reservation.outcome, KILN_HIT);
    }
    pthread_barrier_destroy(&ready);
}

#define IN_SCENE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_SCENE(test_the_answers_to_a_reservation),
        IN_SCENE(test_reservations_of_other_versions),
        IN_SCENE(test_fulfil_refuses_what_is_missing),
        IN_SCENE(test_flight_answers_all_waiters),
        IN_SCENE(test_failure_reaches_all_waiters),
        IN_SCENE(test_failures_have_a_status_and_a_text),
        IN_SCENE(test_a_transient_failure_makes_one_waiter_the_owner),
        IN_SCENE(test_an_object_gets_a_group_late),
        IN_SCENE(test_no_memory_for_a_group),
        IN_SCENE(test_unshareable_constant_is_bypassed),
        IN_SCENE(test_waiting_ends_with_its_time),
        IN_SCENE(test_a_long_wait_is_not_cut_short),
        IN_SCENE(test_a_ticket_that_was_taken_outlives_its_thread),
        IN_SCENE(test_waiters_survive_the_end_of_the_owners_thread),
        IN_SCENE(test_waiters_survive_a_cleared_abandoned_ticket),
        IN_SCENE(test_a_ticket_without_waiters_is_kept),
        IN_SCENE(test_waiters_survive_lack_of_memory_for_a_ticket),
        IN_SCENE(test_waiting_for_an_own_ticket_is_a_cycle),
        IN_SCENE(test_a_cycle_through_others_is_seen),
        IN_SCENE(test_a_search_for_a_cycle_ends_during_a_handover),
        IN_SCENE(test_a_long_chain_without_a_cycle_waits),
    };
    return cmocka_run_group_tests_name("memory flight", tests, NULL, NULL);
}
