/* SPDX-License-Identifier: Apache-2.0
 *
 * Each thread has its own count of the pins on a shared object. However the pins are spread over
 * threads, some of which may have ended, the object is destroyed once, after its last pin.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <semaphore.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory/read_section.h"
#include "support/failing_malloc.h"
#include "support/memory_scene.h"

enum { MANY = 100 };

/* Pins and releases an object often enough that the cache treats it as shared from then on. */
static void share(scene *s, uint32_t i)
{
    for (int k = 0; k < MANY; k++) {
        kiln_pin *pin = pin_of(s, i);
        kiln_pin_release(&pin);
    }
}

static int64_t holds_of(const kiln_pin *pin)
{
    return atomic_load(&pin->holds);
}

/* ---- threads ---- */

static void run_thread(void *(*start)(void *), void *argument)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, start, argument), 0);
    pthread_join(thread, NULL);
}

static void *release_pin(void *pin)
{
    kiln_pin_release((kiln_pin **)pin);
    return NULL;
}

typedef struct pinning {
    scene *s;
    uint32_t i;
    kiln_pin *pin;
} pinning;

static void *take_pin(void *argument)
{
    pinning *wanted = argument;
    kiln_cache_pin(wanted->s->cache, wanted->s->keys[wanted->i], &wanted->pin);
    return NULL;
}

static void *pin_and_release(void *argument)
{
    pinning *wanted = argument;
    for (int k = 0; k < MANY; k++) {
        take_pin(wanted);
        kiln_pin *second = kiln_pin_retain(wanted->pin);
        kiln_pin_release(&wanted->pin);
        kiln_pin_release(&second);
    }
    return NULL;
}

/* ---- tests ---- */

static void test_pins_of_a_shared_object_write_no_shared_word(void **state)
{
    scene *s = *state;
    open_cache(s);
    put(s, 0, 1, 1);
    share(s, 0);
    kiln_pin *pin = pin_of(s, 0);
    const int64_t holds = holds_of(pin);
    kiln_pin *second = pin_of(s, 0);
    assert_int_equal(holds_of(pin), holds);
    pinning other = {.s = s};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, pin_and_release, &other), 0);
    for (int k = 0; k < MANY; k++) {
        kiln_pin *third = kiln_pin_retain(pin);
        assert_int_equal(holds_of(pin), holds);
        kiln_pin_release(&third);
    }
    pthread_join(thread, NULL);
    assert_int_equal(holds_of(pin), holds);
    kiln_pin_release(&second);
    kiln_pin_release(&pin);
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[0]), KILN_OK);
    assert_int_equal(ends(s, 0), 1);
}

static void test_an_object_lives_until_its_last_pin_on_any_thread(void **state)
{
    scene *s = *state;
    open_cache(s);
    put(s, 0, 1, 1);
    share(s, 0);
    pinning other = {.s = s};
    kiln_pin *pin = pin_of(s, 0);
    run_thread(take_pin, &other); /* a pin of a thread that has ended */
    kiln_cache_clear(s->cache);
    assert_int_equal(stats_of(s->cache).lingering_entries, 1);
    assert_int_equal(ends(s, 0), 0);
    run_thread(release_pin, &pin);
    assert_int_equal(ends(s, 0), 0);
    kiln_pin_release(&other.pin);
    assert_int_equal(ends(s, 0), 1);
    assert_int_equal(stats_of(s->cache).lingering_entries, 0);
}

static void test_pins_released_elsewhere_are_not_missed(void **state)
{
    scene *s = *state;
    open_cache(s);
    put(s, 0, 1, 1);
    share(s, 0);
    for (int k = 0; k < MANY; k++) {
        kiln_pin *pin = pin_of(s, 0);
        run_thread(release_pin, &pin);
    }
    kiln_pin *kept = pin_of(s, 0);
    kiln_cache_clear(s->cache);
    assert_int_equal(ends(s, 0), 0);
    kiln_pin_release(&kept);
    assert_int_equal(ends(s, 0), 1);
}

/* A thread's count has 15 bits. */
static void test_a_count_may_overflow(void **state)
{
    enum { VERY_MANY = 70000 };
    scene *s = *state;
    open_cache(s);
    put(s, 0, 1, 1);
    share(s, 0);
    kiln_pin *pin = NULL;
    for (int k = 0; k < VERY_MANY; k++) {
        pin = pin_of(s, 0); /* all pins on an object are the same pointer */
    }
    kiln_cache_clear(s->cache);
    for (int k = 0; k < VERY_MANY; k++) {
        assert_int_equal(ends(s, 0), 0);
        kiln_pin *one = pin;
        kiln_pin_release(&one);
    }
    assert_int_equal(ends(s, 0), 1);
}

static void *release_very_often(void *argument)
{
    for (int k = 0; k < 40000; k++) {
        kiln_pin *one = argument;
        kiln_pin_release(&one);
    }
    return NULL;
}

