/* SPDX-License-Identifier: Apache-2.0
 *
 * Listeners on a context's two maps: what they receive, in which order, and from several threads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#include "support/failing_malloc.h"
#include "support/program_scene.h"

enum {
    ALL_EVENTS = KILN_EVENT_INSERTED | KILN_EVENT_HIT | KILN_EVENT_EVICTED | KILN_EVENT_CLEARED
};

/* ---- what is received ---- */

enum { MAX_NOTED = 64 };

/* The notices of both maps, in the order in which they arrived. */
typedef struct notes {
    size_t count;
    struct note {
        bool is_of_kernel;
        uint32_t kind, reason;
        kiln_key *key;
        char name[16];
        const void *handle;
        uint64_t bytes;
    } noted[MAX_NOTED];
} notes;

static void note(notes *n, bool is_of_kernel, const kiln_program_event *event)
{
    assert_true(n->count < MAX_NOTED);
    assert_int_equal(event->struct_size, sizeof *event);
    struct note *noted = &n->noted[n->count++];
    *noted = (struct note){.is_of_kernel = is_of_kernel,
                           .kind = event->kind,
                           .reason = event->reason,
                           .key = event->key ? kiln_key_retain(event->key) : NULL,
                           .handle = event->handle,
                           .bytes = event->bytes};
    snprintf(noted->name, sizeof noted->name, "%s", event->name ? event->name : "");
}

static void note_program(void *user, const kiln_program_event *event)
{
    note(user, false, event);
}

static void note_kernel(void *user, const kiln_program_event *event)
{
    note(user, true, event);
}

static void forget(notes *n)
{
    while (n->count > 0) {
        kiln_key_release(&n->noted[--n->count].key);
    }
}

static void listen_to_both(const program_scene *s, uint32_t events, notes *n)
{
    uint64_t id;
    assert_int_equal(kiln_program_context_listen_programs(s->context, events, note_program, n, &id),
                     KILN_OK);
    assert_int_equal(kiln_program_context_listen_kernels(s->context, events, note_kernel, n, &id),
                     KILN_OK);
}

/* @desc  of the program, or of the kernel's program */
static void assert_noted(const notes *n, size_t i, bool is_of_kernel, uint32_t kind,
                         uint32_t reason, const kiln_program_desc *desc, const char *name)
{
    assert_true(i < n->count);
    assert_int_equal(n->noted[i].is_of_kernel, is_of_kernel);
    assert_int_equal(n->noted[i].kind, kind);
    assert_int_equal(n->noted[i].reason, reason);
    assert_string_equal(n->noted[i].name, name);
    if (desc) {
        assert_true(kiln_key_equals(n->noted[i].key, kiln_program_desc_key(desc)));
        assert_non_null(n->noted[i].handle);
    } else {
        assert_null(n->noted[i].key);
        assert_null(n->noted[i].handle);
        assert_int_equal(n->noted[i].bytes, 0);
    }
}

static kiln_program_desc *describe_named(const program_scene *s, const char *text, uint64_t image)
{
    kiln_program_desc_params params = image_of(text);
    params.name = text;
    params.image = image;
    return describe(s, &params);
}

static void test_wrong_calls(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    uint64_t id = 77;
    notes n;
    typedef kiln_status (*listen_fn)(kiln_program_context * context, uint32_t events,
                                     kiln_program_listener_fn listener, void *user,
                                     uint64_t *ret_id);
    const listen_fn calls[] = {kiln_program_context_listen_programs,
                               kiln_program_context_listen_kernels};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(calls[i](NULL, ALL_EVENTS, note_kernel, &n, &id), KILN_E_INVALID);
        assert_int_equal(calls[i](s->context, ALL_EVENTS, NULL, &n, &id), KILN_E_INVALID);
        assert_int_equal(calls[i](s->context, ALL_EVENTS, note_kernel, &n, NULL), KILN_E_INVALID);
        assert_int_equal(calls[i](s->context, 0, note_kernel, &n, &id), KILN_E_INVALID);
        assert_int_equal(calls[i](s->context, 16, note_kernel, &n, &id), KILN_E_INVALID);
        bool has_run_out = true;
        for (size_t nth = 1; has_run_out; nth++) {
            failing_malloc_arm(nth);
            const kiln_status status =
                calls[i](s->context, KILN_EVENT_CLEARED, note_kernel, &n, &id);
            has_run_out = failing_malloc_disarm() >= nth;
            assert_int_equal(status, has_run_out ? KILN_E_NO_MEMORY : KILN_OK);
            assert_int_equal(id == 77, has_run_out);
        }
        (i == 0 ? kiln_program_context_unlisten_programs
                : kiln_program_context_unlisten_kernels)(s->context, id);
        id = 77;
    }
    kiln_program_context_unlisten_programs(s->context, 12345);
    kiln_program_context_unlisten_programs(NULL, 1);
    kiln_program_context_unlisten_kernels(s->context, 12345);
    kiln_program_context_unlisten_kernels(NULL, 1);
}

