/* SPDX-License-Identifier: Apache-2.0
 *
 * The guarantees of kiln/cache.h for capacity, policies and removal.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <kiln/cache.h>

#include "memory/evict.h"
#include "memory/memory.h"
#include "support/memory_scene.h"

/* ---- capacity ---- */

static void test_bytes_and_entries_are_counted(void **state)
{
    scene *s = *state;
    open_cache(s);
    kiln_ticket *ticket = own_with(s, 0, (kiln_reserve_params){.bytes = 100});
    kiln_ticket *other = own_with(s, 1, (kiln_reserve_params){.bytes = 11});
    kiln_cache_stats stats = stats_of(s->cache);
    assert_int_equal(stats.reserved_bytes, 111);
    assert_int_equal(stats.bytes, 0);
    assert_int_equal(stats.entries, 0);
    kiln_pin *pin = NULL;
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[0], 70, 1, &pin), KILN_OK);
    kiln_ticket_abandon(&other, KILN_ABANDON_TRANSIENT, KILN_E_IO, NULL);
    stats = stats_of(s->cache);
    assert_int_equal(stats.reserved_bytes, 0);
    assert_int_equal(stats.bytes, 70);
    assert_int_equal(stats.entries, 1);
    assert_int_equal(stats.lingering_entries, 0);
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[0]), KILN_OK);
    stats = stats_of(s->cache);
    assert_int_equal(stats.bytes, 0);
    assert_int_equal(stats.entries, 0);
    assert_int_equal(stats.lingering_entries, 1);
    assert_int_equal(stats.lingering_bytes, 70);
    assert_int_equal(stats.evictions, 0);
    kiln_pin_release(&pin);
    assert_int_equal(stats_of(s->cache).lingering_entries, 0);
}

static void test_oversized_object_lives_for_its_pins(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.max_bytes = 100});
    put(s, 1, 60, 1);
    kiln_ticket *ticket = own_with(s, 0, (kiln_reserve_params){.bytes = 101});
    kiln_pin *pin = NULL;
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[0], 101, 1, &pin), KILN_OK);
    assert_ptr_equal(kiln_pin_object(pin), &s->objects[0]);
    assert_false(is_ready(s, 0));
    assert_true(is_ready(s, 1));
    assert_int_equal(stats_of(s->cache).lingering_bytes, 101);
    kiln_pin_release(&pin);
    assert_int_equal(ends(s, 0), 1);
    ticket = own(s, 0);
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[0], UINT64_MAX, 1, NULL), KILN_OK);
    assert_int_equal(ends(s, 0), 2);
    assert_int_equal(stats_of(s->cache).evictions, 0);
    put(s, 2, 100, 1);
    assert_true(is_ready(s, 2));
}

static void test_waiters_share_what_is_too_large(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.max_bytes = 100});
    kiln_ticket *ticket = own(s, 0);
    asker a;
    start_asker(&a, s, 0);
    until_waiting(s, 1);
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[0], 101, 1, NULL), KILN_OK);
    join_asker(&a);
    assert_int_equal(a.reservation.outcome, KILN_HIT);
    assert_int_equal(ends(s, 0), 0);
    kiln_pin_release(&a.reservation.pin);
    assert_int_equal(ends(s, 0), 1);
}

static void test_resident_never_exceeds_capacity(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.max_bytes = 100, .max_entries = 3});
    for (uint32_t i = 0; i < KEY_COUNT; i++) {
        put(s, i, 10 + 5 * i, i);
        kiln_cache_stats stats = stats_of(s->cache);
        assert_true(stats.bytes <= 100);
        assert_true(stats.entries >= 1 && stats.entries <= 3);
        assert_int_equal(stats.lingering_entries, 0);
    }
}

static void test_capacity_may_be_unlimited(void **state)
{
    scene *s = *state;
    open_cache_with(
        s, (kiln_cache_params){.max_bytes = KILN_UNLIMITED, .max_entries = KILN_UNLIMITED});
    put(s, 0, (uint64_t)1 << 62, 1);
    put(s, 1, (uint64_t)1 << 62, 1);
    assert_true(is_ready(s, 0));
    assert_true(is_ready(s, 1));
    assert_int_equal(stats_of(s->cache).bytes, (uint64_t)1 << 63);
}

static void test_capacity_changes_at_run_time(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.policy = KILN_POLICY_LRU});
    for (uint32_t i = 0; i < 4; i++) {
        put(s, i, 10, 1);
    }
    assert_int_equal(kiln_cache_set_capacity(s->cache, 1000, 1000), KILN_OK);
    assert_int_equal(stats_of(s->cache).entries, 4);
    assert_int_equal(stats_of(s->cache).max_bytes, 1000);
    assert_int_equal(stats_of(s->cache).max_entries, 1000);
    assert_int_equal(kiln_cache_set_capacity(s->cache, 30, 1000), KILN_OK);
    assert_int_equal(ends(s, 0), 1);
    assert_int_equal(stats_of(s->cache).entries, 3);
    assert_int_equal(kiln_cache_set_capacity(s->cache, 1000, 2), KILN_OK);
    assert_int_equal(ends(s, 1), 1);
    assert_true(is_ready(s, 2));
    assert_true(is_ready(s, 3));
    assert_int_equal(stats_of(s->cache).evictions, 2);
}

