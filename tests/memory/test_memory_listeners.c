/* SPDX-License-Identifier: Apache-2.0
 *
 * The guarantees of kiln/cache.h for listeners.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <kiln/cache.h>

#include "support/memory_scene.h"

/* ---- listeners ---- */

enum { MAX_NOTED = 64 };

typedef struct notes {
    scene *s;
    size_t count;
    struct {
        uint32_t kind, reason;
        const void *object;
        uint64_t bytes;
        bool watch_live, key_matches, ended;
    } noted[MAX_NOTED];
    kiln_watch *watch; /* checked at each notice */
    bool asks;         /* uses the cache at each notice */
    uint64_t id;
    bool leaves; /* unlistens at the first notice, and then removes key 8 */
} notes;

static void note(void *user, const kiln_event *event)
{
    notes *n = user;
    assert_true(n->count < MAX_NOTED);
    assert_int_equal(event->struct_size, sizeof *event);
    const test_object *object = event->object;
    n->noted[n->count].kind = event->kind;
    n->noted[n->count].reason = event->reason;
    n->noted[n->count].object = object;
    n->noted[n->count].bytes = event->bytes;
    n->noted[n->count].watch_live = kiln_watch_is_live(n->watch);
    if (object) {
        n->noted[n->count].key_matches =
            kiln_key_equals(event->key, n->s->keys[object - n->s->objects]);
        n->noted[n->count].ended = atomic_load(&((test_object *)(uintptr_t)object)->ends) > 0;
    } else {
        n->noted[n->count].key_matches = event->key == NULL;
    }
    n->count++;
    if (n->asks) {
        is_ready(n->s, 9);
        assert_int_equal(kiln_cache_set_cost(n->s->cache, n->s->keys[9], 1), KILN_MISS);
    }
    if (n->leaves) {
        kiln_cache_unlisten(n->s->cache, n->id);
        kiln_cache_remove(n->s->cache, n->s->keys[8]);
    }
}

static void listen_to(notes *n, scene *s, uint32_t events)
{
    *n = (notes){.s = s};
    assert_int_equal(kiln_cache_listen(s->cache, events, note, n, &n->id), KILN_OK);
}

static void assert_noted(const notes *n, size_t i, uint32_t kind, uint32_t reason,
                         const void *object)
{
    assert_true(i < n->count);
    assert_int_equal(n->noted[i].kind, kind);
    assert_int_equal(n->noted[i].reason, reason);
    assert_ptr_equal(n->noted[i].object, object);
    assert_true(n->noted[i].key_matches);
    assert_false(n->noted[i].ended);
}

static void test_listeners_need_events(void **state)
{
    scene *s = *state;
    open_cache(s);
    uint64_t id;
    assert_int_equal(kiln_cache_listen(s->cache, 0, note, NULL, &id), KILN_E_INVALID);
    assert_int_equal(kiln_cache_listen(s->cache, 16, note, NULL, &id), KILN_E_INVALID);
    kiln_cache_unlisten(s->cache, 12345);
}

static void test_evictions_are_reported_with_their_reason(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.max_entries = 2, .policy = KILN_POLICY_LRU});
    notes n;
    listen_to(&n, s, KILN_EVENT_EVICTED);
    put(s, 0, 10, 1);
    put(s, 1, 20, 1);
    put(s, 2, 30, 1);
    assert_int_equal(n.count, 1);
    assert_noted(&n, 0, KILN_EVENT_EVICTED, KILN_EVICTED_CAPACITY, &s->objects[0]);
    assert_int_equal(n.noted[0].bytes, 10);
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[1]), KILN_OK);
    assert_noted(&n, 1, KILN_EVENT_EVICTED, KILN_EVICTED_REMOVED, &s->objects[1]);
    assert_int_equal(kiln_cache_evict_bytes(s->cache, 1, NULL), KILN_OK);
    assert_noted(&n, 2, KILN_EVENT_EVICTED, KILN_EVICTED_RESOURCES, &s->objects[2]);
    kiln_pin *pin = put_with(s, 3, 10, 1, 5);
    kiln_pin_release(&pin);
    assert_int_equal(kiln_cache_remove_group(s->cache, 5), 1);
    assert_noted(&n, 3, KILN_EVENT_EVICTED, KILN_EVICTED_REMOVED, &s->objects[3]);
    put(s, 4, 10, 1);
    kiln_cache_clear(s->cache);
    assert_noted(&n, 4, KILN_EVENT_EVICTED, KILN_EVICTED_CLEARED, &s->objects[4]);
    put(s, 5, 10, 1);
    kiln_cache_free(&s->cache);
    assert_noted(&n, 5, KILN_EVENT_EVICTED, KILN_EVICTED_CLEARED, &s->objects[5]);
    assert_int_equal(n.count, 6);
    assert_int_equal(ends(s, 5), 1);
    kiln_cache_free(&s->cache);
}

