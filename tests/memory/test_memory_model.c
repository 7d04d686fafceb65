/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes random calls on a cache, and on a model of the cache that is too simple to be wrong. After
 * each call both must agree on every object and every counter.
 *
 *   test_memory_model now|SEED CALLS
 *     now: a seed taken from the clock; it is printed, so that a failure can be repeated.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kiln/cache.h>

#include "support/memory_objects.h"

enum { KEY_COUNT = 24, MAX_OBJECTS = 256, MAX_PINS = 10, GROUP_COUNT = 4 };

static uint64_t seed;
static uint64_t call_count;

static uint64_t random_state;

/* Returns a random number (xorshift64*) less than @limit. */
static uint64_t pick(uint64_t limit)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (random_state * 2685821657736338717u >> 20) % limit;
}

/* ---- a second thread ---- */

/* A second thread that makes single calls for the test, so that two threads count pins of an
 * object. */
static struct {
    pthread_t thread;
    sem_t wanted, done;
    void (*call)(void *argument); /* NULL: the thread is to end */
    void *argument;
} helper;

static void *help(void *unused)
{
    (void)unused;
    for (;;) {
        sem_wait(&helper.wanted);
        if (!helper.call) {
            return NULL;
        }
        helper.call(helper.argument);
        sem_post(&helper.done);
    }
}

/* Makes most calls on this thread, and some on the second thread. */
static void on_some_thread(void (*call)(void *argument), void *argument)
{
    if (pick(64) > 0) {
        call(argument);
        return;
    }
    helper.call = call;
    helper.argument = argument;
    sem_post(&helper.wanted);
    sem_wait(&helper.done);
}

/* ---- the model ---- */

typedef struct object {
    uint32_t key;
    uint64_t bytes, cost, group;
    bool resident, seen; /* whether a section that is still open has seen the object */
    size_t pins;
    uint64_t inserted, used, frequency; /* inserted and used are in ticks; a tick is an insertion,
                                           or an eviction that raises L */
    double inflation;
    int reason;             /* why the object was evicted; 0: it was not evicted */
    int told_reason, ended; /* what the cache did */
    kiln_watch *watch;
} object;

typedef enum key_state { ABSENT, BUILDING, READY, FAILED } key_state;

typedef struct model {
    key_state states[KEY_COUNT];
    object *ready[KEY_COUNT];
    uint64_t groups[KEY_COUNT], reserved[KEY_COUNT]; /* of each key's flight or failure */
    object *objects[MAX_OBJECTS];                    /* all objects that were not destroyed */
    size_t object_count;
    uint32_t policy;
    bool disabled, retains;
    uint64_t max_bytes, max_entries, tick;
    double inflation;
    uint64_t hits, misses, bypasses, failures, evictions, cleared;
} model;

static uint64_t total(const model *m, bool entries, bool resident)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < m->object_count; i++) {
        const object *o = m->objects[i];
        if (resident ? o->resident : !o->resident && o->pins > 0) {
            sum += entries ? 1 : o->bytes;
        }
    }
    return sum;
}

static uint64_t reserved(const model *m, bool entries)
{
    uint64_t sum = 0;
    for (uint32_t k = 0; k < KEY_COUNT; k++) {
        if (m->states[k] == BUILDING) {
            sum += entries ? 1 : m->reserved[k];
        }
    }
    return sum;
}

static uint64_t failed(const model *m)
{
    uint64_t sum = 0;
    for (uint32_t k = 0; k < KEY_COUNT; k++) {
        sum += m->states[k] == FAILED;
    }
    return sum;
}

static double rank_of(const object *o)
{
    return o->inflation + (double)o->frequency * ((double)o->cost / (double)(o->bytes + !o->bytes));
}