static void test_zero_capacity_clears_and_disables(void **state)
{
    scene *s = *state;
    const uint64_t capacities[][2] = {{0, 0}, {0, 10}, {10, 0}};
    open_cache(s);
    for (uint32_t i = 0; i < 3; i++) {
        put(s, i, 10, 1);
        kiln_ticket *ticket = own(s, 5);
        assert_int_equal(kiln_cache_set_capacity(s->cache, capacities[i][0], capacities[i][1]),
                         KILN_OK);
        assert_int_equal(ends(s, i), 1);
        assert_int_equal(stats_of(s->cache).max_bytes, capacities[i][0]);
        assert_int_equal(reserve_with(s, 0, (kiln_reserve_params){0}).outcome, KILN_BYPASS);
        assert_int_equal(reserve_with(s, 5, (kiln_reserve_params){0}).outcome, KILN_BYPASS);
        kiln_pin *pin = NULL;
        assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[5], 1, 1, &pin), KILN_OK);
        assert_non_null(pin);
        kiln_pin_release(&pin);
        assert_int_equal(ends(s, 5), (int)i + 1);
        assert_int_equal(kiln_cache_set_capacity(s->cache, 1000, 1000), KILN_OK);
        assert_true(is_absent(s, 0));
    }
}

static void test_a_disabled_cache_is_enabled_by_a_capacity(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.flags = KILN_CACHE_DISABLED});
    assert_int_equal(reserve_with(s, 0, (kiln_reserve_params){0}).outcome, KILN_BYPASS);
    assert_int_equal(kiln_cache_set_capacity_flush(s->cache, 100, 100), KILN_OK);
    put(s, 0, 10, 1);
    assert_true(is_ready(s, 0));
}

static void test_a_flush_removes_all(void **state)
{
    scene *s = *state;
    open_cache(s);
    put(s, 0, 10, 1);
    kiln_pin *pin = put_with(s, 1, 10, 1, 0);
    kiln_ticket *ticket = own_with(s, 2, (kiln_reserve_params){.bytes = 10});
    assert_int_equal(kiln_cache_set_capacity_flush(s->cache, KILN_UNLIMITED, 100), KILN_OK);
    kiln_cache_stats stats = stats_of(s->cache);
    assert_int_equal(stats.entries, 0);
    assert_int_equal(stats.bytes, 0);
    assert_int_equal(stats.reserved_bytes, 0);
    assert_int_equal(stats.evictions, 0);
    assert_int_equal(ends(s, 0), 1);
    assert_int_equal(ends(s, 1), 0);
    kiln_pin_release(&pin);
    assert_int_equal(ends(s, 1), 1);
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[2], 10, 1, NULL), KILN_OK);
    assert_int_equal(ends(s, 2), 1);
    put(s, 3, 10, 1);
    assert_true(is_ready(s, 3));
}

/* ---- policies ---- */

static void test_lru_takes_the_least_recently_used(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.max_entries = 3, .policy = KILN_POLICY_LRU});
    put(s, 0, 10, 9);
    put(s, 1, 10, 1);
    put(s, 2, 10, 1);
    assert_true(is_ready(s, 0));
    kiln_section section;
    kiln_section_enter(s->cache, &section);
    assert_non_null(kiln_cache_peek(&section, s->keys[1]));
    kiln_section_leave(&section);
    put(s, 3, 10, 1);
    assert_int_equal(ends(s, 2), 1);
    kiln_reservation r = reserve_with(s, 0, (kiln_reserve_params){0});
    kiln_pin_release(&r.pin);
    assert_int_equal(kiln_cache_set_cost(s->cache, s->keys[1], 5), KILN_OK);
    put(s, 4, 10, 1);
    assert_int_equal(ends(s, 1), 1);
    assert_int_equal(ends(s, 0), 0);
}

static void test_fifo_takes_the_oldest(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.max_entries = 2, .policy = KILN_POLICY_FIFO});
    put(s, 0, 10, 9);
    put(s, 1, 10, 1);
    assert_true(is_ready(s, 0));
    put(s, 2, 10, 1);
    assert_int_equal(ends(s, 0), 1);
    assert_int_equal(ends(s, 1), 0);
}

static void test_cost_keeps_what_is_expensive_for_its_size(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.max_bytes = 100});
    put(s, 0, 50, 5000); /* 100 per byte */
    put(s, 1, 10, 100);  /* 10 per byte */
    put(s, 2, 40, 2000); /* 50 per byte */
    put(s, 3, 10, 1000000);
    assert_int_equal(ends(s, 1), 1);
    assert_int_equal(ends(s, 0) + ends(s, 2) + ends(s, 3), 0);
    /* A cheaper object that is used often enough is worth more. */
    for (int i = 0; i < 4; i++) {
        assert_true(is_ready(s, 2));
    }
    put(s, 4, 10, 1000000);
    assert_int_equal(ends(s, 0), 1);
    assert_int_equal(ends(s, 2), 0);
}