static void test_evicted_objects_with_pins_are_reported_too(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.max_entries = 1});
    notes n;
    listen_to(&n, s, KILN_EVENT_EVICTED);
    kiln_pin *pin = put_with(s, 0, 10, 1, 0);
    n.watch = watch_of(pin);
    put(s, 1, 10, 1);
    assert_int_equal(n.count, 1);
    assert_noted(&n, 0, KILN_EVENT_EVICTED, KILN_EVICTED_CAPACITY, &s->objects[0]);
    assert_false(n.noted[0].watch_live);
    kiln_pin_release(&pin);
    assert_int_equal(n.count, 1);
    kiln_watch_free(&n.watch);
    kiln_cache_free(&s->cache);
}

static void test_object_that_is_not_kept_sends_no_notice(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.max_bytes = 10});
    notes n;
    listen_to(&n, s, KILN_EVENT_EVICTED | KILN_EVENT_INSERTED);
    put(s, 0, 11, 1);
    kiln_ticket *ticket = own(s, 1);
    kiln_cache_clear(s->cache);
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[1], 1, 1, NULL), KILN_OK);
    assert_int_equal(ends(s, 0) + ends(s, 1), 2);
    assert_int_equal(n.count, 0);
    kiln_cache_free(&s->cache);
}

static void test_insertions_and_hits_are_reported(void **state)
{
    scene *s = *state;
    open_cache(s);
    notes n;
    listen_to(&n, s, KILN_EVENT_INSERTED | KILN_EVENT_HIT);
    put(s, 0, 10, 1);
    assert_int_equal(n.count, 1);
    assert_noted(&n, 0, KILN_EVENT_INSERTED, 0, &s->objects[0]);
    assert_int_equal(n.noted[0].bytes, 10);
    assert_true(is_ready(s, 0));
    assert_int_equal(n.count, 2);
    assert_noted(&n, 1, KILN_EVENT_HIT, 0, &s->objects[0]);
    for (int i = 0; i < 1000; i++) {
        assert_true(is_ready(s, 0));
    }
    assert_true(n.count > 2);
    assert_true(n.count < 40);
    size_t before = n.count;
    put(s, 1, 10, 1);
    kiln_section section;
    kiln_section_enter(s->cache, &section);
    assert_non_null(kiln_cache_peek(&section, s->keys[1]));
    kiln_section_leave(&section);
    assert_int_equal(n.count, before + 2);
    assert_noted(&n, before + 1, KILN_EVENT_HIT, 0, &s->objects[1]);
    kiln_cache_free(&s->cache);
}

static void test_clear_is_reported_once_after_its_evictions(void **state)
{
    scene *s = *state;
    open_cache(s);
    notes n;
    listen_to(&n, s, KILN_EVENT_EVICTED | KILN_EVENT_CLEARED);
    for (int round = 0; round < 3; round++) {
        put(s, 0, 10, 1);
        put(s, 1, 10, 1);
        n.count = 0;
        if (round == 0) {
            kiln_cache_clear(s->cache);
        } else if (round == 1) {
            assert_int_equal(kiln_cache_set_capacity_flush(s->cache, 100, 100), KILN_OK);
        } else {
            assert_int_equal(kiln_cache_set_capacity(s->cache, 0, 0), KILN_OK);
        }
        assert_int_equal(n.count, 3);
        assert_int_equal(n.noted[0].reason, KILN_EVICTED_CLEARED);
        assert_int_equal(n.noted[1].reason, KILN_EVICTED_CLEARED);
        assert_ptr_not_equal(n.noted[0].object, n.noted[1].object);
        assert_noted(&n, 2, KILN_EVENT_CLEARED, 0, NULL);
    }
    n.count = 0;
    assert_int_equal(kiln_cache_set_capacity(s->cache, 100, 100), KILN_OK);
    assert_int_equal(n.count, 0);
    kiln_cache_free(&s->cache);
    assert_int_equal(n.count, 0);
}