/* The object with the lowest rank is evicted first. */
static double worth(const model *m, const object *o)
{
    switch (m->policy) {
    case KILN_POLICY_LRU:
        return (double)o->used;
    case KILN_POLICY_FIFO:
        return (double)o->inserted;
    case KILN_POLICY_NO_EVICT:
        return -(double)o->inserted;
    default:
        return rank_of(o);
    }
}

/* Of objects with equal ranks, the least recently used is evicted first, then the least often used,
 * then the oldest. */
static bool used_before(const object *a, const object *b)
{
    if (a->used != b->used) {
        return a->used < b->used;
    }
    return a->frequency != b->frequency ? a->frequency < b->frequency : a->inserted < b->inserted;
}

static object *choose(const model *m, bool pinned, bool by_cost)
{
    object *best = NULL;
    for (size_t i = 0; i < m->object_count; i++) {
        object *o = m->objects[i];
        if (!o->resident || (o->pins > 0) != pinned) {
            continue;
        }
        double value = by_cost ? (double)o->cost : worth(m, o);
        double best_value = !best ? 0 : by_cost ? (double)best->cost : worth(m, best);
        if (!best || value < best_value || (value == best_value && used_before(o, best))) {
            best = o;
        }
    }
    return best;
}

static void model_evict(model *m, object *o, int reason)
{
    o->resident = false;
    o->reason = reason;
    m->states[o->key] = ABSENT;
    m->ready[o->key] = NULL;
    m->evictions += reason == KILN_EVICTED_CAPACITY || reason == KILN_EVICTED_RESOURCES;
}

static void model_shrink(model *m, uint64_t bytes, uint64_t entries)
{
    while (total(m, false, true) > bytes || total(m, true, true) > entries) {
        object *victim = choose(m, false, false);
        victim = victim ? victim : choose(m, true, false);
        if (rank_of(victim) > m->inflation) {
            m->inflation = rank_of(victim);
            m->tick++;
        }
        model_evict(m, victim, KILN_EVICTED_CAPACITY);
    }
}

static bool model_has_room(const model *m, uint64_t bytes)
{
    return total(m, false, true) + reserved(m, false) + bytes <= m->max_bytes &&
           total(m, true, true) + reserved(m, true) < m->max_entries;
}

static void model_use(model *m, object *o)
{
    o->used = m->tick;
    o->inflation = m->inflation;
    o->frequency += o->frequency < 15;
}

static void model_fulfil(model *m, object *o, bool kept)
{
    bool evicts = m->policy != KILN_POLICY_NO_EVICT;
    if (!kept || (evicts ? o->bytes > m->max_bytes : !model_has_room(m, o->bytes))) {
        return;
    }
    if (evicts) {
        model_shrink(m, m->max_bytes - o->bytes, m->max_entries - 1);
    }
    o->resident = true;
    o->inserted = o->used = ++m->tick;
    o->frequency = 1;
    o->inflation = m->inflation;
    m->states[o->key] = READY;
    m->ready[o->key] = o;
}

static void model_drop_failures(model *m)
{
    for (uint32_t k = 0; k < KEY_COUNT; k++) {
        m->states[k] = m->states[k] == FAILED ? ABSENT : m->states[k];
    }
}

/* Caches as small as these keep only the last failure. */
static void model_keep_failure(model *m, uint32_t key)
{
    model_drop_failures(m);
    m->states[key] = FAILED;
}

static void model_clear(model *m)
{
    for (uint32_t k = 0; k < KEY_COUNT; k++) {
        if (m->ready[k]) {
            model_evict(m, m->ready[k], KILN_EVICTED_CLEARED);
        }
        m->states[k] = ABSENT;
    }
    m->cleared++;
}

