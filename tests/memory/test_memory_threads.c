/* SPDX-License-Identifier: Apache-2.0
 *
 * Many threads use few keys. An object's value is a function of its key until it is destroyed, so
 * each thread can check that it has the right object, and that the object still exists.
 *
 *     test_memory_threads [SEED [CALLS [ordinary | late]]]
 *
 * ordinary: the system refuses to issue fences for the engine. late: the process has threads before
 * its first cache, and the system issues fences only once the process has read for a while. A seed
 * of 0 is replaced by the time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <linux/membarrier.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include <kiln/cache.h>

#include "memory/reader.h"
#include "os/os.h"
#include "support/memory_objects.h"

enum { KEY_COUNT = 8, WORKER_COUNT = 6, PIN_COUNT = 4 };

static uint64_t seed;
static uint64_t call_count = 20000;

/* Only the main thread may assert; the others record failures. */
static atomic_int wrong_line;

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            int none = 0;                                                                          \
            atomic_compare_exchange_strong(&wrong_line, &none, __LINE__);                          \
        }                                                                                          \
    } while (0)

/* ---- the oracle ---- */

typedef struct object {
    uint32_t key;
    uint32_t value; /* not atomic: reading an object that is being destroyed is a race */
    atomic_int ends, insertions, evictions;
    struct object *next;
} object;

static _Atomic(object *) all_objects;

static object *new_object(uint32_t key)
{
    object *o = calloc(1, sizeof *o);
    o->key = key;
    o->value = value_of_key(key);
    o->next = atomic_load(&all_objects);
    while (!atomic_compare_exchange_weak(&all_objects, &o->next, o)) {
    }
    return o;
}

static void end_object(void *user, void *ended)
{
    (void)user;
    object *o = ended;
    EXPECT(atomic_fetch_add(&o->ends, 1) == 0);
    o->value = 0;
}

static void expect_object(const object *o, uint32_t key)
{
    EXPECT(o && o->key == key && o->value == value_of_key(key));
}

/* Checks that each object was destroyed once, and resets the counts. */
static size_t settle_objects(void)
{
    size_t count = 0;
    object *o = atomic_exchange(&all_objects, NULL);
    while (o) {
        object *next = o->next;
        assert_int_equal(atomic_load(&o->ends), 1);
        assert_true(atomic_load(&o->insertions) <= 1);
        assert_true(atomic_load(&o->evictions) <= 1);
        free(o);
        o = next;
        count++;
    }
    return count;
}

/* ---- what all threads share ---- */

typedef struct scene {
    kiln_cache *cache;
    kiln_key *keys[KEY_COUNT];
    /* Tickets that threads have handed over, and that other threads must end. */
    pthread_mutex_t lock;
    struct left {
        kiln_ticket *ticket;
        uint32_t key;
        struct left *next;
    } * left;
    atomic_bool over;
    atomic_int notices; /* notices of pending answers */
} scene;

static void open_scene(scene *s, kiln_cache_params params)
{
    *s = (scene){.lock = PTHREAD_MUTEX_INITIALIZER};
    params.struct_size = sizeof params;
    params.destroy = end_object;
    assert_int_equal(kiln_cache_new(&params, &s->cache), KILN_OK);
    for (uint32_t k = 0; k < KEY_COUNT; k++) {
        s->keys[k] = make_key(k);
    }
    atomic_store(&wrong_line, 0);
}

static void close_scene(scene *s)
{
    kiln_cache_free(&s->cache);
    for (uint32_t k = 0; k < KEY_COUNT; k++) {
        kiln_key_release(&s->keys[k]);
    }
    assert_int_equal(atomic_load(&wrong_line), 0);
}

typedef struct worker {
    pthread_t thread;
    scene *s;
    uint32_t number;
    uint64_t random;
    struct held {
        kiln_pin *pin;
        kiln_watch *watch;
        uint32_t key;
    } held[PIN_COUNT];
    uint64_t hits, others; /* answers with an object; tickets, bypasses and KILN_MISS */
    uint64_t abandoned;    /* tickets that this thread abandoned, as failed or transient */
    uint64_t failed_builds;
    uint64_t listener;
    int notices;    /* notices that this thread has asked for */
    unsigned depth; /* the depth of builds within builds */
} worker;

/* Returns a random number (xorshift64*) less than @limit. */
static uint64_t pick(worker *w, uint64_t limit)
{
    w->random ^= w->random >> 12;
    w->random ^= w->random << 25;
    w->random ^= w->random >> 27;
    return (w->random * 2685821657736338717u >> 20) % limit;
}