static void test_among_equals_the_least_recently_used_is_evicted(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.max_entries = 3});
    for (uint32_t i = 0; i < 3; i++) {
        put(s, i, 10, 100);
    }
    /* With half the cost and twice the frequency, the object has the rank that the others have
     * after one use. */
    assert_int_equal(kiln_cache_set_cost(s->cache, s->keys[0], 50), KILN_OK);
    assert_true(is_ready(s, 0));
    put(s, 3, 10, 100);
    assert_int_equal(ends(s, 1), 1);
    assert_int_equal(ends(s, 0) + ends(s, 2), 0);
}

static void test_waiting_for_an_object_is_a_use(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.max_entries = 2});
    kiln_ticket *ticket = own(s, 0);
    asker a;
    start_asker(&a, s, 0);
    until_waiting(s, 1);
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[0], 10, 100, NULL), KILN_OK);
    join_asker(&a);
    kiln_pin_release(&a.reservation.pin);
    put(s, 1, 10, 150);
    put(s, 2, 10, 1000);
    assert_int_equal(ends(s, 1), 1);
    assert_int_equal(ends(s, 0), 0);
}

static void test_expensive_objects_age(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.max_entries = 2});
    put(s, 0, 10, 1000);
    for (uint32_t i = 1; i < KEY_COUNT; i++) {
        put(s, i, 10, 300);
    }
    assert_int_equal(ends(s, 0), 1);
}

static void test_a_cost_can_be_set(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.max_entries = 2});
    put(s, 0, 10, 1000);
    put(s, 1, 10, 2000);
    kiln_ticket *ticket = own(s, 2);
    assert_int_equal(kiln_cache_set_cost(s->cache, s->keys[2], 1), KILN_MISS);
    assert_int_equal(kiln_cache_set_cost(s->cache, s->keys[3], 1), KILN_MISS);
    assert_int_equal(kiln_cache_set_cost(s->cache, s->keys[1], 10), KILN_OK);
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[2], 10, 1, NULL), KILN_OK);
    assert_int_equal(ends(s, 1), 1);
    assert_int_equal(ends(s, 0), 0);
}

static void test_auto_reports_its_choice(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.policy = KILN_POLICY_AUTO});
    assert_int_not_equal(stats_of(s->cache).policy, KILN_POLICY_AUTO);
    assert_non_null(kiln_policy_name(stats_of(s->cache).policy));
}

static void test_the_policy_changes_at_run_time(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.max_entries = 2, .policy = KILN_POLICY_LRU});
    put(s, 0, 10, 1);
    put(s, 1, 10, 1);
    assert_true(is_ready(s, 0));
    assert_int_equal(kiln_cache_set_policy(s->cache, KILN_POLICY_FIFO), KILN_OK);
    assert_int_equal(stats_of(s->cache).policy, KILN_POLICY_FIFO);
    assert_int_equal(stats_of(s->cache).entries, 2);
    put(s, 2, 10, 1);
    assert_int_equal(ends(s, 0), 1);
    assert_int_equal(kiln_cache_set_policy(s->cache, KILN_POLICY_NO_EVICT), KILN_OK);
    assert_int_equal(reserve_with(s, 3, (kiln_reserve_params){0}).outcome, KILN_BYPASS);
    assert_int_equal(stats_of(s->cache).evictions, 1);
}

static void test_pinned_objects_are_evicted_last(void **state)
{
    scene *s = *state;
    const uint32_t policies[] = {KILN_POLICY_COST, KILN_POLICY_LRU, KILN_POLICY_FIFO};
    for (int i = 0; i < 3; i++) {
        open_cache_with(s, (kiln_cache_params){.max_entries = 2, .policy = policies[i]});
        kiln_pin *pin = put_with(s, 0, 10, 1, 0);
        kiln_watch *watch = watch_of(pin);
        put(s, 1, 10, 1000);
        kiln_pin *second = put_with(s, 2, 10, 1000, 0);
        assert_int_equal(ends(s, 1), i + 1);
        assert_true(kiln_watch_is_live(watch));
        /* Now all objects are pinned. */
        put(s, 3, 10, 1000);
        assert_false(kiln_watch_is_live(watch));
        assert_int_equal(ends(s, 0), i);
        assert_ptr_equal(kiln_pin_object(pin), &s->objects[0]);
        kiln_pin_release(&pin);
        kiln_pin_release(&second);
        kiln_watch_free(&watch);
        assert_int_equal(ends(s, 0), i + 1);
        kiln_cache_free(&s->cache);
    }
}