/* Returns the expected answer of a reservation, and counts it; 0 if there is no answer. */
static kiln_outcome model_reserve(model *m, uint32_t key, uint64_t bytes, uint64_t group)
{
    if (m->disabled || (m->states[key] == ABSENT && m->policy == KILN_POLICY_NO_EVICT &&
                        !model_has_room(m, bytes + !bytes))) {
        m->bypasses++;
        return KILN_BYPASS;
    }
    switch (m->states[key]) {
    case READY:
        m->hits++;
        model_use(m, m->ready[key]);
        return KILN_HIT;
    case ABSENT:
        m->misses++;
        m->states[key] = BUILDING;
        m->groups[key] = group;
        m->reserved[key] = bytes;
        return KILN_OWNER;
    default:
        return 0;
    }
}

/* ---- cache and model together ---- */

typedef struct pair {
    model m;
    kiln_cache *cache;
    kiln_key *keys[KEY_COUNT];
    struct flight {
        kiln_ticket *ticket;
        bool attached; /* the cache was not cleared, nor the object's group removed, since the
                          reservation */
    } flights[KEY_COUNT];
    struct held {
        kiln_pin *pin;
        object *o;
    } pins[MAX_PINS];
    kiln_section section;
    bool section_open;
    uint64_t cleared; /* notices */
} pair;

static void end_object(void *user, void *ended)
{
    (void)user;
    ((object *)ended)->ended++;
}

static void hear(void *user, const kiln_event *event)
{
    pair *p = user;
    if (event->kind == KILN_EVENT_CLEARED) {
        p->cleared++;
        return;
    }
    object *o = (object *)(uintptr_t)event->object;
    assert_int_equal(o->told_reason, 0);
    assert_int_equal(event->bytes, o->bytes);
    assert_false(kiln_watch_is_live(o->watch));
    o->told_reason = (int)event->reason;
}

static object *new_object(pair *p, uint32_t key)
{
    object *o = calloc(1, sizeof *o);
    o->key = key;
    o->bytes = pick(40) == 0 ? 1001 + pick(1000) : pick(200);
    o->cost = 1 + pick(1000000);
    if (pick(3) == 0) { /* the values cause equal costs, and sizes of zero */
        o->bytes = pick(2) * 100;
        o->cost = 1000;
    }
    assert_true(p->m.object_count < MAX_OBJECTS);
    p->m.objects[p->m.object_count++] = o;
    return o;
}

static void release_pin(void *pin)
{
    kiln_pin_release((kiln_pin **)pin);
}

static void drop_pin(pair *p, struct held *held)
{
    (void)p;
    held->o->pins--;
    on_some_thread(release_pin, &held->pin);
}

/* Keeps a pin for a while, and releases an earlier one. */
static void hold_pin(pair *p, kiln_pin *pin, object *o)
{
    assert_ptr_equal(kiln_pin_object(pin), o);
    o->pins++;
    struct held *place = &p->pins[pick(MAX_PINS)];
    if (place->pin) {
        drop_pin(p, place);
    }
    *place = (struct held){pin, o};
}

static void end_flight(pair *p, uint32_t key)
{
    struct flight *flight = &p->flights[key];
    bool attached = flight->attached;
    flight->attached = false;
    if (attached) {
        p->m.states[key] = ABSENT;
    }
    if (pick(4) > 0) {
        object *o = new_object(p, key);
        o->group = p->m.groups[key];
        kiln_pin *pin = NULL;
        model_fulfil(&p->m, o, attached);
        assert_int_equal(kiln_ticket_fulfil(&flight->ticket, o, o->bytes, o->cost, &pin), KILN_OK);
        assert_int_equal(kiln_pin_watch(pin, &o->watch), KILN_OK);
        hold_pin(p, pin, o);
        return;
    }
    kiln_abandonment how = (kiln_abandonment)(KILN_ABANDON_FAILED + pick(3));
    kiln_ticket_abandon(&flight->ticket, how, KILN_E_BUILD, "no");
    p->m.failures += how != KILN_ABANDON_UNSHAREABLE;
    if (how == KILN_ABANDON_FAILED && attached && p->m.retains) {
        model_keep_failure(&p->m, key);
    }
}