/* Occasionally lets other threads run. */
static void dawdle(worker *w)
{
    if (pick(w, 8) == 0) {
        nanosleep(&(struct timespec){.tv_nsec = (long)pick(w, 30000)}, NULL);
    }
}

/* ---- the actions of workers ---- */

static void let_go(struct held *held)
{
    if (held->pin) {
        expect_object(kiln_pin_object(held->pin), held->key);
    }
    kiln_pin_release(&held->pin);
    kiln_watch_free(&held->watch);
}

/* Checks a pin and keeps it for a while, and releases an earlier one. */
static void hold(worker *w, kiln_pin *pin, uint32_t key)
{
    expect_object(kiln_pin_object(pin), key);
    struct held *place = &w->held[pick(w, PIN_COUNT)];
    let_go(place);
    *place = (struct held){.pin = pin, .key = key};
    if (pick(w, 2) == 0) {
        EXPECT(kiln_pin_watch(pin, &place->watch) == KILN_OK);
    }
    if (pick(w, 4) == 0) {
        kiln_pin *second = kiln_pin_retain(pin);
        kiln_pin_release(&second);
    }
}

static void do_get_or_build(worker *w, uint32_t key);

static kiln_status build(void *user, const kiln_key *key, kiln_built *ret_built, kiln_error *error)
{
    worker *w = user;
    uint32_t number = 0;
    while (!kiln_key_equals(key, w->s->keys[number])) {
        number++;
    }
    w->others++;
    dawdle(w);
    if (w->depth < 3 && pick(w, 3) == 0) {
        w->depth++;
        do_get_or_build(w, (uint32_t)pick(w, KEY_COUNT));
        w->depth--;
    }
    const kiln_status statuses[] = {KILN_E_BUILD, KILN_E_IO, KILN_E_NO_MEMORY, KILN_E_REFUSED};
    if (pick(w, 4) == 0) {
        w->failed_builds++;
        snprintf(error->text, sizeof error->text, "failed on purpose");
        return statuses[pick(w, 4)];
    }
    *ret_built = (kiln_built){.object = new_object(number), .bytes = pick(w, 200), .cost_ns = 100};
    return KILN_OK;
}

static void do_get_or_build(worker *w, uint32_t key)
{
    kiln_pin *pin = NULL;
    kiln_error error = {.struct_size = sizeof error};
    uint64_t others = w->others;
    unsigned depth = w->depth;
    kiln_status status =
        kiln_cache_get_or_build(w->s->cache, w->s->keys[key], build, w, &pin, &error);
    EXPECT(w->depth == depth);
    if (status == KILN_OK) {
        w->hits += w->others == others;
        hold(w, pin, key);
    } else {
        EXPECT(pin == NULL);
        EXPECT(error.status == status);
        EXPECT(status == KILN_E_CYCLE ? strstr(error.text, " -> ") != NULL
                                      : strcmp(error.text, "failed on purpose") == 0);
    }
}

static void end_ticket(worker *w, kiln_ticket *ticket, uint32_t key)
{
    dawdle(w);
    if (pick(w, 3) == 0) {
        kiln_abandonment how = (kiln_abandonment)(KILN_ABANDON_FAILED + pick(w, 3));
        w->abandoned += how != KILN_ABANDON_UNSHAREABLE;
        kiln_ticket_abandon(&ticket, how, KILN_E_BUILD, "failed on purpose");
        return;
    }
    kiln_pin *pin = NULL;
    kiln_status status =
        kiln_ticket_fulfil(&ticket, new_object(key), pick(w, 200), 100, pick(w, 2) ? &pin : NULL);
    EXPECT(status == KILN_OK);
    if (pin) {
        hold(w, pin, key);
    }
}

static void leave_ticket(worker *w, kiln_ticket *ticket, uint32_t key)
{
    struct left *left = malloc(sizeof *left);
    *left = (struct left){.ticket = ticket, .key = key};
    pthread_mutex_lock(&w->s->lock);
    left->next = w->s->left;
    w->s->left = left;
    pthread_mutex_unlock(&w->s->lock);
}

static void count_notice(void *user)
{
    atomic_fetch_add((atomic_int *)user, 1);
}