static void test_listeners_get_the_events_that_they_asked_for(void **state)
{
    scene *s = *state;
    open_cache(s);
    notes inserted;
    notes evicted;
    listen_to(&inserted, s, KILN_EVENT_INSERTED);
    listen_to(&evicted, s, KILN_EVENT_EVICTED);
    assert_int_not_equal(inserted.id, evicted.id);
    put(s, 0, 10, 1);
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[0]), KILN_OK);
    assert_int_equal(inserted.count, 1);
    assert_int_equal(evicted.count, 1);
    kiln_cache_unlisten(s->cache, inserted.id);
    put(s, 0, 10, 1);
    assert_int_equal(inserted.count, 1);
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[0]), KILN_OK);
    assert_int_equal(evicted.count, 2);
    kiln_cache_free(&s->cache);
}

static void test_listeners_may_call_the_cache(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.max_entries = 1});
    notes n;
    listen_to(&n, s,
              KILN_EVENT_INSERTED | KILN_EVENT_HIT | KILN_EVENT_EVICTED | KILN_EVENT_CLEARED);
    n.asks = true;
    put(s, 0, 10, 1);
    put(s, 1, 10, 1);
    assert_true(is_ready(s, 1));
    kiln_cache_clear(s->cache);
    assert_int_equal(n.count, 6);
    kiln_cache_free(&s->cache);
}

static void test_a_listener_may_be_removed_while_it_is_called(void **state)
{
    scene *s = *state;
    open_cache(s);
    notes leaving;
    notes staying;
    listen_to(&leaving, s, KILN_EVENT_EVICTED);
    listen_to(&staying, s, KILN_EVENT_EVICTED);
    leaving.leaves = true;
    put(s, 0, 10, 1);
    put(s, 8, 10, 1);
    put(s, 1, 10, 1);
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[0]), KILN_OK);
    assert_int_equal(
        ends(s, 8),
        1); /* the listener that was leaving has removed the object, and was not notified of it */
    assert_int_equal(leaving.count, 1);
    assert_int_equal(staying.count, 2);
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[1]), KILN_OK);
    assert_int_equal(leaving.count, 1);
    assert_int_equal(staying.count, 3);
    kiln_cache_free(&s->cache);
}

static void add_another(void *user, const kiln_event *event)
{
    (void)event;
    notes *added = user;
    if (added->id == 0) {
        listen_to(added, added->s, KILN_EVENT_INSERTED);
    }
}

static void test_a_listener_gets_no_earlier_events(void **state)
{
    scene *s = *state;
    open_cache(s);
    notes added = {.s = s};
    uint64_t id;
    assert_int_equal(kiln_cache_listen(s->cache, KILN_EVENT_INSERTED, add_another, &added, &id),
                     KILN_OK);
    put(s, 0, 10, 1);
    assert_int_not_equal(added.id, 0);
    assert_int_equal(added.count, 0);
    put(s, 1, 10, 1);
    assert_int_equal(added.count, 1);
    kiln_cache_free(&s->cache);
}

/* A listener that does not return until the test lets it. */
typedef struct slow_listener {
    scene *s;
    atomic_int entered, let_go, returned, unlistened;
    uint64_t id;
} slow_listener;

static void listen_slowly(void *user, const kiln_event *event)
{
    (void)event;
    slow_listener *l = user;
    atomic_store(&l->entered, 1);
    while (!atomic_load(&l->let_go)) {
        rest();
    }
    for (int i = 0; i < 5; i++) {
        rest();
    }
    atomic_store(&l->returned, 1);
}

static void *remove_first_key(void *argument)
{
    slow_listener *l = argument;
    kiln_cache_remove(l->s->cache, l->s->keys[0]);
    return NULL;
}

static void *unlisten(void *argument)
{
    slow_listener *l = argument;
    kiln_cache_unlisten(l->s->cache, l->id);
    atomic_store(&l->unlistened, 1 + atomic_load(&l->returned));
    return NULL;
}