static void test_a_program_and_its_kernel_are_reported(void **state)
{
    program_scene *s = *state;
    s->devices[0].bytes = 1000;
    program_scene_open(s);
    notes n = {0};
    listen_to_both(s, ALL_EVENTS, &n);
    kiln_program_desc *desc = describe_named(s, "image", 7);
    kiln_program *program = get_from(desc, KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(n.count, 1);
    assert_noted(&n, 0, false, KILN_EVENT_INSERTED, 0, desc, "image");
    assert_ptr_equal(n.noted[0].handle, kiln_program_handle(program));
    assert_int_equal(n.noted[0].bytes, program_stats(s).bytes);
    assert_in_range(n.noted[0].bytes, 1000, 100000);
    touch(desc, KILN_PROGRAM_FROM_MEMORY);
    assert_int_equal(n.count, 2);
    assert_noted(&n, 1, false, KILN_EVENT_HIT, 0, desc, "image");
    forget(&n);

    kiln_kernel_desc *named = describe_kernel(desc, "k");
    const void *handle = touch_kernel(named);
    const size_t last = n.count - 1; /* hits of the program come before it, if reported */
    assert_noted(&n, last, true, KILN_EVENT_INSERTED, 0, desc, "k");
    assert_ptr_equal(n.noted[last].handle, handle);
    assert_int_equal(n.noted[last].bytes, 0);
    forget(&n);
    touch_kernel(named);
    assert_noted(&n, 0, true, KILN_EVENT_HIT, 0, desc, "k");
    forget(&n);

    /* Removing the program also removes its kernel from the map. The test still holds both. */
    kiln_kernel *kernel = NULL;
    assert_int_equal(kiln_kernel_get(named, &kernel, NULL), KILN_OK);
    forget(&n);
    assert_int_equal(kiln_program_context_remove_image(s->context, 7), 1);
    assert_int_equal(n.count, 2);
    assert_noted(&n, 0, true, KILN_EVENT_EVICTED, KILN_EVICTED_REMOVED, desc, "k");
    assert_noted(&n, 1, false, KILN_EVENT_EVICTED, KILN_EVICTED_REMOVED, desc, "image");
    assert_ptr_equal(n.noted[0].handle, kiln_kernel_handle(kernel));
    assert_ptr_equal(n.noted[1].handle, kiln_program_handle(program));
    kiln_kernel_release(&kernel);
    kiln_program_release(&program);
    assert_int_equal(n.count, 2);
    forget(&n);
    kiln_kernel_desc_release(&named);
    kiln_program_desc_release(&desc);
}

static void test_departures_have_their_reasons(void **state)
{
    program_scene *s = *state;
    s->params.max_programs = 1;
    s->params.max_kernels = 1;
    program_scene_open(s);
    notes n = {0};
    listen_to_both(s, KILN_EVENT_EVICTED | KILN_EVENT_CLEARED, &n);
    kiln_program_desc *a = describe_named(s, "a", 0), *b = describe_image(s, "b");
    kiln_kernel_desc *a1 = describe_kernel(a, "a1"), *a2 = describe_kernel(a, "a2");
    kiln_kernel_desc *b1 = describe_kernel(b, "b1");

    touch_kernel(a1);
    assert_int_equal(n.count, 0);
    touch_kernel(a2);
    assert_int_equal(n.count, 1);
    assert_noted(&n, 0, true, KILN_EVENT_EVICTED, KILN_EVICTED_CAPACITY, a, "a1");
    forget(&n);
    touch_kernel(b1);
    assert_int_equal(n.count, 2);
    assert_noted(&n, 0, true, KILN_EVENT_EVICTED, KILN_EVICTED_REMOVED, a, "a2");
    assert_noted(&n, 1, false, KILN_EVENT_EVICTED, KILN_EVICTED_CAPACITY, a, "a");
    forget(&n);
    kiln_program_context_clear(s->context);
    assert_int_equal(n.count, 4);
    assert_noted(&n, 0, true, KILN_EVENT_EVICTED, KILN_EVICTED_CLEARED, b, "b1");
    assert_noted(&n, 1, true, KILN_EVENT_CLEARED, 0, NULL, "");
    assert_noted(&n, 2, false, KILN_EVENT_EVICTED, KILN_EVICTED_CLEARED, b, "");
    assert_noted(&n, 3, false, KILN_EVENT_CLEARED, 0, NULL, "");
    forget(&n);

    /* Programs are evicted because the device has no room. */
    touch_kernel(a1);
    forget(&n);
    script(&s->devices[0].build, 1, KILN_E_RESOURCES);
    touch_kernel(b1);
    assert_noted(&n, 0, true, KILN_EVENT_EVICTED, KILN_EVICTED_RESOURCES, a, "a1");
    assert_noted(&n, 1, false, KILN_EVENT_EVICTED, KILN_EVICTED_RESOURCES, a, "a");
    assert_int_equal(n.count, 2);
    forget(&n);
    kiln_program_context_free(&s->context);
    assert_int_equal(n.count, 2);
    assert_noted(&n, 0, true, KILN_EVENT_EVICTED, KILN_EVICTED_CLEARED, b, "b1");
    assert_noted(&n, 1, false, KILN_EVENT_EVICTED, KILN_EVICTED_CLEARED, b, "");
    forget(&n);
    kiln_kernel_desc_release(&a1);
    kiln_kernel_desc_release(&a2);
    kiln_kernel_desc_release(&b1);
    kiln_program_desc_release(&a);
    kiln_program_desc_release(&b);
}

/* Programs that no map keeps, and their kernels. */
static void test_what_is_not_kept_is_not_reported(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    notes n = {0};
    listen_to_both(s, ALL_EVENTS, &n);
    scripted_program *own = NULL;
    kiln_program *program = NULL;
    kiln_kernel *kernel = NULL;
    assert_int_equal(scripted_build(&s->devices[0], 1, &own), KILN_OK);
    assert_int_equal(kiln_program_adopt(s->context, 0, own, &program), KILN_OK);
    assert_int_equal(kiln_program_get_kernel(program, "k", 0, &kernel, NULL), KILN_OK);
    kiln_kernel_release(&kernel);
    kiln_program_release(&program);
    assert_int_equal(kiln_program_context_set_capacity(s->context, 0, 0), KILN_OK);
    forget(&n); /* setting the capacity cleared the map */
    kiln_program_desc *desc = describe_image(s, "image");
    touch(desc, KILN_PROGRAM_FROM_PRIVATE_BUILD);
    assert_int_equal(n.count, 0);
    kiln_program_desc_release(&desc);
}

/* ---- listeners that call the context ---- */

typedef struct caller {
    program_scene *s;
    kiln_kernel_desc *named;
    uint64_t id;
    int calls;
} caller;

/* Makes the program's kernel as soon as the program is in the map, and then removes this
 * listener. */
static void make_kernel(void *user, const kiln_program_event *event)
{
    caller *c = user;
    c->calls++;
    assert_int_equal(event->kind, KILN_EVENT_INSERTED);
    touch_kernel(c->named);
    kiln_program_context_unlisten_programs(c->s->context, c->id);
}

static void test_a_listener_may_call_the_context(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    notes n = {0};
    kiln_program_desc *desc = describe_image(s, "image"), *other = describe_image(s, "other");
    caller c = {.s = s, .named = describe_kernel(desc, "k")};
    uint64_t id;
    assert_int_equal(kiln_program_context_listen_programs(s->context, KILN_EVENT_INSERTED,
                                                          make_kernel, &c, &c.id),
                     KILN_OK);
    assert_int_equal(
        kiln_program_context_listen_kernels(s->context, ALL_EVENTS, note_kernel, &n, &id), KILN_OK);
    touch(desc, KILN_PROGRAM_FROM_BUILD);
    touch(other, KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(c.calls, 1);
    assert_int_equal(n.count, 1);
    assert_noted(&n, 0, true, KILN_EVENT_INSERTED, 0, desc, "k");
    assert_int_equal(kernel_stats(s).entries, 1);
    forget(&n);
    kiln_program_context_unlisten_kernels(s->context, id);
    kiln_program_context_clear(s->context);
    assert_int_equal(n.count, 0);
    kiln_kernel_desc_release(&c.named);
    kiln_program_desc_release(&desc);
    kiln_program_desc_release(&other);
}

/* ---- threads ---- */

/* Two listeners, one on each map. Each waits until the other one runs too, and then removes the
 * other. */
typedef struct pair {
    program_scene *s;
    kiln_program_desc *desc;
    kiln_kernel_desc *named;
    uint64_t program_id, kernel_id;
    atomic_int running;
} pair;

static void await_both(pair *p)
{
    atomic_fetch_add(&p->running, 1);
    while (atomic_load(&p->running) < 2) {
        sched_yield();
    }
}

static void remove_kernel_listener(void *user, const kiln_program_event *event)
{
    (void)event;
    pair *p = user;
    await_both(p);
    kiln_program_context_unlisten_kernels(p->s->context, p->kernel_id);
}

static void remove_program_listener(void *user, const kiln_program_event *event)
{
    (void)event;
    pair *p = user;
    await_both(p);
    kiln_program_context_unlisten_programs(p->s->context, p->program_id);
}

static void *get_kernel(void *user)
{
    const pair *p = user;
    touch_kernel(p->named);
    return NULL;
}

/* If each removal waited until the other listener returned, neither would return. */
static void test_listeners_of_both_maps_may_remove_each_other(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    kiln_program_desc *first = describe_image(s, "first");
    pair p = {.s = s, .desc = describe_image(s, "second"), .named = describe_kernel(first, "k")};
    touch(first, KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(kiln_program_context_listen_programs(s->context, KILN_EVENT_INSERTED,
                                                          remove_kernel_listener, &p,
                                                          &p.program_id),
                     KILN_OK);
    assert_int_equal(kiln_program_context_listen_kernels(s->context, KILN_EVENT_INSERTED,
                                                         remove_program_listener, &p, &p.kernel_id),
                     KILN_OK);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, get_kernel, &p), 0);
    touch(p.desc, KILN_PROGRAM_FROM_BUILD);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&p.running), 2);
    kiln_program_context_clear(s->context);
    assert_int_equal(atomic_load(&p.running), 2);
    kiln_kernel_desc_release(&p.named);
    kiln_program_desc_release(&p.desc);
    kiln_program_desc_release(&first);
}