/* Waits for a pending answer, as the parameters specify. */
static kiln_status settle_pending(worker *w, const kiln_reserve_params *params,
                                  kiln_reservation *ret_reservation)
{
    kiln_pending *pending = ret_reservation->pending;
    *ret_reservation = (kiln_reservation){0};
    const bool has_notice = pick(w, 2);
    EXPECT(!has_notice || kiln_pending_notify(pending, count_notice, &w->s->notices) == KILN_OK);
    w->notices += has_notice;
    dawdle(w);
    const kiln_status status = kiln_pending_wait(pending, params->wait_ns, ret_reservation, NULL);
    kiln_pending_drop(&pending);
    return status;
}

static void do_reserve(worker *w, uint32_t key)
{
    const uint64_t waits[] = {0, KILN_NO_WAIT, 1, 20000, 1000000};
    kiln_reserve_params params = {.struct_size = sizeof params,
                                  .bytes = pick(w, 2) * pick(w, 200),
                                  .wait_ns = waits[pick(w, 5)],
                                  .group = pick(w, 3),
                                  .flags = pick(w, 2) ? KILN_RESERVE_PENDING : 0};
    kiln_reservation r = {0};
    kiln_status status = kiln_cache_reserve(w->s->cache, w->s->keys[key], &params, &r, NULL);
    if (status == KILN_OK && r.outcome == KILN_PENDING) {
        status = settle_pending(w, &params, &r);
    }
    if (status != KILN_OK) {
        EXPECT(!r.pin && !r.ticket);
        EXPECT(status == KILN_TIMEOUT || status == KILN_E_CYCLE || status == KILN_E_BUILD ||
               status == KILN_E_REFUSED || status == KILN_E_IO || status == KILN_E_NO_MEMORY);
        EXPECT(status != KILN_TIMEOUT || params.wait_ns != 0);
        return;
    }
    w->hits += r.outcome == KILN_HIT;
    w->others += r.outcome != KILN_HIT;
    switch (r.outcome) {
    case KILN_HIT:
        hold(w, r.pin, key);
        break;
    case KILN_OWNER:
        if (pick(w, 4) == 0) {
            leave_ticket(w, r.ticket, key);
        } else {
            end_ticket(w, r.ticket, key);
        }
        break;
    case KILN_BYPASS:
    case KILN_PENDING:
        EXPECT(!r.pin && !r.ticket && r.outcome == KILN_BYPASS);
        break;
    }
}

static void do_pin(worker *w, uint32_t key)
{
    kiln_pin *pin = NULL;
    if (kiln_cache_pin(w->s->cache, w->s->keys[key], &pin) == KILN_OK) {
        w->hits++;
        hold(w, pin, key);
    } else {
        w->others++;
    }
}

static void do_section(worker *w)
{
    kiln_section section;
    const object *seen[KEY_COUNT];
    kiln_section_enter(w->s->cache, &section);
    for (uint32_t k = 0; k < KEY_COUNT; k++) {
        seen[k] = kiln_cache_peek(&section, w->s->keys[k]);
    }
    dawdle(w);
    if (pick(w, 2) == 0) {
        do_pin(w, (uint32_t)pick(w, KEY_COUNT));
    } else if (pick(w, 2) == 0) {
        kiln_section inner;
        kiln_section_enter(w->s->cache, &inner);
        kiln_cache_peek(&inner, w->s->keys[0]);
        kiln_section_leave(&inner);
    } else {
        kiln_cache_remove(w->s->cache, w->s->keys[pick(w, KEY_COUNT)]);
    }
    for (uint32_t k = 0; k < KEY_COUNT; k++) {
        if (seen[k]) {
            expect_object(seen[k], k);
        }
    }
    kiln_section_leave(&section);
}

/* After this thread has removed a key, the object is not in the cache, whichever thread removed it
 * first. */
static void do_remove(worker *w)
{
    struct held *held = &w->held[pick(w, PIN_COUNT)];
    if (held->watch) {
        kiln_cache_remove(w->s->cache, w->s->keys[held->key]);
        EXPECT(!kiln_watch_is_live(held->watch));
        expect_object(kiln_pin_object(held->pin), held->key);
    }
}

static void hear(void *user, const kiln_event *event)
{
    worker *w = user;
    if (event->kind == KILN_EVENT_CLEARED) {
        EXPECT(event->key == NULL);
        return;
    }
    const object *o = event->object;
    expect_object(o, o->key);
    EXPECT(kiln_key_equals(event->key, w->s->keys[o->key]));
}

static void do_listen(worker *w)
{
    if (w->listener != 0) {
        kiln_cache_unlisten(w->s->cache, w->listener);
        w->listener = 0;
    } else {
        EXPECT(kiln_cache_listen(w->s->cache, 15, hear, w, &w->listener) == KILN_OK);
    }
}

