/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of kiln/cache.h: a cache, keys, an object for each key, and threads that acquire a key.
 * Include it after cmocka.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include <kiln/cache.h>

#include "memory_objects.h"

enum { KEY_COUNT = 16 };

typedef struct scene {
    kiln_cache *cache;
    kiln_key *keys[KEY_COUNT];
    test_object objects[KEY_COUNT];
} scene;

static inline int set_up(void **state)
{
    scene *s = calloc(1, sizeof *s);
    for (uint32_t i = 0; i < KEY_COUNT; i++) {
        s->keys[i] = make_key(i);
        s->objects[i].value = value_of_key(i);
    }
    *state = s;
    return 0;
}

static inline int tear_down(void **state)
{
    scene *s = *state;
    kiln_cache_free(&s->cache);
    for (uint32_t i = 0; i < KEY_COUNT; i++) {
        kiln_key_release(&s->keys[i]);
    }
    free(s);
    return 0;
}

static inline void open_cache_with(scene *s, kiln_cache_params params)
{
    params.struct_size = sizeof params;
    params.destroy = count_end;
    assert_int_equal(kiln_cache_new(&params, &s->cache), KILN_OK);
}

static inline void open_cache(scene *s)
{
    open_cache_with(s, (kiln_cache_params){0});
}

static inline int ends(scene *s, uint32_t i)
{
    return atomic_load(&s->objects[i].ends);
}

static inline kiln_reservation reserve_with(scene *s, uint32_t i, kiln_reserve_params params)
{
    params.struct_size = sizeof params;
    kiln_reservation reservation;
    assert_int_equal(kiln_cache_reserve(s->cache, s->keys[i], &params, &reservation, NULL),
                     KILN_OK);
    return reservation;
}

static inline kiln_ticket *own_with(scene *s, uint32_t i, kiln_reserve_params params)
{
    kiln_reservation reservation = reserve_with(s, i, params);
    assert_int_equal(reservation.outcome, KILN_OWNER);
    assert_non_null(reservation.ticket);
    assert_null(reservation.pin);
    return reservation.ticket;
}

static inline kiln_ticket *own(scene *s, uint32_t i)
{
    return own_with(s, i, (kiln_reserve_params){0});
}

/* Adds the object of a key to the cache, and returns a pin on it. */
static inline kiln_pin *put_with(scene *s, uint32_t i, uint64_t bytes, uint64_t cost,
                                 uint64_t group)
{
    kiln_ticket *ticket = own_with(s, i, (kiln_reserve_params){.group = group});
    kiln_pin *pin = NULL;
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[i], bytes, cost, &pin), KILN_OK);
    assert_null(ticket);
    assert_ptr_equal(kiln_pin_object(pin), &s->objects[i]);
    return pin;
}

static inline void put(scene *s, uint32_t i, uint64_t bytes, uint64_t cost)
{
    kiln_pin *pin = put_with(s, i, bytes, cost, 0);
    kiln_pin_release(&pin);
    assert_null(pin);
}

static inline kiln_pin *pin_of(scene *s, uint32_t i)
{
    kiln_pin *pin = NULL;
    assert_int_equal(kiln_cache_pin(s->cache, s->keys[i], &pin), KILN_OK);
    return pin;
}

/* Returns whether a key is ready. This counts as a use of its object. */
static inline bool is_ready(scene *s, uint32_t i)
{
    kiln_pin *pin = NULL;
    kiln_status status = kiln_cache_pin(s->cache, s->keys[i], &pin);
    kiln_pin_release(&pin);
    return status == KILN_OK;
}

/* Returns whether a key is absent, without building it. */
static inline bool is_absent(scene *s, uint32_t i)
{
    kiln_reserve_params params = {.struct_size = sizeof params, .wait_ns = KILN_NO_WAIT};
    kiln_reservation r;
    if (kiln_cache_reserve(s->cache, s->keys[i], &params, &r, NULL) != KILN_OK) {
        return false;
    }
    bool absent = r.outcome == KILN_OWNER;
    kiln_pin_release(&r.pin);
    kiln_ticket_abandon(&r.ticket, KILN_ABANDON_UNSHAREABLE, KILN_OK, NULL);
    return absent;
}

static inline kiln_watch *watch_of(kiln_pin *pin)
{
    kiln_watch *watch = NULL;
    assert_int_equal(kiln_pin_watch(pin, &watch), KILN_OK);
    return watch;
}

/* ---- threads that acquire a key ---- */

typedef struct asker {
    pthread_t thread;
    scene *s;
    uint32_t key;
    kiln_reserve_params params;
    kiln_status status;
    kiln_reservation reservation;
    kiln_error error;
} asker;

static inline void *ask(void *argument)
{
    asker *a = argument;
    a->status =
        kiln_cache_reserve(a->s->cache, a->s->keys[a->key], &a->params, &a->reservation, &a->error);
    return NULL;
}

static inline void start_asker(asker *a, scene *s, uint32_t key)
{
    *a = (asker){.s = s, .key = key};
    a->params.struct_size = sizeof a->params;
    a->error.struct_size = sizeof a->error;
    assert_int_equal(pthread_create(&a->thread, NULL, ask, a), 0);
}

static inline void join_asker(asker *a)
{
    assert_int_equal(pthread_join(a->thread, NULL), 0);
}

/* A thread that acquires a key, lets other threads act, and then ends without releasing its ticket
 * or pin. */
typedef struct leaver {
    asker a;
    pthread_barrier_t step;
} leaver;

static inline void *ask_and_stay(void *argument)
{
    leaver *l = argument;
    ask(&l->a);
    pthread_barrier_wait(&l->step);
    pthread_barrier_wait(&l->step);
    return NULL;
}

static inline void start_leaver_with(leaver *l, scene *s, kiln_reserve_params params)
{
    *l = (leaver){.a = {.s = s, .params = params}};
    l->a.params.struct_size = sizeof l->a.params;
    l->a.error.struct_size = sizeof l->a.error;
    pthread_barrier_init(&l->step, NULL, 2);
    assert_int_equal(pthread_create(&l->a.thread, NULL, ask_and_stay, l), 0);
}

static inline void start_leaver(leaver *l, scene *s)
{
    start_leaver_with(l, s, (kiln_reserve_params){0});
}

/* Returns the ticket that the thread received. */
static inline kiln_ticket *ticket_of_leaver(leaver *l)
{
    pthread_barrier_wait(&l->step);
    assert_int_equal(l->a.status, KILN_OK);
    assert_int_equal(l->a.reservation.outcome, KILN_OWNER);
    return l->a.reservation.ticket;
}

static inline void end_leaver(leaver *l)
{
    pthread_barrier_wait(&l->step);
    join_asker(&l->a);
    pthread_barrier_destroy(&l->step);
}

static inline void rest(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* Returns once a total of @count threads have begun to wait since the cache was made. */
static inline void until_waiting(scene *s, uint64_t count)
{
    for (int i = 0; i < 20000 && stats_of(s->cache).waits < count; i++) {
        rest();
    }
    assert_int_equal(stats_of(s->cache).waits, count);
}