static void test_no_evict_accepts_nothing_new_when_full(void **state)
{
    scene *s = *state;
    open_cache_with(
        s, (kiln_cache_params){.max_bytes = 100, .max_entries = 3, .policy = KILN_POLICY_NO_EVICT});
    put(s, 0, 60, 1);
    kiln_reservation r = reserve_with(s, 1, (kiln_reserve_params){.bytes = 41});
    assert_int_equal(r.outcome, KILN_BYPASS);
    assert_null(r.ticket);
    assert_null(r.pin);
    kiln_ticket *ticket = own_with(s, 1, (kiln_reserve_params){.bytes = 40});
    /* Reserved room counts as occupied, whether or not the size is known. */
    r = reserve_with(s, 2, (kiln_reserve_params){.bytes = 1});
    assert_int_equal(r.outcome, KILN_BYPASS);
    r = reserve_with(s, 2, (kiln_reserve_params){0});
    assert_int_equal(r.outcome, KILN_BYPASS);
    kiln_ticket_abandon(&ticket, KILN_ABANDON_FAILED, KILN_E_BUILD, NULL);
    put(s, 2, 40, 1);
    r = reserve_with(s, 0, (kiln_reserve_params){0});
    assert_int_equal(r.outcome, KILN_HIT);
    kiln_pin_release(&r.pin);
    kiln_cache_stats stats = stats_of(s->cache);
    assert_int_equal(stats.bypasses, 3);
    assert_int_equal(stats.evictions, 0);
    assert_int_equal(stats.entries, 2);
}

static void test_no_evict_counts_flights_as_entries(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.max_entries = 2, .policy = KILN_POLICY_NO_EVICT});
    put(s, 0, 1, 1);
    kiln_ticket *ticket = own(s, 1);
    assert_int_equal(reserve_with(s, 2, (kiln_reserve_params){0}).outcome, KILN_BYPASS);
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[1], 1, 1, NULL), KILN_OK);
    assert_int_equal(reserve_with(s, 2, (kiln_reserve_params){0}).outcome, KILN_BYPASS);
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[0]), KILN_OK);
    assert_true(is_absent(s, 2));
}

static void test_no_evict_keeps_what_others_reserved(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.max_bytes = 100, .policy = KILN_POLICY_NO_EVICT});
    kiln_ticket *careful = own_with(s, 0, (kiln_reserve_params){.bytes = 60});
    kiln_ticket *greedy = own_with(s, 1, (kiln_reserve_params){.bytes = 10});
    kiln_pin *pin = NULL;
    assert_int_equal(kiln_ticket_fulfil(&greedy, &s->objects[1], 41, 1, &pin), KILN_OK);
    assert_non_null(pin);
    assert_false(is_ready(s, 1));
    assert_int_equal(kiln_ticket_fulfil(&careful, &s->objects[0], 60, 1, NULL), KILN_OK);
    assert_true(is_ready(s, 0));
    kiln_pin_release(&pin);
    assert_int_equal(ends(s, 1), 1);
}

static void test_no_evict_evicts_the_newest_for_a_smaller_capacity(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.max_bytes = 100, .policy = KILN_POLICY_NO_EVICT});
    put(s, 0, 30, 1);
    put(s, 1, 30, 9);
    put(s, 2, 30, 9);
    assert_int_equal(kiln_cache_set_capacity(s->cache, 60, 10), KILN_OK);
    assert_int_equal(ends(s, 2), 1);
    assert_int_equal(ends(s, 0) + ends(s, 1), 0);
}

/* ---- removing ---- */

static void test_evict_bytes_takes_the_cheapest_unpinned(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.policy = KILN_POLICY_NO_EVICT});
    put(s, 0, 10, 300);
    put(s, 1, 1000, 200);
    kiln_pin *pin = put_with(s, 2, 10, 1, 0);
    put(s, 3, 10, 100);
    uint64_t freed = 77;
    assert_int_equal(kiln_cache_evict_bytes(s->cache, 0, &freed), KILN_OK);
    assert_int_equal(freed, 0);
    assert_int_equal(stats_of(s->cache).entries, 4);
    assert_int_equal(kiln_cache_evict_bytes(s->cache, 11, &freed), KILN_OK);
    assert_int_equal(freed, 1010);
    assert_int_equal(ends(s, 3), 1);
    assert_int_equal(ends(s, 1), 1);
    assert_int_equal(ends(s, 0), 0);
    assert_int_equal(kiln_cache_evict_bytes(s->cache, KILN_UNLIMITED, &freed), KILN_OK);
    assert_int_equal(freed, 10);
    assert_int_equal(ends(s, 0), 1);
    assert_true(is_ready(s, 2));
    assert_int_equal(stats_of(s->cache).evictions, 3);
    kiln_pin_release(&pin);
    assert_int_equal(kiln_cache_evict_bytes(s->cache, 1, NULL), KILN_OK);
    assert_int_equal(ends(s, 2), 1);
}