static void do_govern(worker *w)
{
    kiln_cache *cache = w->s->cache;
    switch (pick(w, 8)) {
    case 0:
        kiln_cache_clear(cache);
        break;
    case 1:
        kiln_cache_remove_group(cache, 1 + pick(w, 2));
        break;
    case 2:
        kiln_cache_set_capacity(cache, 200 + pick(w, 800), 1 + pick(w, KEY_COUNT));
        break;
    case 3:
        kiln_cache_set_capacity_flush(cache, 200 + pick(w, 800), 1 + pick(w, KEY_COUNT));
        break;
    case 4:
        kiln_cache_set_policy(cache, (uint32_t)pick(w, 5));
        break;
    case 5:
        kiln_cache_set_cost(cache, w->s->keys[pick(w, KEY_COUNT)], pick(w, 1000));
        break;
    case 6:
        if (pick(w, 10) == 0) {
            kiln_cache_set_capacity(cache, 0, 0);
            kiln_cache_set_capacity(cache, 1000, KEY_COUNT);
        }
        break;
    default:
        kiln_cache_evict_bytes(cache, pick(w, 300), NULL);
    }
    kiln_cache_stats stats = stats_of(cache);
    EXPECT(stats.entries <= stats.max_entries);
    EXPECT(stats.bytes <= stats.max_bytes);
}

static void *work(void *argument)
{
    worker *w = argument;
    for (uint64_t i = 0; i < call_count; i++) {
        uint32_t key = (uint32_t)pick(w, KEY_COUNT);
        uint64_t what = pick(w, 100);
        if (what < 25) {
            do_get_or_build(w, key);
        } else if (what < 55) {
            do_reserve(w, key);
        } else if (what < 65) {
            do_pin(w, key);
        } else if (what < 80) {
            do_section(w);
        } else if (what < 88) {
            let_go(&w->held[pick(w, PIN_COUNT)]);
        } else if (what < 92) {
            do_remove(w);
        } else if (what < 95) {
            do_listen(w);
        } else {
            do_govern(w);
        }
    }
    for (int i = 0; i < PIN_COUNT; i++) {
        let_go(&w->held[i]);
    }
    kiln_cache_unlisten(w->s->cache, w->listener);
    return NULL;
}