static void do_reserve(pair *p, uint32_t key)
{
    kiln_reserve_params params = {.struct_size = sizeof params,
                                  .bytes = pick(2) * pick(200),
                                  .wait_ns = pick(2) ? KILN_NO_WAIT : 0,
                                  .group = pick(GROUP_COUNT)};
    bool own = p->flights[key].ticket != NULL;
    if (own && !p->flights[key].attached) {
        return; /* one ticket for each key is enough for this test */
    }
    key_state before = p->m.states[key];
    kiln_outcome expected = model_reserve(&p->m, key, params.bytes, params.group);
    kiln_reservation r = {0};
    kiln_status status = kiln_cache_reserve(p->cache, p->keys[key], &params, &r, NULL);
    if (expected != 0) {
        assert_int_equal(status, KILN_OK);
        assert_int_equal(r.outcome, expected);
    } else if (before == FAILED) {
        assert_int_equal(status, KILN_E_BUILD);
    } else {
        assert_int_equal(status, params.wait_ns == KILN_NO_WAIT ? KILN_TIMEOUT : KILN_E_CYCLE);
    }
    if (expected == KILN_HIT) {
        hold_pin(p, r.pin, p->m.ready[key]);
    } else if (expected == KILN_OWNER) {
        p->flights[key] = (struct flight){r.ticket, true};
        if (pick(4) > 0) {
            end_flight(p, key);
        }
    }
}

typedef struct order {
    pair *p;
    object *o;
    kiln_status status;
} order;

static kiln_status build(void *user, const kiln_key *key, kiln_built *ret_built, kiln_error *error)
{
    (void)error;
    order *wanted = user;
    if (wanted->status == KILN_OK) {
        wanted->o = new_object(wanted->p, 0);
        while (!kiln_key_equals(key, wanted->p->keys[wanted->o->key])) {
            wanted->o->key++;
        }
        *ret_built = (kiln_built){wanted->o, wanted->o->bytes, wanted->o->cost};
    }
    return wanted->status;
}

static void do_get_or_build(pair *p, uint32_t key)
{
    if (p->flights[key].ticket && !p->flights[key].attached) {
        return;
    }
    const kiln_status statuses[] = {KILN_OK, KILN_OK, KILN_OK, KILN_E_BUILD, KILN_E_IO};
    order wanted = {.p = p, .status = statuses[pick(5)]};
    kiln_pin *pin = NULL;
    key_state before = p->m.states[key];
    kiln_outcome expected = model_reserve(&p->m, key, 0, 0);
    kiln_status status =
        kiln_cache_get_or_build(p->cache, p->keys[key], build, &wanted, &pin, NULL);
    if (expected == KILN_HIT) {
        assert_int_equal(status, KILN_OK);
        hold_pin(p, pin, p->m.ready[key]);
        return;
    }
    if (expected == 0) {
        assert_int_equal(status, before == FAILED ? KILN_E_BUILD : KILN_E_CYCLE);
        return;
    }
    assert_int_equal(status, wanted.status);
    if (expected == KILN_OWNER) {
        p->m.states[key] = ABSENT;
        p->m.failures += status != KILN_OK;
        if (status == KILN_E_BUILD && p->m.retains) {
            model_keep_failure(&p->m, key);
        }
    }
    if (status == KILN_OK) {
        model_fulfil(&p->m, wanted.o, expected == KILN_OWNER);
        assert_int_equal(kiln_pin_watch(pin, &wanted.o->watch), KILN_OK);
        hold_pin(p, pin, wanted.o);
    }
}

typedef struct pinning {
    pair *p;
    uint32_t key;
    kiln_pin *pin;
    kiln_status status;
} pinning;

static void pin_key(void *argument)
{
    pinning *wanted = argument;
    wanted->status = kiln_cache_pin(wanted->p->cache, wanted->p->keys[wanted->key], &wanted->pin);
}