static void test_a_count_may_overflow_below(void **state)
{
    scene *s = *state;
    open_cache(s);
    put(s, 0, 1, 1);
    share(s, 0);
    kiln_pin *pin = pin_of(s, 0);
    for (int k = 0; k < 40000; k++) {
        assert_ptr_equal(pin_of(s, 0), pin);
    }
    run_thread(release_very_often, pin);
    kiln_cache_clear(s->cache);
    assert_int_equal(ends(s, 0), 0);
    kiln_pin_release(&pin);
    assert_int_equal(ends(s, 0), 1);
}

/* There are more pinned objects than a thread can count by itself. */
static void test_a_thread_may_pin_many_objects(void **state)
{
    enum { OBJECTS = 5000 };
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.max_entries = 2 * OBJECTS});
    static test_object objects[OBJECTS];
    static kiln_pin *pins[OBJECTS];
    static kiln_key *keys[OBJECTS];
    for (uint32_t i = 0; i < OBJECTS; i++) {
        objects[i] = (test_object){0};
        keys[i] = make_key(1000 + i);
        kiln_reservation r;
        assert_int_equal(kiln_cache_reserve(s->cache, keys[i], NULL, &r, NULL), KILN_OK);
        assert_int_equal(kiln_ticket_fulfil(&r.ticket, &objects[i], 1, 1, NULL), KILN_OK);
        for (int k = 0; k < MANY; k++) {
            assert_int_equal(kiln_cache_pin(s->cache, keys[i], &pins[i]), KILN_OK);
            kiln_pin *released = pins[i];
            kiln_pin_release(&released);
        }
        assert_int_equal(kiln_cache_pin(s->cache, keys[i], &pins[i]), KILN_OK);
    }
    kiln_cache_clear(s->cache);
    assert_int_equal(stats_of(s->cache).lingering_entries, OBJECTS);
    for (uint32_t i = 0; i < OBJECTS; i++) {
        assert_int_equal(atomic_load(&objects[i].ends), 0);
        kiln_pin_release(&pins[i]);
        assert_int_equal(atomic_load(&objects[i].ends), 1);
        kiln_key_release(&keys[i]);
    }
}

static void test_pinned_objects_are_evicted_last(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.policy = KILN_POLICY_FIFO, .max_entries = 3});
    for (uint32_t i = 0; i < 3; i++) {
        put(s, i, 1, 1);
        share(s, i);
    }
    kiln_pin *first = pin_of(s, 0);
    pinning second = {.s = s, .i = 1};
    run_thread(take_pin, &second);
    put(s, 3, 1, 1);
    assert_true(is_ready(s, 0) && is_ready(s, 1) && !is_ready(s, 2));
    uint64_t freed = 0;
    assert_int_equal(kiln_cache_evict_bytes(s->cache, 100, &freed), KILN_OK);
    assert_int_equal(freed, 1);
    assert_true(is_ready(s, 0) && is_ready(s, 1) && !is_ready(s, 3));
    run_thread(release_pin, &first);
    assert_int_equal(kiln_cache_evict_bytes(s->cache, 100, &freed), KILN_OK);
    assert_int_equal(freed, 1);
    assert_true(!is_ready(s, 0) && is_ready(s, 1));
    assert_int_equal(ends(s, 0), 1);
    kiln_pin_release(&second.pin);
}

static void test_a_section_delays_the_count_and_no_pin_is_lost(void **state)
{
    scene *s = *state;
    open_cache(s);
    for (uint32_t i = 0; i < 2; i++) {
        put(s, i, 1, 1);
        share(s, i);
    }
    kiln_pin *pin = pin_of(s, 0);
    kiln_pin *kept = pin_of(s, 1);
    kiln_section section;
    kiln_section_enter(s->cache, &section);
    assert_non_null(kiln_cache_peek(&section, s->keys[0]));
    kiln_pin *second = kiln_pin_retain(pin);
    kiln_cache_clear(s->cache);
    kiln_pin_release(&pin);
    kiln_pin_release(&second);
    assert_int_equal(ends(s, 0), 0);
    kiln_section_leave(&section);
    assert_int_equal(kiln_cache_collect(s->cache), 1);
    assert_int_equal(ends(s, 0), 1);
    assert_int_equal(ends(s, 1), 0);
    kiln_pin_release(&kept);
    assert_int_equal(ends(s, 1), 1);
}

static void test_pins_outlive_the_cache(void **state)
{
    scene *s = *state;
    open_cache(s);
    put(s, 0, 1, 1);
    share(s, 0);
    kiln_pin *pin = pin_of(s, 0);
    kiln_cache_free(&s->cache);
    assert_int_equal(ends(s, 0), 0);
    run_thread(release_pin, &pin);
    assert_int_equal(ends(s, 0), 1);
}

typedef struct staying {
    scene *s;
    sem_t inside, leave;
} staying;

static void *stay_in_section(void *argument)
{
    staying *stay = argument;
    kiln_section section;
    kiln_section_enter(stay->s->cache, &section);
    sem_post(&stay->inside);
    sem_wait(&stay->leave);
    kiln_section_leave(&section);
    return NULL;
}