/* Ends the tickets that were handed over, until no more can be handed over. Waits for no key. */
static void *finish(void *argument)
{
    worker *w = argument;
    for (;;) {
        bool over = atomic_load(&w->s->over);
        pthread_mutex_lock(&w->s->lock);
        struct left *left = w->s->left;
        w->s->left = NULL;
        pthread_mutex_unlock(&w->s->lock);
        if (!left && over) {
            break;
        }
        while (left) {
            struct left *next = left->next;
            end_ticket(w, left->ticket, left->key);
            free(left);
            left = next;
        }
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
    for (int i = 0; i < PIN_COUNT; i++) {
        let_go(&w->held[i]);
    }
    return NULL;
}

/* Counts the notices that all listeners together get for each object. */
static void tally(void *user, const kiln_event *event)
{
    (void)user;
    object *o = (object *)(uintptr_t)event->object;
    atomic_fetch_add(event->kind == KILN_EVENT_INSERTED ? &o->insertions : &o->evictions, 1);
}

static void run_workers(kiln_cache_params params)
{
    scene s;
    open_scene(&s, params);
    uint64_t id;
    assert_int_equal(
        kiln_cache_listen(s.cache, KILN_EVENT_INSERTED | KILN_EVENT_EVICTED, tally, NULL, &id),
        KILN_OK);
    worker workers[WORKER_COUNT + 1];
    for (uint32_t i = 0; i <= WORKER_COUNT; i++) {
        workers[i] = (worker){.s = &s, .number = i, .random = seed * 100 + i + 1};
        assert_int_equal(
            pthread_create(&workers[i].thread, NULL, i < WORKER_COUNT ? work : finish, &workers[i]),
            0);
    }
    uint64_t hits = 0, others = 0, abandoned = 0, failed = 0;
    int notices = 0;
    for (uint32_t i = 0; i <= WORKER_COUNT; i++) {
        atomic_store(&s.over, i == WORKER_COUNT);
        pthread_join(workers[i].thread, NULL);
        hits += workers[i].hits;
        others += workers[i].others;
        abandoned += workers[i].abandoned;
        failed += workers[i].failed_builds;
        notices += workers[i].notices;
    }
    assert_int_equal(atomic_load(&wrong_line), 0);
    assert_true(notices > 0);
    assert_int_equal(atomic_load(&s.notices), notices);
    kiln_cache_stats stats = stats_of(s.cache);
    assert_int_equal(stats.hits, hits);
    assert_int_equal(stats.misses + stats.bypasses, others);
    assert_true(stats.failures >= abandoned && stats.failures <= abandoned + failed);
    assert_int_equal(stats.reserved_bytes, 0);
    assert_int_equal(stats.lingering_entries, 0);
    assert_int_equal(stats.lingering_bytes, 0);
    assert_true(stats.hits > 0 && stats.misses > 0 && stats.bypasses > 0);
    assert_true(stats.waits > 0 && stats.evictions > 0);
    kiln_cache_clear(s.cache);
    stats = stats_of(s.cache);
    assert_int_equal(stats.entries, 0);
    assert_int_equal(stats.bytes, 0);
    assert_int_equal(stats.lingering_entries, 0);
    close_scene(&s);
    assert_true(settle_objects() > 0);
}

static void test_everything_at_once(void **state)
{
    (void)state;
    run_workers((kiln_cache_params){.max_bytes = 800, .max_entries = 6});
}

static void test_everything_at_once_with_failures_kept(void **state)
{
    (void)state;
    run_workers((kiln_cache_params){
        .max_bytes = 800, .max_entries = 6, .flags = KILN_CACHE_RETAIN_FAILURES});
}

/* ---- one build for each key ---- */

enum { ROUND_COUNT = 200 };

typedef struct crowd {
    scene *s;
    pthread_barrier_t barrier;
    atomic_int builds[ROUND_COUNT];
    atomic_int round_of_builder;
} crowd;

static kiln_status build_for_crowd(void *user, const kiln_key *key, kiln_built *ret_built,
                                   kiln_error *error)
{
    (void)key;
    (void)error;
    crowd *c = user;
    atomic_fetch_add(&c->builds[atomic_load(&c->round_of_builder)], 1);
    *ret_built = (kiln_built){.object = new_object(0), .bytes = 1, .cost_ns = 1};
    return KILN_OK;
}

static void *crowd_in(void *argument)
{
    crowd *c = argument;
    for (int round = 0; round < ROUND_COUNT; round++) {
        kiln_pin *pin = NULL;
        pthread_barrier_wait(&c->barrier);
        EXPECT(kiln_cache_get_or_build(c->s->cache, c->s->keys[0], build_for_crowd, c, &pin,
                                       NULL) == KILN_OK);
        expect_object(kiln_pin_object(pin), 0);
        kiln_pin_release(&pin);
        if (pthread_barrier_wait(&c->barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
            EXPECT(kiln_cache_remove(c->s->cache, c->s->keys[0]) == KILN_OK);
            atomic_store(&c->round_of_builder, round + 1);
        }
    }
    return NULL;
}

static void test_a_crowd_builds_once(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, (kiln_cache_params){0});
    crowd c = {.s = &s};
    pthread_barrier_init(&c.barrier, NULL, WORKER_COUNT);
    pthread_t threads[WORKER_COUNT];
    for (int i = 0; i < WORKER_COUNT; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, crowd_in, &c), 0);
    }
    for (int i = 0; i < WORKER_COUNT; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int round = 0; round < ROUND_COUNT; round++) {
        assert_int_equal(atomic_load(&c.builds[round]), 1);
    }
    pthread_barrier_destroy(&c.barrier);
    close_scene(&s);
    assert_int_equal(settle_objects(), ROUND_COUNT);
}

/* ---- an owner that dies ---- */

typedef struct mortal {
    scene *s;
    kiln_ticket *ticket;
    pthread_barrier_t *born;
} mortal;

static void abandon_in_death(void *argument)
{
    mortal *m = argument;
    kiln_ticket_abandon(&m->ticket, KILN_ABANDON_FAILED, KILN_E_BUILD, "the builder died");
}