static void do_pin(pair *p, uint32_t key)
{
    pinning wanted = {.p = p, .key = key};
    object *o = p->m.ready[key];
    on_some_thread(pin_key, &wanted);
    assert_int_equal(wanted.status, o ? KILN_OK : KILN_MISS);
    p->m.hits += o != NULL;
    p->m.misses += o == NULL;
    if (o) {
        model_use(&p->m, o);
        hold_pin(p, wanted.pin, o);
    }
}

static void do_section(pair *p)
{
    if (p->section_open) {
        kiln_section_leave(&p->section);
        /* Leaving a section destroys nothing. Objects that only the section could see are destroyed
         * by this call. */
        kiln_cache_collect(p->cache);
        for (size_t i = 0; i < p->m.object_count; i++) {
            p->m.objects[i]->seen = false;
        }
    } else {
        kiln_section_enter(p->cache, &p->section);
    }
    p->section_open = !p->section_open;
}

static void do_peek(pair *p, uint32_t key)
{
    if (!p->section_open) {
        do_section(p);
    }
    object *o = p->m.ready[key];
    assert_ptr_equal(kiln_cache_peek(&p->section, p->keys[key]), o);
    if (o) {
        model_use(&p->m, o);
        o->seen = true;
    }
}

static void detach_flights(pair *p, uint64_t group)
{
    for (uint32_t k = 0; k < KEY_COUNT; k++) {
        if (p->flights[k].attached && (group == 0 || p->m.groups[k] == group)) {
            p->flights[k].attached = false;
            p->m.states[k] = ABSENT;
        }
    }
}

static void do_remove(pair *p, uint32_t key)
{
    bool removable = p->m.states[key] == READY || p->m.states[key] == FAILED;
    if (p->m.ready[key]) {
        model_evict(&p->m, p->m.ready[key], KILN_EVICTED_REMOVED);
    } else if (removable) {
        p->m.states[key] = ABSENT;
    }
    assert_int_equal(kiln_cache_remove(p->cache, p->keys[key]), removable ? KILN_OK : KILN_MISS);
}

static void do_remove_group(pair *p)
{
    uint64_t group = pick(GROUP_COUNT);
    size_t count = 0;
    for (uint32_t k = 0; group != 0 && k < KEY_COUNT; k++) {
        if (p->m.ready[k] && p->m.ready[k]->group == group) {
            model_evict(&p->m, p->m.ready[k], KILN_EVICTED_REMOVED);
            count++;
        } else if (p->m.states[k] == FAILED && p->m.groups[k] == group) {
            p->m.states[k] = ABSENT;
        }
    }
    if (group != 0) {
        detach_flights(p, group);
    }
    assert_int_equal(kiln_cache_remove_group(p->cache, group), count);
}

static void do_evict_bytes(pair *p)
{
    uint64_t wanted = pick(400);
    uint64_t freed = 0;
    object *o;
    model_drop_failures(&p->m);
    while (freed < wanted && (o = choose(&p->m, false, true))) {
        freed += o->bytes;
        model_evict(&p->m, o, KILN_EVICTED_RESOURCES);
    }
    uint64_t told = 0;
    assert_int_equal(kiln_cache_evict_bytes(p->cache, wanted, &told), KILN_OK);
    assert_int_equal(told, freed);
}

static void do_set_cost(pair *p, uint32_t key)
{
    uint64_t cost = pick(1000000);
    object *o = p->m.ready[key];
    if (o) {
        o->cost = cost;
    }
    assert_int_equal(kiln_cache_set_cost(p->cache, p->keys[key], cost), o ? KILN_OK : KILN_MISS);
}

static void do_set_capacity(pair *p)
{
    bool flush = pick(8) == 0;
    model *m = &p->m;
    m->max_bytes = pick(20) == 0 ? 0 : 300 + pick(701);
    m->max_entries = pick(20) == 0 ? 0 : 4 + pick(9);
    m->disabled = m->max_bytes == 0 || m->max_entries == 0;
    if (flush || m->disabled) {
        detach_flights(p, 0);
        model_clear(m);
    } else {
        model_shrink(m, m->max_bytes, m->max_entries);
    }
    assert_int_equal((flush ? kiln_cache_set_capacity_flush
                            : kiln_cache_set_capacity)(p->cache, m->max_bytes, m->max_entries),
                     KILN_OK);
}