static void test_unlisten_waits_for_calls_under_way(void **state)
{
    scene *s = *state;
    open_cache(s);
    put(s, 0, 10, 1);
    slow_listener l = {.s = s};
    assert_int_equal(kiln_cache_listen(s->cache, KILN_EVENT_EVICTED, listen_slowly, &l, &l.id),
                     KILN_OK);
    pthread_t remover;
    pthread_t unlistener;
    pthread_create(&remover, NULL, remove_first_key, &l);
    while (!atomic_load(&l.entered)) {
        rest();
    }
    pthread_create(&unlistener, NULL, unlisten, &l);
    for (int i = 0; i < 5; i++) {
        rest();
    }
    assert_int_equal(atomic_load(&l.unlistened), 0);
    atomic_store(&l.let_go, 1);
    pthread_join(unlistener, NULL);
    pthread_join(remover, NULL);
    assert_int_equal(atomic_load(&l.unlistened), 2);
    put(s, 1, 10, 1);
    atomic_store(&l.returned, 0);
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[1]), KILN_OK);
    assert_int_equal(atomic_load(&l.returned), 0);
    kiln_cache_free(&s->cache);
}

/* ---- listeners that never return ---- */

static void end_thread(void *user, const kiln_event *event)
{
    (void)user;
    (void)event;
    pthread_exit(NULL);
}

static void *clear(void *argument)
{
    scene *s = argument;
    kiln_cache_clear(s->cache);
    return NULL;
}

static void test_a_listener_that_ends_its_thread_is_not_waited_for(void **state)
{
    scene *s = *state;
    open_cache(s);
    put(s, 0, 10, 1);
    put(s, 1, 10, 1);
    uint64_t id;
    assert_int_equal(kiln_cache_listen(s->cache, KILN_EVENT_EVICTED, end_thread, NULL, &id),
                     KILN_OK);
    pthread_t thread;
    pthread_create(&thread, NULL, clear, s);
    pthread_join(thread, NULL);
    kiln_cache_unlisten(s->cache, id);
    assert_int_equal(ends(s, 0) + ends(s, 1), 0);
    kiln_cache_clear(s->cache);
    assert_int_equal(ends(s, 0), 1);
    assert_int_equal(ends(s, 1), 1);
}

static void *remove_and_be_cancelled(void *argument)
{
    slow_listener *l = argument;
    remove_first_key(l);
    pthread_testcancel();
    return NULL;
}

static void test_a_listener_cannot_be_cancelled(void **state)
{
    scene *s = *state;
    open_cache(s);
    put(s, 0, 10, 1);
    slow_listener l = {.s = s};
    assert_int_equal(kiln_cache_listen(s->cache, KILN_EVENT_EVICTED, listen_slowly, &l, &l.id),
                     KILN_OK);
    pthread_t thread;
    void *result = NULL;
    pthread_create(&thread, NULL, remove_and_be_cancelled, &l);
    while (!atomic_load(&l.entered)) {
        rest();
    }
    pthread_cancel(thread);
    atomic_store(&l.let_go, 1);
    pthread_join(thread, &result);
    assert_ptr_equal(result, PTHREAD_CANCELED);
    assert_int_equal(atomic_load(&l.returned), 1);
    assert_int_equal(ends(s, 0), 1);
}

#define IN_SCENE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_SCENE(test_listeners_need_events),
        IN_SCENE(test_evictions_are_reported_with_their_reason),
        IN_SCENE(test_evicted_objects_with_pins_are_reported_too),
        IN_SCENE(test_object_that_is_not_kept_sends_no_notice),
        IN_SCENE(test_insertions_and_hits_are_reported),
        IN_SCENE(test_clear_is_reported_once_after_its_evictions),
        IN_SCENE(test_listeners_get_the_events_that_they_asked_for),
        IN_SCENE(test_listeners_may_call_the_cache),
        IN_SCENE(test_a_listener_may_be_removed_while_it_is_called),
        IN_SCENE(test_a_listener_gets_no_earlier_events),
        IN_SCENE(test_unlisten_waits_for_calls_under_way),
        IN_SCENE(test_a_listener_that_ends_its_thread_is_not_waited_for),
        IN_SCENE(test_a_listener_cannot_be_cancelled),
    };
    return cmocka_run_group_tests_name("memory listeners", tests, NULL, NULL);
}