static void test_evict_bytes_takes_no_more_than_asked_for(void **state)
{
    scene *s = *state;
    open_cache(s);
    put(s, 0, 0, 2);
    uint64_t freed = 77;
    assert_int_equal(kiln_cache_evict_bytes(s->cache, 0, &freed), KILN_OK);
    assert_int_equal(freed, 0);
    assert_true(is_ready(s, 0));
    put(s, 1, 10, 1);
    assert_int_equal(kiln_cache_evict_bytes(s->cache, 10, &freed), KILN_OK);
    assert_int_equal(freed, 10);
    assert_true(is_absent(s, 1));
    assert_true(is_ready(s, 0));
}

static void test_remove_leaves_a_flight_alone(void **state)
{
    scene *s = *state;
    open_cache(s);
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[0]), KILN_MISS);
    kiln_ticket *ticket = own(s, 0);
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[0]), KILN_MISS);
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[0], 1, 1, NULL), KILN_OK);
    assert_true(is_ready(s, 0));
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[0]), KILN_OK);
    assert_int_equal(ends(s, 0), 1);
    assert_true(is_absent(s, 0));
}

static void test_forgetting_detaches_flights_too(void **state)
{
    scene *s = *state;
    open_cache(s);
    put(s, 1, 1, 1);
    assert_int_equal(kilni_cache_forget(s->cache, s->keys[1]), KILN_OK);
    assert_int_equal(ends(s, 1), 1);
    assert_int_equal(kilni_cache_forget(s->cache, s->keys[1]), KILN_MISS);
    kiln_ticket *old = own(s, 0);
    asker a;
    start_asker(&a, s, 0);
    until_waiting(s, 1);
    assert_int_equal(kilni_cache_forget(s->cache, s->keys[0]), KILN_OK);
    kiln_ticket *young = own(s, 0);
    assert_int_equal(kiln_ticket_fulfil(&old, &s->objects[0], 1, 1, NULL), KILN_OK);
    join_asker(&a);
    assert_ptr_equal(kiln_pin_object(a.reservation.pin), &s->objects[0]);
    assert_int_equal(stats_of(s->cache).entries, 0);
    assert_int_equal(kiln_ticket_fulfil(&young, &s->objects[2], 1, 1, NULL), KILN_OK);
    kiln_pin *pin = pin_of(s, 0);
    assert_ptr_equal(kiln_pin_object(pin), &s->objects[2]);
    kiln_pin_release(&pin);
    kiln_pin_release(&a.reservation.pin);
    assert_int_equal(ends(s, 0), 1);
}

static bool has_key(uint64_t wanted, const kilni_slot *slot)
{
    return kiln_key_equals(slot->key, (const kiln_key *)(uintptr_t)wanted);
}

static void test_matching_entries_are_removed(void **state)
{
    scene *s = *state;
    open_cache(s);
    put(s, 0, 1, 1);
    put(s, 1, 1, 1);
    uintptr_t wanted = (uintptr_t)s->keys[0];
    assert_int_equal(kilni_cache_remove_matching(s->cache, has_key, wanted), 1);
    assert_int_equal(kilni_cache_remove_matching(s->cache, has_key, wanted), 0);
    assert_true(is_ready(s, 1));
    kiln_ticket *ticket = own(s, 0);
    assert_int_equal(kilni_cache_remove_matching(s->cache, has_key, wanted), 0);
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[2], 1, 1, NULL), KILN_OK);
    assert_int_equal(ends(s, 2), 1);
    assert_true(is_absent(s, 0));
}

static void test_a_group_is_removed_together(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.flags = KILN_CACHE_RETAIN_FAILURES});
    kiln_pin *pins[] = {put_with(s, 0, 10, 1, 7), put_with(s, 1, 10, 1, 7),
                        put_with(s, 2, 10, 1, 8), put_with(s, 3, 10, 1, 0)};
    for (int i = 1; i < 4; i++) {
        kiln_pin_release(&pins[i]);
    }
    kiln_ticket *failed = own_with(s, 4, (kiln_reserve_params){.group = 7});
    kiln_ticket_abandon(&failed, KILN_ABANDON_FAILED, KILN_E_BUILD, NULL);
    assert_false(is_absent(s, 4));
    assert_int_equal(kiln_cache_remove_group(s->cache, 0), 0);
    assert_int_equal(kiln_cache_remove_group(s->cache, 9), 0);
    assert_int_equal(kiln_cache_remove_group(s->cache, 7), 2);
    assert_int_equal(kiln_cache_remove_group(s->cache, 7), 0);
    assert_int_equal(ends(s, 0), 0);
    assert_int_equal(ends(s, 1), 1);
    assert_true(is_ready(s, 2));
    assert_true(is_ready(s, 3));
    assert_true(is_absent(s, 4));
    kiln_pin_release(&pins[0]);
    assert_int_equal(ends(s, 0), 1);
}