static void do_something(pair *p, bool mixes_policies)
{
    uint32_t key = (uint32_t)pick(pick(2) ? KEY_COUNT : KEY_COUNT / 4);
    uint64_t what = pick(1000);
    if (what < 250) {
        do_reserve(p, key);
    } else if (what < 450) {
        do_get_or_build(p, key);
    } else if (what < 600) {
        do_pin(p, key);
    } else if (what < 700) {
        struct held *held = &p->pins[pick(MAX_PINS)];
        if (held->pin) {
            drop_pin(p, held);
        }
    } else if (what < 780) {
        do_peek(p, key);
    } else if (what < 850) {
        if (p->section_open) {
            do_section(p);
        }
    } else if (what < 900) {
        if (p->flights[key].ticket) {
            end_flight(p, key);
        }
    } else if (what < 930) {
        do_set_cost(p, key);
    } else if (what < 960) {
        do_remove(p, key);
    } else if (what < 970) {
        do_remove_group(p);
    } else if (what < 980) {
        do_evict_bytes(p);
    } else if (what < 990) {
        do_set_capacity(p);
    } else if (what < 992) {
        detach_flights(p, 0);
        model_clear(&p->m);
        kiln_cache_clear(p->cache);
    } else if (mixes_policies) {
        p->m.policy = (uint32_t)pick(KILN_POLICY_AUTO);
        assert_int_equal(kiln_cache_set_policy(p->cache, p->m.policy), KILN_OK);
    }
}

/* ---- agreement ---- */

static void compare_object(const pair *p, const object *o)
{
    assert_int_equal(kiln_watch_is_live(o->watch), o->resident);
    assert_int_equal(o->told_reason, o->reason);
    if (o->resident || o->pins > 0 || o->seen) {
        assert_int_equal(o->ended, 0);
    } else if (!p->section_open) {
        assert_int_equal(o->ended, 1);
    }
}

static void compare_counters(const pair *p)
{
    const model *m = &p->m;
    kiln_cache_stats stats = stats_of(p->cache);
    assert_int_equal(stats.entries, total(m, true, true));
    assert_int_equal(stats.bytes, total(m, false, true));
    assert_int_equal(stats.reserved_bytes, reserved(m, false));
    if (!p->section_open) {
        assert_int_equal(stats.lingering_entries, total(m, true, false));
        assert_int_equal(stats.lingering_bytes, total(m, false, false));
    }
    assert_int_equal(stats.hits, m->hits);
    assert_int_equal(stats.misses, m->misses);
    assert_int_equal(stats.bypasses, m->bypasses);
    assert_int_equal(stats.failures, m->failures);
    assert_int_equal(stats.evictions, m->evictions);
    assert_int_equal(stats.retained_failures, failed(m));
    assert_int_equal(stats.waits, 0);
    assert_int_equal(stats.max_bytes, m->max_bytes);
    assert_int_equal(stats.max_entries, m->max_entries);
    assert_int_equal(stats.policy, m->policy);
    assert_int_equal(p->cleared, m->cleared);
}

static void compare(pair *p)
{
    model *m = &p->m;
    compare_counters(p);
    for (size_t i = 0; i < m->object_count; i++) {
        object *o = m->objects[i];
        compare_object(p, o);
        if (o->ended) {
            kiln_watch_free(&o->watch);
            free(o);
            m->objects[i--] = m->objects[--m->object_count];
        }
    }
}

/* ---- a run ---- */