static void *own_and_die(void *argument)
{
    mortal *m = argument;
    kiln_reservation r = {0};
    EXPECT(kiln_cache_reserve(m->s->cache, m->s->keys[0], NULL, &r, NULL) == KILN_OK);
    m->ticket = r.ticket;
    pthread_cleanup_push(abandon_in_death, m);
    pthread_barrier_wait(m->born);
    while (stats_of(m->s->cache).waits < 1) {
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    pthread_exit(NULL);
    pthread_cleanup_pop(0);
    return NULL;
}

static void test_waiters_survive_the_end_of_their_owner(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, (kiln_cache_params){0});
    pthread_barrier_t born;
    pthread_barrier_init(&born, NULL, 2);
    mortal m = {.s = &s, .born = &born};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, own_and_die, &m), 0);
    pthread_barrier_wait(&born);
    kiln_reservation r;
    kiln_error error = {.struct_size = sizeof error};
    assert_int_equal(kiln_cache_reserve(s.cache, s.keys[0], NULL, &r, &error), KILN_E_BUILD);
    assert_string_equal(error.text, "the builder died");
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&born);
    close_scene(&s);
}

/* ---- a table that grows and shrinks while threads read it ---- */

enum { WAVE_KEYS = 3000, WAVES = 12 };

typedef struct wave {
    kiln_cache *cache;
    kiln_key *keys[WAVE_KEYS];
    kiln_key *equals[WAVE_KEYS]; /* equal keys that are different objects */
    atomic_bool over;
    atomic_uint stays; /* the key that is not removed at present */
} wave;

/* Looks up one key after another, and each time also the key that is not removed. */
static void *read_wave(void *argument)
{
    wave *w = argument;
    worker random = {.random = seed + (uintptr_t)&random};
    while (!atomic_load(&w->over)) {
        kiln_section section;
        kiln_section_enter(w->cache, &section);
        for (int i = 0; i < 50; i++) {
            uint32_t key = (uint32_t)pick(&random, WAVE_KEYS);
            const object *o =
                kiln_cache_peek(&section, pick(&random, 2) ? w->keys[key] : w->equals[key]);
            if (o) {
                expect_object(o, key);
            }
        }
        kiln_section_leave(&section);
        uint32_t stays = atomic_load(&w->stays);
        kiln_pin *pin = NULL;
        kiln_status status = kiln_cache_pin(w->cache, w->equals[stays], &pin);
        if (status == KILN_OK) {
            expect_object(kiln_pin_object(pin), stays);
        }
        EXPECT(status == KILN_OK || atomic_load(&w->stays) != stays);
        kiln_pin_release(&pin);
    }
    return NULL;
}

static void insert_into(wave *w, uint32_t key)
{
    kiln_reservation r;
    assert_int_equal(kiln_cache_reserve(w->cache, w->keys[key], NULL, &r, NULL), KILN_OK);
    if (r.ticket) {
        assert_int_equal(kiln_ticket_fulfil(&r.ticket, new_object(key), 1, 1, NULL), KILN_OK);
    }
    kiln_pin_release(&r.pin);
}

static void test_readers_use_a_table_that_grows_and_shrinks(void **state)
{
    (void)state;
    static wave w;
    kiln_cache_params params = {.struct_size = sizeof params, .destroy = end_object};
    assert_int_equal(kiln_cache_new(&params, &w.cache), KILN_OK);
    atomic_store(&wrong_line, 0);
    for (uint32_t i = 0; i < WAVE_KEYS; i++) {
        w.keys[i] = make_key(i);
        w.equals[i] = make_key(i);
    }
    insert_into(&w, 0);
    pthread_t threads[WORKER_COUNT];
    for (int i = 0; i < WORKER_COUNT; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, read_wave, &w), 0);
    }
    for (uint32_t round = 1; round <= WAVES; round++) {
        uint32_t size = round % 3 == 0 ? WAVE_KEYS : round % 3 == 1 ? 40 : 700;
        for (uint32_t i = 0; i < size; i++) {
            insert_into(&w, i);
        }
        uint32_t stays = round * 7 % 40;
        uint32_t stayed = atomic_exchange(&w.stays, stays);
        for (uint32_t i = 0; i < WAVE_KEYS; i++) {
            /* The key that was kept before is not removed either, because a reader may still look
             * it up. */
            if (i != stays && i != stayed) {
                kiln_cache_remove(w.cache, w.keys[i]);
            }
        }
    }
    atomic_store(&w.over, true);
    for (int i = 0; i < WORKER_COUNT; i++) {
        pthread_join(threads[i], NULL);
    }
    kiln_cache_collect(w.cache);
    assert_int_equal(stats_of(w.cache).lingering_entries, 0);
    kiln_cache_free(&w.cache);
    for (uint32_t i = 0; i < WAVE_KEYS; i++) {
        kiln_key_release(&w.keys[i]);
        kiln_key_release(&w.equals[i]);
    }
    assert_int_equal(atomic_load(&wrong_line), 0);
    assert_true(settle_objects() > WAVE_KEYS);
}