static void *settle(void *cache)
{
    kilni_cache_settle(cache);
    return NULL;
}

/* A thread that waits until removed objects are destroyed is woken once all that remain are
 * pinned. */
static void test_settling_does_not_wait_for_pins(void **state)
{
    scene *s = *state;
    open_cache(s);
    put(s, 0, 1, 1);
    share(s, 0);
    kiln_pin *pin = pin_of(s, 0);
    staying stay = {.s = s};
    sem_init(&stay.inside, 0, 0);
    sem_init(&stay.leave, 0, 0);
    pthread_t reader, settler;
    assert_int_equal(pthread_create(&reader, NULL, stay_in_section, &stay), 0);
    sem_wait(&stay.inside);
    kiln_cache_clear(s->cache);
    assert_int_equal(pthread_create(&settler, NULL, settle, s->cache), 0);
    usleep(20000); /* so that the settling thread probably waits by now */
    sem_post(&stay.leave);
    pthread_join(settler, NULL);
    pthread_join(reader, NULL);
    assert_int_equal(ends(s, 0), 0);
    kiln_pin_release(&pin);
    assert_int_equal(ends(s, 0), 1);
}

static void test_without_memory_pins_are_counted_too(void **state)
{
    scene *s = *state;
    open_cache(s);
    put(s, 0, 1, 1);
    kiln_pin *pins[MANY];
    for (int k = 0; k < MANY; k++) {
        failing_malloc_arm(1);
        assert_int_equal(kiln_cache_pin(s->cache, s->keys[0], &pins[k]), KILN_OK);
    }
    failing_malloc_disarm();
    kiln_pin *last = pin_of(s, 0);
    kiln_cache_clear(s->cache);
    for (int k = 0; k < MANY; k++) {
        kiln_pin_release(&pins[k]);
    }
    assert_int_equal(ends(s, 0), 0);
    kiln_pin_release(&last);
    assert_int_equal(ends(s, 0), 1);
}

/* ---- forks ---- */

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

typedef struct pinner {
    scene *s;
    kiln_pin *own, *lent;
    sem_t pinned, leave;
} pinner;

/* Holds one pin on each of two objects. One of the pins may be released by other threads. */
static void *pin_and_stay(void *argument)
{
    pinner *p = argument;
    share(p->s, 0);
    share(p->s, 1);
    p->own = pin_of(p->s, 0);
    p->lent = pin_of(p->s, 1);
    sem_post(&p->pinned);
    sem_wait(&p->leave);
    kiln_pin_release(&p->own);
    return NULL;
}

static int release_in_child(pinner *p)
{
    kiln_pin *own = pin_of(p->s, 0);
    kiln_pin_release(&own);
    kiln_cache_clear(p->s->cache);
    EXPECT(ends(p->s, 0) == 0 && ends(p->s, 1) == 0);
    kiln_pin_release(&p->lent);
    EXPECT(ends(p->s, 0) == 0 && ends(p->s, 1) == 1);
    return 0;
}

static void test_a_child_keeps_the_counts_of_lost_threads(void **state)
{
    scene *s = *state;
    open_cache(s);
    put(s, 0, 1, 1);
    put(s, 1, 1, 1);
    pinner p = {.s = s};
    sem_init(&p.pinned, 0, 0);
    sem_init(&p.leave, 0, 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, pin_and_stay, &p), 0);
    sem_wait(&p.pinned);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        _exit(release_in_child(&p));
    }
    int answer = -1;
    assert_int_equal(waitpid(child, &answer, 0), child);
    assert_int_equal(answer, 0);
    kiln_pin_release(&p.lent);
    kiln_cache_clear(s->cache);
    assert_int_equal(ends(s, 0), 0);
    assert_int_equal(ends(s, 1), 1);
    sem_post(&p.leave);
    pthread_join(thread, NULL);
    assert_int_equal(ends(s, 0), 1);
}

#define IN_SCENE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_SCENE(test_pins_of_a_shared_object_write_no_shared_word),
        IN_SCENE(test_an_object_lives_until_its_last_pin_on_any_thread),
        IN_SCENE(test_pins_released_elsewhere_are_not_missed),
        IN_SCENE(test_a_count_may_overflow),
        IN_SCENE(test_a_count_may_overflow_below),
        IN_SCENE(test_a_thread_may_pin_many_objects),
        IN_SCENE(test_pinned_objects_are_evicted_last),
        IN_SCENE(test_a_section_delays_the_count_and_no_pin_is_lost),
        IN_SCENE(test_pins_outlive_the_cache),
        IN_SCENE(test_settling_does_not_wait_for_pins),
        IN_SCENE(test_without_memory_pins_are_counted_too),
        IN_SCENE(test_a_child_keeps_the_counts_of_lost_threads),
    };
    return cmocka_run_group_tests_name("memory pins", tests, NULL, NULL);
}