enum { THREADS = 4, PROGRAMS = 6, ROUNDS = 300 };

/* What happened to each program and its kernel, as the listeners counted it. */
typedef struct account {
    program_scene *s;
    kiln_program_desc *descs[PROGRAMS];
    kiln_kernel_desc *kernels[PROGRAMS];
    atomic_int programs_in[PROGRAMS], kernels_in[PROGRAMS];
    atomic_int wrong;
    atomic_bool is_over;
} account;

static void enter(account *a, atomic_int *counts, const kiln_program_event *event)
{
    const size_t i = (size_t)(event->name[0] - 'a');
    if (i >= PROGRAMS || !kiln_key_equals(event->key, kiln_program_desc_key(a->descs[i])) ||
        !event->handle) {
        atomic_fetch_add(&a->wrong, 1);
        return;
    }
    atomic_fetch_add(&counts[i], event->kind == KILN_EVENT_INSERTED ? 1 : -1);
}

static void enter_program(void *user, const kiln_program_event *event)
{
    account *a = user;
    enter(a, a->programs_in, event);
}

static void enter_kernel(void *user, const kiln_program_event *event)
{
    account *a = user;
    enter(a, a->kernels_in, event);
    if (strcmp(event->handle, event->name) !=
        0) { /* the kernels of the scripted device are names */
        atomic_fetch_add(&a->wrong, 1);
    }
}