static void open_pair(pair *p, uint32_t policy)
{
    *p = (pair){.m = {.policy = policy, .max_bytes = 1000, .max_entries = 12}};
    p->m.retains = pick(2);
    kiln_cache_params params = {.struct_size = sizeof params,
                                .max_bytes = p->m.max_bytes,
                                .max_entries = p->m.max_entries,
                                .policy = policy,
                                .flags = p->m.retains ? KILN_CACHE_RETAIN_FAILURES : 0,
                                .destroy = end_object};
    uint64_t id;
    assert_int_equal(kiln_cache_new(&params, &p->cache), KILN_OK);
    assert_int_equal(
        kiln_cache_listen(p->cache, KILN_EVENT_EVICTED | KILN_EVENT_CLEARED, hear, p, &id),
        KILN_OK);
    for (uint32_t k = 0; k < KEY_COUNT; k++) {
        p->keys[k] = make_key(k);
    }
}

static void close_pair(pair *p)
{
    if (p->section_open) {
        do_section(p);
    }
    for (uint32_t k = 0; k < KEY_COUNT; k++) {
        if (p->flights[k].ticket) {
            end_flight(p, k);
        }
    }
    compare(p);
    for (size_t i = 0; i < MAX_PINS / 2; i++) {
        if (p->pins[i].pin) {
            drop_pin(p, &p->pins[i]);
        }
    }
    kiln_cache_free(&p->cache);
    model_clear(&p->m);
    for (size_t i = 0; i < MAX_PINS; i++) {
        if (p->pins[i].pin) {
            drop_pin(p, &p->pins[i]);
        }
    }
    for (size_t i = 0; i < p->m.object_count; i++) {
        compare_object(p, p->m.objects[i]);
        assert_int_equal(p->m.objects[i]->ended, 1);
        kiln_watch_free(&p->m.objects[i]->watch);
        free(p->m.objects[i]);
    }
    for (uint32_t k = 0; k < KEY_COUNT; k++) {
        kiln_key_release(&p->keys[k]);
    }
}

static void run(uint32_t policy, bool mixes_policies)
{
    random_state = seed * 8 + policy + (mixes_policies ? 5 : 0) + 1;
    uint64_t calls = call_count / 5;
    for (int part = 0; part < 10; part++) {
        pair p;
        open_pair(&p, policy);
        for (uint64_t i = 0; i < calls / 10; i++) {
            do_something(&p, mixes_policies);
            compare(&p);
        }
        close_pair(&p);
    }
}

static void test_cost(void **state)
{
    (void)state;
    run(KILN_POLICY_COST, false);
}

static void test_lru(void **state)
{
    (void)state;
    run(KILN_POLICY_LRU, false);
}

static void test_fifo(void **state)
{
    (void)state;
    run(KILN_POLICY_FIFO, false);
}

static void test_no_evict(void **state)
{
    (void)state;
    run(KILN_POLICY_NO_EVICT, false);
}

static void test_policies_that_change(void **state)
{
    (void)state;
    run(KILN_POLICY_COST, true);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: test_memory_model now|SEED CALLS\n");
        return 2;
    }
    seed = strcmp(argv[1], "now") == 0 ? (uint64_t)time(NULL) : strtoull(argv[1], NULL, 10);
    call_count = strtoull(argv[2], NULL, 10);
    print_message("seed %llu, %llu calls\n", (unsigned long long)seed,
                  (unsigned long long)call_count);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cost),
        cmocka_unit_test(test_lru),
        cmocka_unit_test(test_fifo),
        cmocka_unit_test(test_no_evict),
        cmocka_unit_test(test_policies_that_change),
    };
    sem_init(&helper.wanted, 0, 0);
    sem_init(&helper.done, 0, 0);
    if (pthread_create(&helper.thread, NULL, help, NULL) != 0) {
        return 2;
    }
    const int failed = cmocka_run_group_tests_name("memory model", tests, NULL, NULL);
    helper.call = NULL;
    sem_post(&helper.wanted);
    pthread_join(helper.thread, NULL);
    return failed;
}