/* ---- deadlines that race with answers ---- */

typedef struct hurry {
    scene *s;
    pthread_barrier_t *barrier;
    uint64_t wait_ns;
} hurry;

static void *wait_in_a_hurry(void *argument)
{
    hurry *h = argument;
    for (int round = 0; round < ROUND_COUNT; round++) {
        kiln_reserve_params params = {.struct_size = sizeof params, .wait_ns = h->wait_ns};
        kiln_reservation r = {0};
        pthread_barrier_wait(h->barrier);
        kiln_status status = kiln_cache_reserve(h->s->cache, h->s->keys[0], &params, &r, NULL);
        EXPECT(status == KILN_TIMEOUT || (status == KILN_OK && r.outcome == KILN_HIT));
        if (r.pin) {
            expect_object(kiln_pin_object(r.pin), 0);
        }
        kiln_pin_release(&r.pin);
        pthread_barrier_wait(h->barrier);
    }
    return NULL;
}

static void test_no_answer_is_lost_to_a_deadline(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, (kiln_cache_params){0});
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, WORKER_COUNT + 1);
    hurry hurries[WORKER_COUNT];
    pthread_t threads[WORKER_COUNT];
    for (int i = 0; i < WORKER_COUNT; i++) {
        hurries[i] = (hurry){&s, &barrier, 1 + (uint64_t)i * 20000};
        assert_int_equal(pthread_create(&threads[i], NULL, wait_in_a_hurry, &hurries[i]), 0);
    }
    for (int round = 0; round < ROUND_COUNT; round++) {
        kiln_reservation r;
        assert_int_equal(kiln_cache_reserve(s.cache, s.keys[0], NULL, &r, NULL), KILN_OK);
        assert_int_equal(r.outcome, KILN_OWNER);
        pthread_barrier_wait(&barrier);
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
        assert_int_equal(kiln_ticket_fulfil(&r.ticket, new_object(0), 1, 1, NULL), KILN_OK);
        pthread_barrier_wait(&barrier);
        assert_int_equal(kiln_cache_remove(s.cache, s.keys[0]), KILN_OK);
        assert_int_equal(stats_of(s.cache).lingering_entries, 0);
    }
    for (int i = 0; i < WORKER_COUNT; i++) {
        pthread_join(threads[i], NULL);
    }
    pthread_barrier_destroy(&barrier);
    close_scene(&s);
    assert_int_equal(settle_objects(), ROUND_COUNT);
}

/* ---- pins that outlive the cache ---- */

typedef struct keeper {
    kiln_pin *pin;
    kiln_watch *watch;
    pthread_barrier_t *end;
    uint32_t key;
} keeper;

static void *outlive(void *argument)
{
    keeper *k = argument;
    pthread_barrier_wait(k->end);
    EXPECT(!kiln_watch_is_live(k->watch));
    expect_object(kiln_pin_object(k->pin), k->key);
    kiln_pin_release(&k->pin);
    EXPECT(!kiln_watch_is_live(k->watch));
    kiln_watch_free(&k->watch);
    return NULL;
}

static void test_pins_outlive_the_cache_on_other_threads(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        scene s;
        open_scene(&s, (kiln_cache_params){0});
        pthread_barrier_t end;
        pthread_barrier_init(&end, NULL, WORKER_COUNT + 1);
        keeper keepers[WORKER_COUNT];
        pthread_t threads[WORKER_COUNT];
        for (uint32_t i = 0; i < WORKER_COUNT; i++) {
            kiln_reservation r;
            keepers[i] = (keeper){.end = &end, .key = i / 2};
            assert_int_equal(kiln_cache_reserve(s.cache, s.keys[i / 2], NULL, &r, NULL), KILN_OK);
            if (r.outcome == KILN_OWNER) {
                kiln_ticket_fulfil(&r.ticket, new_object(i / 2), 1, 1, &r.pin);
            }
            keepers[i].pin = r.pin;
            assert_int_equal(kiln_pin_watch(r.pin, &keepers[i].watch), KILN_OK);
            assert_int_equal(pthread_create(&threads[i], NULL, outlive, &keepers[i]), 0);
        }
        kiln_cache_free(&s.cache);
        pthread_barrier_wait(&end);
        for (int i = 0; i < WORKER_COUNT; i++) {
            pthread_join(threads[i], NULL);
        }
        pthread_barrier_destroy(&end);
        close_scene(&s);
        assert_int_equal(settle_objects(), WORKER_COUNT / 2);
    }
}