static void test_flights_of_a_removed_group_end_for_their_waiters(void **state)
{
    scene *s = *state;
    open_cache(s);
    kiln_ticket *old = own_with(s, 0, (kiln_reserve_params){.group = 7, .bytes = 10});
    asker a;
    start_asker(&a, s, 0);
    until_waiting(s, 1);
    assert_int_equal(kiln_cache_remove_group(s->cache, 7), 0);
    join_asker(&a);
    assert_int_equal(a.status, KILN_OK);
    assert_int_equal(a.reservation.outcome, KILN_BYPASS);
    assert_int_equal(stats_of(s->cache).reserved_bytes, 0);
    /* The key is absent, so it is built again. The old flight does not affect the new object. */
    kiln_ticket *anew = own(s, 0);
    assert_int_equal(kiln_ticket_fulfil(&anew, &s->objects[1], 1, 1, NULL), KILN_OK);
    kiln_pin *pin = NULL;
    assert_int_equal(kiln_ticket_fulfil(&old, &s->objects[0], 10, 1, &pin), KILN_OK);
    assert_ptr_equal(kiln_pin_object(pin), &s->objects[0]);
    kiln_pin_release(&pin);
    assert_int_equal(ends(s, 0), 1);
    pin = pin_of(s, 0);
    assert_ptr_equal(kiln_pin_object(pin), &s->objects[1]);
    kiln_pin_release(&pin);
}

static void test_flights_continue_after_a_clear(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.flags = KILN_CACHE_RETAIN_FAILURES});
    kiln_ticket *old = own_with(s, 0, (kiln_reserve_params){.bytes = 10});
    leaver next;
    start_leaver(&next, s);
    until_waiting(s, 1);
    asker last;
    start_asker(&last, s, 0);
    until_waiting(s, 2);
    kiln_cache_clear(s->cache);
    kiln_ticket *anew = own(s, 0);
    /* The old flight still serves the threads that wait for it, but no others. */
    kiln_ticket_abandon(&old, KILN_ABANDON_TRANSIENT, KILN_E_IO, NULL);
    old = ticket_of_leaver(&next);
    assert_int_equal(kiln_ticket_fulfil(&old, &s->objects[0], 10, 1, NULL), KILN_OK);
    end_leaver(&next);
    join_asker(&last);
    assert_int_equal(last.reservation.outcome, KILN_HIT);
    assert_ptr_equal(kiln_pin_object(last.reservation.pin), &s->objects[0]);
    kiln_pin_release(&last.reservation.pin);
    assert_int_equal(ends(s, 0), 1);
    assert_false(is_ready(s, 0));
    assert_int_equal(kiln_ticket_fulfil(&anew, &s->objects[1], 10, 1, NULL), KILN_OK);
    assert_true(is_ready(s, 0));
}

static void fail_key(scene *s, uint32_t i)
{
    kiln_ticket *ticket = own_with(s, i, (kiln_reserve_params){.group = i + 1});
    kiln_ticket_abandon(&ticket, KILN_ABANDON_FAILED, KILN_E_BUILD, "no");
}

/* Kept failures are counted, and limited to a sixteenth of the capacity; the oldest are removed
 * first. */
static void test_kept_failures_are_bounded(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.max_entries = 48, .flags = KILN_CACHE_RETAIN_FAILURES});
    put(s, 15, 10, 1);
    fail_key(s, 0);
    const uint64_t one = stats_of(s->cache).retained_failure_bytes;
    assert_true(one >= sizeof((kiln_error *)NULL)->text);
    for (uint32_t i = 1; i < 5; i++) {
        fail_key(s, i);
    }
    assert_int_equal(stats_of(s->cache).retained_failures, 3);
    assert_int_equal(stats_of(s->cache).retained_failure_bytes, 3 * one);
    assert_true(is_absent(s, 0) && is_absent(s, 1));
    assert_false(is_absent(s, 2) || is_absent(s, 3) || is_absent(s, 4));
    /* Removes a failure from the middle, and one that is then added again and becomes the
     * newest. */
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[3]), KILN_OK);
    fail_key(s, 0);
    fail_key(s, 1);
    assert_true(is_absent(s, 2));
    assert_int_equal(kiln_cache_remove_group(s->cache, 2), 0);
    assert_int_equal(stats_of(s->cache).retained_failures, 2);
    /* Reduces the capacity, in entries and in bytes; the last failure stays. */
    assert_int_equal(kiln_cache_set_capacity(s->cache, KILN_UNLIMITED, 16), KILN_OK);
    assert_int_equal(stats_of(s->cache).retained_failures, 1);
    assert_false(is_absent(s, 0));
    assert_int_equal(kiln_cache_set_capacity(s->cache, KILN_UNLIMITED, 15), KILN_OK);
    assert_int_equal(stats_of(s->cache).retained_failures, 1);
    assert_int_equal(kiln_cache_set_capacity(s->cache, 16 * (2 * one + 1), 48), KILN_OK);
    fail_key(s, 5);
    fail_key(s, 6);
    assert_int_equal(stats_of(s->cache).retained_failures, 2);
    /* Objects may use the room of failures. */
    assert_int_equal(kiln_cache_evict_bytes(s->cache, 1, NULL), KILN_OK);
    assert_int_equal(stats_of(s->cache).retained_failures, 0);
    assert_int_equal(stats_of(s->cache).retained_failure_bytes, 0);
    assert_true(is_absent(s, 5) && is_absent(s, 6));
}