static void *use_programs(void *user)
{
    account *a = user;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        touch_kernel(a->kernels[(i * 7) % PROGRAMS]);
        if (i % 16 == 0) {
            kiln_program_context_remove_image(a->s->context, 1 + i / 16 % PROGRAMS);
        } else if (i % 50 == 0) {
            kiln_program_context_clear(a->s->context);
        }
    }
    return NULL;
}

/* A listener that one thread adds and removes again and again. */
typedef struct visitor {
    atomic_bool is_listening;
    atomic_int late_calls;
} visitor;

static void visit(void *user, const kiln_program_event *event)
{
    (void)event;
    visitor *v = user;
    if (!atomic_load(&v->is_listening)) {
        atomic_fetch_add(&v->late_calls, 1);
    }
}

/* Listeners are not called once they are removed. */
static void *come_and_go(void *user)
{
    account *a = user;
    kiln_program_context *context = a->s->context;
    visitor of_programs = {0}, of_kernels = {0};
    uint64_t id;
    while (!atomic_load(&a->is_over)) {
        atomic_store(&of_programs.is_listening, true);
        atomic_store(&of_kernels.is_listening, true);
        kiln_program_context_listen_programs(context, ALL_EVENTS, visit, &of_programs, &id);
        sched_yield();
        kiln_program_context_unlisten_programs(context, id);
        atomic_store(&of_programs.is_listening, false);
        kiln_program_context_listen_kernels(context, ALL_EVENTS, visit, &of_kernels, &id);
        sched_yield();
        kiln_program_context_unlisten_kernels(context, id);
        atomic_store(&of_kernels.is_listening, false);
    }
    atomic_fetch_add(&a->wrong, atomic_load(&of_programs.late_calls));
    atomic_fetch_add(&a->wrong, atomic_load(&of_kernels.late_calls));
    return NULL;
}