/* ---- switching the kind of fences ---- */

static int refuse(int command)
{
    (void)command;
    return -1;
}

#ifndef KILNI_FENCE_IS_COUNTED
static void *read_until_over(void *argument)
{
    scene *s = argument;
    while (!atomic_load(&s->over)) {
        kiln_section section;
        kiln_section_enter(s->cache, &section);
        for (uint32_t k = 0; k < KEY_COUNT; k++) {
            const object *o = kiln_cache_peek(&section, s->keys[k]);
            if (o) {
                expect_object(o, k);
            }
        }
        kiln_section_leave(&section);
    }
    return NULL;
}

static void put_and_remove(scene *s, uint32_t key)
{
    kiln_reservation r;
    assert_int_equal(kiln_cache_reserve(s->cache, s->keys[key], NULL, &r, NULL), KILN_OK);
    assert_int_equal(kiln_ticket_fulfil(&r.ticket, new_object(key), 1, 1, NULL), KILN_OK);
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[key]), KILN_OK);
}

/* One thread removes objects, while readers cause the engine to switch to the system's fences. */
static void test_fences_are_switched_below_readers(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, (kiln_cache_params){0});
    assert_false(kilni_fence_is_asymmetric());
    /* Loops for ever if the readers never ask for the switch. */
    const size_t many = 50000000;
    pthread_t threads[WORKER_COUNT];
    for (int i = 0; i < WORKER_COUNT; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, read_until_over, &s), 0);
    }
    size_t removed = 0;
    for (; !kilni_fence_is_asymmetric() && removed < many; removed++) {
        put_and_remove(&s, (uint32_t)(removed % KEY_COUNT));
    }
    for (int i = 0; i < 1000; i++, removed++) {
        put_and_remove(&s, (uint32_t)(removed % KEY_COUNT));
    }
    atomic_store(&s.over, true);
    for (int i = 0; i < WORKER_COUNT; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_true(kilni_fence_is_asymmetric());
    close_scene(&s);
    assert_int_equal(settle_objects(), removed);
}
#endif

#ifndef KILNI_FENCE_IS_COUNTED
static void *wait_at(void *barrier)
{
    pthread_barrier_wait(barrier);
    return NULL;
}

static int run_late(void)
{
    const int needed = MEMBARRIER_CMD_PRIVATE_EXPEDITED | MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED;
    int granted = kilni_os()->membarrier(MEMBARRIER_CMD_QUERY);
    if (granted < 0 || (granted & needed) != needed) {
        print_message("the system has no asymmetric fences\n");
        return 77;
    }
    pthread_barrier_t end;
    pthread_t thread;
    pthread_barrier_init(&end, NULL, 2);
    if (pthread_create(&thread, NULL, wait_at, &end) != 0) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fences_are_switched_below_readers),
    };
    int failed = cmocka_run_group_tests_name("memory threads, late", tests, NULL, NULL);
    pthread_barrier_wait(&end);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&end);
    return failed;
}
#else
static int run_late(void)
{
    print_message("fences are counted in this build, and not switched\n");
    return 77;
}
#endif

int main(int argc, char **argv)
{
    seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    seed = seed > 0 ? seed : (uint64_t)time(NULL);
    call_count = argc > 2 ? strtoull(argv[2], NULL, 10) : call_count;
    if (argc > 3 && strcmp(argv[3], "late") == 0) {
        return run_late();
    }
    static kilni_os_table ordinary;
    if (argc > 3) {
        ordinary = *kilni_os_system();
        ordinary.membarrier = refuse;
        kilni_os_replace(&ordinary);
    }
    print_message("seed %llu, %llu calls of each thread\n", (unsigned long long)seed,
                  (unsigned long long)call_count);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything_at_once),
        cmocka_unit_test(test_everything_at_once_with_failures_kept),
        cmocka_unit_test(test_a_crowd_builds_once),
        cmocka_unit_test(test_waiters_survive_the_end_of_their_owner),
        cmocka_unit_test(test_readers_use_a_table_that_grows_and_shrinks),
        cmocka_unit_test(test_no_answer_is_lost_to_a_deadline),
        cmocka_unit_test(test_pins_outlive_the_cache_on_other_threads),
    };
    return cmocka_run_group_tests_name("memory threads", tests, NULL, NULL);
}