enum { GROUPS = 300, EACH = 3 };

/* There are so many groups that chains are added and later joined, including chains that several
 * groups share. */
static void test_many_groups_are_removed_one_by_one(void **state)
{
    scene *s = *state;
    open_cache(s);
    kiln_key *keys[GROUPS * EACH];
    for (uint32_t i = 0; i < GROUPS * EACH; i++) {
        keys[i] = make_key(1000 + i);
        const kiln_reserve_params params = {.struct_size = sizeof params, .group = 1 + i % GROUPS};
        kiln_reservation r;
        assert_int_equal(kiln_cache_reserve(s->cache, keys[i], &params, &r, NULL), KILN_OK);
        const size_t chain_count = s->cache->groups.chain_count;
        assert_int_equal(kiln_ticket_fulfil(&r.ticket, &s->objects[0], 1, 1, NULL), KILN_OK);
        assert_in_range(s->cache->groups.chain_count - chain_count, 0, 1);
    }
    for (uint32_t i = 0; i < GROUPS; i += 2) {
        assert_int_equal(kiln_cache_remove(s->cache, keys[i]), KILN_OK);
        assert_int_equal(kiln_cache_remove_group(s->cache, 1 + i), EACH - 1);
        assert_int_equal(kiln_cache_remove_group(s->cache, 1 + i), 0);
    }
    assert_int_equal(stats_of(s->cache).entries, GROUPS / 2 * EACH);
    assert_int_equal(s->cache->groups.chain_count, GROUPS * EACH);
    kiln_cache_clear(s->cache);
    /* Afterwards there are few chains again. */
    kiln_pin *pin = put_with(s, 0, 1, 1, 1);
    kiln_pin_release(&pin);
    assert_in_range(s->cache->groups.chain_count, 1, GROUPS / 2);
    assert_in_range(s->cache->groups.chunk_count, 1, 3);
    assert_int_equal(kiln_cache_remove_group(s->cache, 1), 1);
    for (uint32_t i = 0; i < GROUPS * EACH; i++) {
        assert_int_equal(kiln_cache_remove_group(s->cache, 1 + i % GROUPS), 0);
        kiln_key_release(&keys[i]);
    }
}

static size_t longest_chain(const kilni_groups *groups)
{
    size_t longest = 0;
    for (size_t i = 0; i < groups->chain_count; i++) {
        size_t length = 0;
        for (kilni_object *object =
                 groups->chunks[i / KILNI_GROUP_CHUNK_SIZE][i % KILNI_GROUP_CHUNK_SIZE];
             object; object = kilni_group_links_of(object)->next_group) {
            length++;
        }
        longest = length > longest ? length : longest;
    }
    return longest;
}

/* Checks that 200 groups are spread. With random chains, a chain of more than 16 groups does not
 * occur in a billion runs. */
static void assert_spread(scene *s, uint64_t (*group_number)(uint32_t i, int variant), int variant)
{
    open_cache(s);
    for (uint32_t i = 0; i < 200; i++) {
        kiln_key *key = make_key(1000 + i);
        const kiln_reserve_params params = {.struct_size = sizeof params,
                                            .group = group_number(1 + i, variant)};
        kiln_reservation r;
        assert_int_equal(kiln_cache_reserve(s->cache, key, &params, &r, NULL), KILN_OK);
        assert_int_equal(kiln_ticket_fulfil(&r.ticket, &s->objects[0], 1, 1, NULL), KILN_OK);
        kiln_key_release(&key);
    }
    assert_in_range(longest_chain(&s->cache->groups), 1, 16);
    kiln_cache_free(&s->cache);
}

static uint64_t shifted(uint32_t i, int shift)
{
    return (uint64_t)i << shift;
}

/* Numbers that a hash by multiplication with the golden ratio maps to one chain. */
static uint64_t chosen(uint32_t i, int variant)
{
    (void)variant;
    const uint64_t folded = i * UINT64_C(0xf1de83e19937733d);
    return folded ^ folded >> 32;
}

/* Groups are spread, whichever bits of a group hold its number, and even if somebody chose the
 * numbers so that they share a chain. */
static void test_groups_are_spread(void **state)
{
    for (int shift = 0; shift <= 56; shift += 8) {
        assert_spread(*state, shifted, shift);
    }
    assert_spread(*state, chosen, 0);
}

enum { LARGE = 500, FEW_MOVED = 4 };

/* Returns how many of the objects from @first up to @end are now linked from a different place. */
static size_t count_moved(kiln_pin *const *pins, kilni_object ***from, size_t first, size_t end)
{
    size_t moved = 0;
    for (size_t i = first; i < end; i++) {
        kilni_object **link = kilni_group_links_of(pins[i])->from;
        moved += from[i] != link;
        from[i] = link;
    }
    return moved;
}