static void open_account(account *a, program_scene *s)
{
    *a = (account){.s = s};
    for (size_t i = 0; i < PROGRAMS; i++) {
        const char text[] = {(char)('a' + (int)i), '\0'};
        a->descs[i] = describe_named(s, text, i + 1);
        a->kernels[i] = describe_kernel(a->descs[i], text);
    }
    const uint32_t events = KILN_EVENT_INSERTED | KILN_EVENT_EVICTED;
    uint64_t id;
    assert_int_equal(
        kiln_program_context_listen_programs(s->context, events, enter_program, a, &id), KILN_OK);
    assert_int_equal(kiln_program_context_listen_kernels(s->context, events, enter_kernel, a, &id),
                     KILN_OK);
}

static uint64_t sum_of(const atomic_int *counts)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < PROGRAMS; i++) {
        assert_in_range(atomic_load(&counts[i]), 0, 1);
        sum += (uint64_t)atomic_load(&counts[i]);
    }
    return sum;
}

/* Once all calls have returned, the listeners know exactly what is in the maps. */
static void test_threads_report_what_enters_and_leaves(void **state)
{
    program_scene *s = *state;
    s->params.max_programs = PROGRAMS - 2;
    program_scene_open(s);
    account a;
    open_account(&a, s);
    pthread_t threads[THREADS], comer;
    assert_int_equal(pthread_create(&comer, NULL, come_and_go, &a), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, use_programs, &a), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    atomic_store(&a.is_over, true);
    pthread_join(comer, NULL);
    assert_int_equal(atomic_load(&a.wrong), 0);
    touch_kernel(a.kernels[0]);
    assert_int_equal(sum_of(a.programs_in), program_stats(s).entries);
    assert_int_equal(sum_of(a.kernels_in), kernel_stats(s).entries);
    assert_int_equal(atomic_load(&a.kernels_in[0]), 1);
    kiln_program_context_free(&s->context);
    assert_int_equal(sum_of(a.programs_in) + sum_of(a.kernels_in), 0);
    for (size_t i = 0; i < PROGRAMS; i++) {
        kiln_kernel_desc_release(&a.kernels[i]);
        kiln_program_desc_release(&a.descs[i]);
    }
}

#define TEST(test)                                                                                 \
    cmocka_unit_test_setup_teardown(test, program_scene_set_up, program_scene_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_wrong_calls),
        TEST(test_a_program_and_its_kernel_are_reported),
        TEST(test_departures_have_their_reasons),
        TEST(test_what_is_not_kept_is_not_reported),
        TEST(test_a_listener_may_call_the_context),
        TEST(test_listeners_of_both_maps_may_remove_each_other),
        TEST(test_threads_report_what_enters_and_leaves),
    };
    return cmocka_run_group_tests_name("program listeners", tests, NULL, NULL);
}