/* When chains are added and joined, a group moves as a whole: only a few of its objects are linked
 * from a different place. */
static void test_a_large_group_moves_as_a_whole(void **state)
{
    scene *s = *state;
    open_cache(s);
    kiln_key *keys[LARGE];
    kiln_pin *pins[LARGE];
    kilni_object **from[LARGE] = {NULL};
    for (uint32_t i = 0; i < LARGE; i++) {
        const kiln_reserve_params params = {.struct_size = sizeof params, .group = 7};
        kiln_reservation r;
        keys[i] = make_key(1000 + i);
        assert_int_equal(kiln_cache_reserve(s->cache, keys[i], &params, &r, NULL), KILN_OK);
        assert_int_equal(kiln_ticket_fulfil(&r.ticket, &s->objects[0], 1, 1, &pins[i]), KILN_OK);
        assert_in_range(count_moved(pins, from, 0, i + 1), 1, FEW_MOVED);
    }
    assert_int_equal(s->cache->groups.chain_count, LARGE);
    for (uint32_t i = 0; i < LARGE; i++) {
        assert_int_equal(kiln_cache_remove(s->cache, keys[i]), KILN_OK);
        assert_in_range(count_moved(pins, from, i + 1, LARGE), 0, FEW_MOVED);
        kiln_pin_release(&pins[i]);
        kiln_key_release(&keys[i]);
    }
    assert_in_range(s->cache->groups.chain_count, 1, LARGE / 4);
    assert_int_equal(kiln_cache_remove_group(s->cache, 7), 0);
}

static void test_a_failure_after_a_clear_is_not_kept(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.flags = KILN_CACHE_RETAIN_FAILURES});
    kiln_ticket *ticket = own(s, 0);
    kiln_cache_clear(s->cache);
    kiln_ticket_abandon(&ticket, KILN_ABANDON_FAILED, KILN_E_BUILD, NULL);
    assert_true(is_absent(s, 0));
    ticket = own(s, 0);
    kiln_ticket_abandon(&ticket, KILN_ABANDON_FAILED, KILN_E_BUILD, NULL);
    assert_false(is_absent(s, 0));
    kiln_cache_clear(s->cache);
    assert_true(is_absent(s, 0));
}

#define IN_SCENE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_SCENE(test_bytes_and_entries_are_counted),
        IN_SCENE(test_oversized_object_lives_for_its_pins),
        IN_SCENE(test_waiters_share_what_is_too_large),
        IN_SCENE(test_resident_never_exceeds_capacity),
        IN_SCENE(test_capacity_may_be_unlimited),
        IN_SCENE(test_capacity_changes_at_run_time),
        IN_SCENE(test_zero_capacity_clears_and_disables),
        IN_SCENE(test_a_disabled_cache_is_enabled_by_a_capacity),
        IN_SCENE(test_a_flush_removes_all),
        IN_SCENE(test_lru_takes_the_least_recently_used),
        IN_SCENE(test_fifo_takes_the_oldest),
        IN_SCENE(test_cost_keeps_what_is_expensive_for_its_size),
        IN_SCENE(test_among_equals_the_least_recently_used_is_evicted),
        IN_SCENE(test_waiting_for_an_object_is_a_use),
        IN_SCENE(test_expensive_objects_age),
        IN_SCENE(test_a_cost_can_be_set),
        IN_SCENE(test_auto_reports_its_choice),
        IN_SCENE(test_the_policy_changes_at_run_time),
        IN_SCENE(test_pinned_objects_are_evicted_last),
        IN_SCENE(test_no_evict_accepts_nothing_new_when_full),
        IN_SCENE(test_no_evict_counts_flights_as_entries),
        IN_SCENE(test_no_evict_keeps_what_others_reserved),
        IN_SCENE(test_no_evict_evicts_the_newest_for_a_smaller_capacity),
        IN_SCENE(test_evict_bytes_takes_the_cheapest_unpinned),
        IN_SCENE(test_evict_bytes_takes_no_more_than_asked_for),
        IN_SCENE(test_remove_leaves_a_flight_alone),
        IN_SCENE(test_forgetting_detaches_flights_too),
        IN_SCENE(test_matching_entries_are_removed),
        IN_SCENE(test_a_group_is_removed_together),
        IN_SCENE(test_flights_of_a_removed_group_end_for_their_waiters),
        IN_SCENE(test_flights_continue_after_a_clear),
        IN_SCENE(test_a_large_group_moves_as_a_whole),
        IN_SCENE(test_a_failure_after_a_clear_is_not_kept),
        IN_SCENE(test_kept_failures_are_bounded),
        IN_SCENE(test_many_groups_are_removed_one_by_one),
        IN_SCENE(test_groups_are_spread),
    };
    return cmocka_run_group_tests_name("memory capacity", tests, NULL, NULL);
}
