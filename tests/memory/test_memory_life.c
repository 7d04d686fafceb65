/* SPDX-License-Identifier: Apache-2.0
 *
 * The cache when threads and processes start and end: threads that end inside a section, a wait or
 * a build; many threads that start and end; forks; and the end of the process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory/reader.h"
#include "os/os.h"
#include "support/child.h"
#include "support/failing_malloc.h"
#include "support/memory_scene.h"

#ifdef KILNI_FENCE_IS_COUNTED
enum { MANY_THREADS = 1000 };
#else
enum { MANY_THREADS = 10000 };
#endif

static void run_thread(void *(*start)(void *), void *argument)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, start, argument), 0);
    pthread_join(thread, NULL);
}

/* Returns the wait status of a child that runs a function, which should return 0. */
static int in_child(int (*run)(scene *s), scene *s)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        _exit(run(s));
    }
    int answer = -1;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &answer, 0), child);
    return answer;
}

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

/* ---- threads ---- */

static void *end_inside_sections(void *argument)
{
    scene *s = argument;
    kiln_section sections[3];
    for (int i = 0; i < 3; i++) {
        kiln_section_enter(s->cache, &sections[i]);
    }
    kiln_cache_peek(&sections[0], s->keys[0]);
    kiln_cache_remove(s->cache, s->keys[0]);
    return NULL;
}

static void test_a_thread_leaves_its_sections_when_it_ends(void **state)
{
    scene *s = *state;
    open_cache(s);
    put(s, 0, 1, 1);
    run_thread(end_inside_sections, s);
    assert_int_equal(kiln_cache_collect(s->cache), 1);
    assert_int_equal(ends(s, 0), 1);
    assert_int_equal(stats_of(s->cache).lingering_entries, 0);
}

static pthread_key_t late;

/* Called when the thread ends, either before or after its reader is released. */
static void read_late(void *argument)
{
    scene *s = argument;
    kiln_section section;
    kiln_section_enter(s->cache, &section);
    kiln_cache_peek(&section, s->keys[0]);
    kiln_section_leave(&section);
}

static void *read_at_the_end(void *argument)
{
    pthread_setspecific(late, argument);
    read_late(argument);
    return NULL;
}

static void test_a_thread_may_read_while_it_ends(void **state)
{
    scene *s = *state;
    open_cache(s);
    put(s, 0, 1, 1);
    assert_int_equal(pthread_key_create(&late, read_late), 0);
    for (int i = 0; i < 100; i++) {
        run_thread(read_at_the_end, s);
    }
    pthread_key_delete(late);
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[0]), KILN_OK);
    assert_int_equal(ends(s, 0), 1);
}

static atomic_uint highest_number;

static void *come_and_go(void *argument)
{
    scene *s = argument;
    kiln_section section;
    kiln_section_enter(s->cache, &section);
    if (kiln_cache_peek(&section, s->keys[0]) != &s->objects[0]) {
        atomic_store(&highest_number, UINT32_MAX);
    }
    kiln_section_leave(&section);
    kiln_pin *pin = NULL;
    kiln_cache_pin(s->cache, s->keys[0], &pin);
    kiln_pin_release(&pin);
    uint32_t number = kilni_reader_number();
    if (number > atomic_load(&highest_number)) {
        atomic_store(&highest_number, number);
    }
    return NULL;
}

static void test_many_threads_start_and_end(void **state)
{
    scene *s = *state;
    open_cache(s);
    put(s, 0, 1, 1);
    for (int i = 0; i < MANY_THREADS; i++) {
        run_thread(come_and_go, s);
    }
    /* The later threads have reused the readers of earlier ones. */
    assert_true(atomic_load(&highest_number) < 16);
    assert_int_equal(stats_of(s->cache).hits, MANY_THREADS);
}

enum { PEAK = 2000, FEW_LINES = 16 };

typedef struct peak {
    scene *s;
    pthread_barrier_t step;
} peak;

static void *read_at_peak(void *argument)
{
    peak *p = argument;
    kiln_pin *pin = NULL;
    kiln_cache_pin(p->s->cache, p->s->keys[0], &pin);
    kiln_pin_release(&pin);
    pthread_barrier_wait(&p->step);
    return NULL;
}

/* Counts the readers that a reclaiming thread examines. No other thread may claim or release a
 * reader meanwhile. The list begins with the reader that was claimed last. */
static void *count_readers(void *argument)
{
    size_t *ret_count = argument;
    *ret_count = 0;
    for (const kilni_reader *reader = kilni_reader_claim(); reader; reader = reader->next) {
        ++*ret_count;
    }
    return NULL;
}

static size_t reader_count(void)
{
    size_t count;
    run_thread(count_readers, &count);
    return count;
}

/* Later threads find free counters again, and evictions do not examine the counters of threads that
 * ended. */
static void test_a_peak_of_threads_has_no_lasting_cost(void **state)
{
    scene *s = *state;
    open_cache(s);
    put(s, 0, 1, 1);
    const size_t before = reader_count();
    peak p = {.s = s};
    pthread_barrier_init(&p.step, NULL, PEAK + 1);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, (size_t)64 << 10);
    static pthread_t threads[PEAK];
    for (int i = 0; i < PEAK; i++) {
        assert_int_equal(pthread_create(&threads[i], &small, read_at_peak, &p), 0);
    }
    pthread_barrier_wait(&p.step);
    for (int i = 0; i < PEAK; i++) {
        pthread_join(threads[i], NULL);
    }
    pthread_attr_destroy(&small);
    pthread_barrier_destroy(&p.step);
    atomic_store(&highest_number, 0);
    for (int i = 0; i < FEW_LINES; i++) {
        run_thread(come_and_go, s);
    }
    assert_in_range(atomic_load(&highest_number), 0, FEW_LINES - 1);
    assert_int_equal(reader_count(), before);
}

static void *pin_and_end(void *argument)
{
    scene *s = argument;
    kiln_pin *pin = pin_of(s, 0);
    kiln_pin_release(&pin);
    return NULL;
}

/* The test holds the lock while another thread ends, and would wait for ever if the end of that
 * thread took the lock. */
static void test_a_thread_without_tickets_ends_without_a_lock(void **state)
{
    scene *s = *state;
    open_cache(s);
    put(s, 0, 1, 1);
    kilni_cache_lock(s->cache);
    run_thread(pin_and_end, s);
    pthread_mutex_unlock(&s->cache->lock);
}

/* Opens more sections than a thread has slots for, and leaves them in the order in which they were
 * entered. */
static void test_sections_nest_without_limit(void **state)
{
    scene *s = *state;
    enum { DEPTH = 3 * KILNI_READER_PLACES };
    open_cache(s);
    put(s, 0, 1, 1);
    kiln_section sections[DEPTH];
    for (int i = 0; i < DEPTH; i++) {
        kiln_section_enter(s->cache, &sections[i]);
        assert_ptr_equal(kiln_cache_peek(&sections[i], s->keys[0]), &s->objects[0]);
    }
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[0]), KILN_OK);
    for (int i = 0; i < DEPTH; i++) {
        assert_int_equal(ends(s, 0), 0);
        kiln_cache_collect(s->cache);
        assert_int_equal(ends(s, 0), 0);
        kiln_section_leave(&sections[i]);
    }
    kiln_cache_collect(s->cache);
    assert_int_equal(ends(s, 0), 1);
    put(s, 0, 1, 1);
    kiln_section_enter(s->cache, &sections[0]);
    assert_non_null(kiln_cache_peek(&sections[0], s->keys[0]));
    kiln_section_leave(&sections[0]);
}

enum { CROWD = 40 };

typedef struct crowd {
    scene *s;
    pthread_barrier_t step;
    atomic_int found;
} crowd;

static void *read_in_crowd(void *argument)
{
    crowd *c = argument;
    kiln_section section;
    pthread_barrier_wait(&c->step);
    kiln_section_enter(c->s->cache, &section);
    pthread_barrier_wait(&c->step);
    atomic_fetch_add(&c->found, kiln_cache_peek(&section, c->s->keys[0]) == &c->s->objects[0]);
    pthread_barrier_wait(&c->step);
    pthread_barrier_wait(&c->step);
    kiln_section_leave(&section);
    return NULL;
}

/* There are more concurrent threads than readers initially, and one thread fails to allocate a
 * reader. */
static void test_crowd_reads_without_memory_too(void **state)
{
    scene *s = *state;
    open_cache(s);
    put(s, 0, 1, 1);
    crowd c = {.s = s};
    pthread_barrier_init(&c.step, NULL, CROWD + 1);
    pthread_t threads[CROWD];
    for (int i = 0; i < CROWD; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, read_in_crowd, &c), 0);
    }
    failing_malloc_arm(1);
    pthread_barrier_wait(&c.step);
    pthread_barrier_wait(&c.step);
    assert_true(failing_malloc_disarm() > 0);
    pthread_barrier_wait(&c.step);
    assert_int_equal(atomic_load(&c.found), CROWD);
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[0]), KILN_OK);
    assert_int_equal(ends(s, 0), 0);
    pthread_barrier_wait(&c.step);
    for (int i = 0; i < CROWD; i++) {
        pthread_join(threads[i], NULL);
    }
    kiln_cache_collect(s->cache);
    assert_int_equal(ends(s, 0), 1);
    pthread_barrier_destroy(&c.step);
}

/* A section keeps only objects that are removed while it is open. It does not keep an object that
 * was removed before it was entered, even if an earlier section was still open then. */
static void test_an_open_section_keeps_only_what_it_can_see(void **state)
{
    scene *s = *state;
    open_cache(s);
    put(s, 0, 1, 1);
    kiln_section first;
    kiln_section second;
    kiln_section_enter(s->cache, &first);
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[0]), KILN_OK);
    kiln_section_enter(s->cache, &second);
    kiln_section_leave(&first);
    kiln_cache_collect(s->cache);
    assert_int_equal(ends(s, 0), 1);
    put(s, 1, 1, 1);
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[1]), KILN_OK);
    assert_int_equal(ends(s, 1), 0);
    kiln_section_leave(&second);
    kiln_cache_collect(s->cache);
    assert_int_equal(ends(s, 1), 1);
}

/* ---- builds and waits that never return ---- */

static kiln_status end_the_thread(void *user, const kiln_key *key, kiln_built *ret_built,
                                  kiln_error *error)
{
    (void)key;
    (void)ret_built;
    (void)error;
    asker *waiter = user;
    if (stats_of(waiter->s->cache).max_entries > 0) {
        start_asker(waiter, waiter->s, 0);
        until_waiting(waiter->s, 1);
    }
    pthread_exit(NULL);
}

static void *build_and_end(void *argument)
{
    asker *waiter = argument;
    kiln_pin *pin = NULL;
    kiln_cache_get_or_build(waiter->s->cache, waiter->s->keys[0], end_the_thread, waiter, &pin,
                            NULL);
    return NULL;
}

static void test_waiters_survive_a_build_that_ends_its_thread(void **state)
{
    scene *s = *state;
    open_cache(s);
    asker waiter = {.s = s};
    run_thread(build_and_end, &waiter);
    join_asker(&waiter);
    assert_int_equal(waiter.reservation.outcome, KILN_OWNER);
    kiln_ticket_abandon(&waiter.reservation.ticket, KILN_ABANDON_FAILED, KILN_E_BUILD, NULL);
    assert_int_equal(kiln_cache_set_capacity(s->cache, 0, 0), KILN_OK);
    run_thread(build_and_end, &waiter);
    assert_int_equal(stats_of(s->cache).bypasses, 1);
}

static void test_a_waiting_thread_cannot_be_cancelled(void **state)
{
    scene *s = *state;
    open_cache(s);
    kiln_ticket *ticket = own(s, 0);
    asker waiter;
    start_asker(&waiter, s, 0);
    until_waiting(s, 1);
    pthread_cancel(waiter.thread);
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[0], 1, 1, NULL), KILN_OK);
    join_asker(&waiter);
    assert_int_equal(waiter.status, KILN_OK);
    kiln_pin_release(&waiter.reservation.pin);
    assert_true(is_ready(s, 0));
}

/* ---- forks ---- */

typedef struct busy {
    scene *s;
    pthread_t thread;
    atomic_bool ready, over;
} busy;

/* Owns key 1, and waits inside a section until the test ends. */
static void *keep_busy(void *argument)
{
    busy *b = argument;
    kiln_ticket *ticket = own(b->s, 1);
    kiln_section section;
    kiln_section_enter(b->s->cache, &section);
    atomic_store(&b->ready, true);
    while (!atomic_load(&b->over)) {
        sched_yield();
    }
    kiln_section_leave(&section);
    kiln_ticket_abandon(&ticket, KILN_ABANDON_FAILED, KILN_E_BUILD, NULL);
    return NULL;
}

static void start_busy(busy *b, scene *s)
{
    *b = (busy){.s = s};
    assert_int_equal(pthread_create(&b->thread, NULL, keep_busy, b), 0);
    while (!atomic_load(&b->ready)) {
        sched_yield();
    }
}

static kiln_section section_of_parent;

static int use_cache_in_child(scene *s)
{
    EXPECT(kiln_cache_peek(&section_of_parent, s->keys[0]) == &s->objects[0]);
    kiln_section_leave(&section_of_parent);
    EXPECT(is_ready(s, 0));
    EXPECT(kiln_cache_remove(s->cache, s->keys[0]) == KILN_OK);
    /* The parent's thread that is in a section does not exist in the child. */
    EXPECT(ends(s, 0) == 1);
    /* The thread that builds key 1 does not exist either. */
    EXPECT(is_absent(s, 1));
    put(s, 1, 1, 1);
    EXPECT(is_ready(s, 1));
    kiln_cache_free(&s->cache);
    EXPECT(ends(s, 1) == 1);
    open_cache(s);
    put(s, 2, 1, 1);
    EXPECT(is_ready(s, 2));
    kiln_cache_free(&s->cache);
    return 0;
}

static void test_a_child_has_its_own_cache(void **state)
{
    scene *s = *state;
    open_cache(s);
    put(s, 0, 1, 1);
    busy b;
    start_busy(&b, s);
    kiln_section_enter(s->cache, &section_of_parent);
    assert_int_equal(in_child(use_cache_in_child, s), 0);
    kiln_section_leave(&section_of_parent);
    assert_true(is_ready(s, 0));
    assert_false(is_absent(s, 1));
    atomic_store(&b.over, true);
    pthread_join(b.thread, NULL);
}

enum { DEEP = KILNI_READER_PLACES + 2 };

static kiln_section own_sections[DEEP];

/* The thread is in more sections than it has slots for. */
static void *read_deeply(void *argument)
{
    busy *b = argument;
    kiln_section sections[DEEP];
    for (int i = 0; i < DEEP; i++) {
        kiln_section_enter(b->s->cache, &sections[i]);
    }
    atomic_store(&b->ready, true);
    while (!atomic_load(&b->over)) {
        sched_yield();
    }
    for (int i = 0; i < DEEP; i++) {
        kiln_section_leave(&sections[i]);
    }
    return NULL;
}

static int leave_a_section_in_child(scene *s)
{
    EXPECT(ends(s, 0) == 0);
    kiln_section section;
    kiln_section_enter(s->cache, &section);
    kiln_section_leave(&section);
    EXPECT(kiln_cache_collect(s->cache) == 1);
    EXPECT(ends(s, 0) == 1);
    return 0;
}

static int free_cache_in_child(scene *s)
{
    kiln_cache_free(&s->cache);
    EXPECT(ends(s, 0) == 1);
    return 0;
}

static int leave_own_sections_in_child(scene *s)
{
    EXPECT(ends(s, 0) == 0);
    for (int i = 0; i < DEEP; i++) {
        EXPECT(kiln_cache_collect(s->cache) == 0);
        kiln_section_leave(&own_sections[i]);
    }
    EXPECT(kiln_cache_collect(s->cache) == 1);
    EXPECT(ends(s, 0) == 1);
    return 0;
}

static void test_a_child_keeps_only_the_sections_of_its_thread(void **state)
{
    scene *s = *state;
    open_cache(s);
    put(s, 0, 1, 1);
    busy b = {.s = s};
    assert_int_equal(pthread_create(&b.thread, NULL, read_deeply, &b), 0);
    while (!atomic_load(&b.ready)) {
        sched_yield();
    }
    for (int i = 0; i < DEEP; i++) {
        kiln_section_enter(s->cache, &own_sections[i]);
    }
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[0]), KILN_OK);
    assert_int_equal(in_child(leave_own_sections_in_child, s), 0);
    for (int i = 0; i < DEEP; i++) {
        kiln_section_leave(&own_sections[i]);
    }
    assert_int_equal(ends(s, 0), 0);
    atomic_store(&b.over, true);
    pthread_join(b.thread, NULL);
    kiln_cache_collect(s->cache);
    assert_int_equal(ends(s, 0), 1);
}

static void test_a_child_keeps_nothing_for_sections_of_the_parent(void **state)
{
    scene *s = *state;
    open_cache(s);
    put(s, 0, 1, 1);
    busy b = {.s = s};
    assert_int_equal(pthread_create(&b.thread, NULL, read_deeply, &b), 0);
    while (!atomic_load(&b.ready)) {
        sched_yield();
    }
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[0]), KILN_OK);
    assert_int_equal(in_child(leave_a_section_in_child, s), 0);
    assert_int_equal(in_child(free_cache_in_child, s), 0);
    assert_int_equal(ends(s, 0), 0);
    atomic_store(&b.over, true);
    pthread_join(b.thread, NULL);
    kiln_cache_collect(s->cache);
    assert_int_equal(ends(s, 0), 1);
}

static void *hammer(void *argument)
{
    busy *b = argument;
    for (uint32_t i = 0; !atomic_load(&b->over); i++) {
        kiln_reservation r;
        uint32_t key = 2 + i % 8;
        if (kiln_cache_reserve(b->s->cache, b->s->keys[key], NULL, &r, NULL) == KILN_OK) {
            if (r.ticket) {
                kiln_ticket_fulfil(&r.ticket, &b->s->objects[key], 1, 1, NULL);
            }
            kiln_pin_release(&r.pin);
        }
        kiln_cache_remove(b->s->cache, b->s->keys[2 + i % 5]);
        atomic_store(&b->ready, true);
    }
    return NULL;
}

static int change_everything_in_child(scene *s)
{
    for (uint32_t i = 2; i < 12; i++) {
        kiln_reservation r;
        EXPECT(kiln_cache_reserve(s->cache, s->keys[i], NULL, &r, NULL) == KILN_OK);
        if (r.ticket) {
            EXPECT(kiln_ticket_fulfil(&r.ticket, &s->objects[i], 1, 1, NULL) == KILN_OK);
        }
        kiln_pin_release(&r.pin);
        EXPECT(is_ready(s, i));
    }
    kiln_cache_clear(s->cache);
    EXPECT(stats_of(s->cache).entries == 0);
    return 0;
}

static void test_forks_find_no_lock_taken(void **state)
{
    SKIP_FORKS_BESIDE_ALLOCATIONS();
    scene *s = *state;
    open_cache(s);
    busy b = {.s = s};
    assert_int_equal(pthread_create(&b.thread, NULL, hammer, &b), 0);
    while (!atomic_load(&b.ready)) {
        sched_yield();
    }
    for (int i = 0; i < 50; i++) {
        assert_int_equal(in_child(change_everything_in_child, s), 0);
    }
    atomic_store(&b.over, true);
    pthread_join(b.thread, NULL);
}

static uint64_t listener_id;

static int unlisten_in_child(scene *s)
{
    kiln_cache_unlisten(s->cache, listener_id);
    put(s, 2, 1, 1);
    return 0;
}

static void stay_in_listener(void *user, const kiln_event *event)
{
    (void)event;
    busy *b = user;
    atomic_store(&b->ready, true);
    while (!atomic_load(&b->over)) {
        sched_yield();
    }
}

static void *insert_slowly(void *argument)
{
    busy *b = argument;
    put(b->s, 0, 1, 1);
    return NULL;
}

/* In the child no thread is inside the listener, so unlistening does not wait. */
static void test_a_child_waits_for_no_listener_of_the_parent(void **state)
{
    scene *s = *state;
    open_cache(s);
    busy b = {.s = s};
    assert_int_equal(
        kiln_cache_listen(s->cache, KILN_EVENT_INSERTED, stay_in_listener, &b, &listener_id),
        KILN_OK);
    assert_int_equal(pthread_create(&b.thread, NULL, insert_slowly, &b), 0);
    while (!atomic_load(&b.ready)) {
        sched_yield();
    }
    assert_int_equal(in_child(unlisten_in_child, s), 0);
    atomic_store(&b.over, true);
    pthread_join(b.thread, NULL);
}

/* ---- the end of the process ---- */

#ifdef __SANITIZE_ADDRESS__
/* On a busy machine, LeakSanitizer may miss what the C library keeps for a thread that is just
 * starting. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:pthread_setspecific";
}
#endif

static void *read_for_ever(void *argument)
{
    scene *s = argument;
    for (;;) {
        kiln_section section;
        kiln_section_enter(s->cache, &section);
        kiln_cache_peek(&section, s->keys[0]);
        kiln_section_leave(&section);
        is_ready(s, 0);
    }
    return NULL;
}

/* Exits like a program, with pins, a watch and an open section, while other threads read. */
static int exit_with_everything_open(scene *s)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        EXPECT(pthread_create(&threads[i], NULL, read_for_ever, s) == 0);
    }
    kiln_section section;
    kiln_section_enter(s->cache, &section);
    EXPECT(kiln_pin_object(pin_of(s, 0)) == &s->objects[0]);
    EXPECT(kiln_watch_is_live(watch_of(pin_of(s, 0))));
    fclose(stdout); /* or exit would flush cmocka's buffered output a second time */
    exit(0);
}

static void test_a_process_may_end_with_everything_open(void **state)
{
    scene *s = *state;
    open_cache(s);
    put(s, 0, 1, 1);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(in_child(exit_with_everything_open, s), 0);
    }
}

/* ---- fences that the system refuses ---- */

#ifndef KILNI_FENCE_IS_COUNTED
static int refuse(int command)
{
    (void)command;
    errno = EPERM;
    return -1;
}

static kilni_os_table refusing_table(void)
{
    kilni_os_table table = *kilni_os_system();
    table.membarrier = refuse;
    return table;
}

static int read_and_remove(scene *s)
{
    kiln_section section;
    kiln_section_enter(s->cache, &section);
    EXPECT(kiln_cache_peek(&section, s->keys[0]) == &s->objects[0]);
    EXPECT(kiln_cache_remove(s->cache, s->keys[0]) == KILN_OK);
    EXPECT(ends(s, 0) == 0);
    kiln_section_leave(&section);
    return 0;
}

static int read_with_ordinary_fences(scene *s)
{
    EXPECT(!kilni_fence_is_asymmetric());
    EXPECT(read_and_remove(s) == 0);
    kiln_cache_collect(s->cache);
    EXPECT(ends(s, 0) == 1);
    return 0;
}

static void test_ordinary_fences_suffice_without_asymmetric_ones(void **state)
{
    scene *s = *state;
    open_cache(s);
    put(s, 0, 1, 1);
    kilni_os_table table = refusing_table();
    kilni_os_replace(&table);
    int answer = in_child(read_with_ordinary_fences, s);
    kilni_os_replace(NULL);
    assert_int_equal(answer, 0);
}

static int fence_count;

static int count_fences(int command)
{
    fence_count += command == MEMBARRIER_CMD_PRIVATE_EXPEDITED;
    return kilni_os_system()->membarrier(command);
}

typedef struct idle_reader {
    scene *s;
    pthread_t thread;
    pthread_barrier_t step;
    atomic_bool over;
} idle_reader;

static void *read_then_idle(void *argument)
{
    idle_reader *r = argument;
    do {
        pin_and_end(r->s);
        pthread_barrier_wait(&r->step);
        pthread_barrier_wait(&r->step);
    } while (!atomic_load(&r->over));
    return NULL;
}

static void start_idle_reader(idle_reader *r, scene *s)
{
    r->s = s;
    atomic_store(&r->over, false);
    pthread_barrier_init(&r->step, NULL, 2);
    assert_int_equal(pthread_create(&r->thread, NULL, read_then_idle, r), 0);
    pthread_barrier_wait(&r->step);
}

static void end_idle_reader(idle_reader *r)
{
    atomic_store(&r->over, true);
    pthread_barrier_wait(&r->step);
    pthread_join(r->thread, NULL);
    pthread_barrier_destroy(&r->step);
}

static kiln_status build_own(void *user, const kiln_key *key, kiln_built *ret_built,
                             kiln_error *error)
{
    (void)key;
    (void)error;
    *ret_built = (kiln_built){.object = user, .bytes = 1};
    return KILN_OK;
}

static scene *fenced_scene;
static unsigned fences_with_lock;

static int look_at_lock(int command)
{
    kiln_cache *cache = fenced_scene->cache;
    if (command == MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
        fence_count++;
        if (pthread_mutex_trylock(&cache->lock) == 0) {
            pthread_mutex_unlock(&cache->lock);
        } else {
            fences_with_lock++;
        }
    }
    return kilni_os_system()->membarrier(command);
}

/* Threads that insert do not wait for each other's fences. */
static void test_the_fence_is_issued_without_the_lock(void **state)
{
    scene *s = *state;
    kilni_os_table table = *kilni_os_system();
    table.membarrier = look_at_lock;
    fenced_scene = s;
    fences_with_lock = fence_count = 0;
    open_cache_with(s, (kiln_cache_params){.max_entries = 2});
    put(s, 0, 1, 1);
    idle_reader other;
    start_idle_reader(&other, s);
    kilni_os_replace(&table);
    for (uint32_t i = 1; i < 6; i++) {
        put(s, i, 1, 1);
    }
    kiln_cache_clear(s->cache);
    kilni_os_replace(NULL);
    end_idle_reader(&other);
    assert_int_equal(ends(s, 0), 1);
    assert_int_equal(fences_with_lock, 0);
    if (kilni_fence_is_asymmetric()) {
        assert_int_equal(fence_count, 5);
    }
}

/* The fence must be issued rarely, because it interrupts all threads of the process. */
static void test_the_fence_is_issued_only_if_needed(void **state)
{
    scene *s = *state;
    kilni_os_table table = *kilni_os_system();
    table.membarrier = count_fences;
    kilni_os_replace(&table);
    open_cache(s);
    put(s, 0, 1, 1);
    put(s, 1, 1, 1);
    fence_count = 0;
    /* No fence is needed while no other thread can read. */
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[1]), KILN_OK);
    assert_int_equal(fence_count, 0);
    assert_int_equal(ends(s, 1), 1);
    idle_reader other;
    start_idle_reader(&other, s);
    /* No fence is needed for an object that no thread could see. */
    assert_int_equal(kiln_cache_set_capacity(s->cache, 1, 1), KILN_OK);
    kiln_ticket *ticket = own(s, 2);
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[2], 2, 1, NULL), KILN_OK);
    assert_int_equal(ends(s, 2), 1);
    assert_int_equal(kiln_cache_set_capacity(s->cache, 0, 0), KILN_OK);
    fence_count = 0;
    kiln_pin *pin = NULL;
    assert_int_equal(
        kiln_cache_get_or_build(s->cache, s->keys[3], build_own, &s->objects[3], &pin, NULL),
        KILN_OK);
    kiln_pin_release(&pin);
    assert_int_equal(ends(s, 3), 1);
    assert_int_equal(fence_count, 0);
    /* A call issues one fence for all objects that it removes. */
    assert_int_equal(kiln_cache_set_capacity(s->cache, 100, 100), KILN_OK);
    for (uint32_t i = 4; i < KEY_COUNT; i++) {
        put(s, i, 1, 1);
    }
    fence_count = 0;
    kiln_cache_clear(s->cache);
    assert_in_range(fence_count, 0, 1);
    assert_int_equal(ends(s, 4) + ends(s, KEY_COUNT - 1), 2);
    end_idle_reader(&other);
    kilni_os_replace(NULL);
}

/* A sandbox that becomes stricter later refuses the fence. Objects that threads may still see are
 * kept. */
static void test_nothing_is_reclaimed_after_a_fence_that_failed(void **state)
{
    scene *s = *state;
    if (!kilni_fence_is_asymmetric()) {
        skip();
    }
    open_cache(s);
    put(s, 0, 1, 1);
    idle_reader other;
    start_idle_reader(&other, s);
    kilni_os_table table = refusing_table();
    kilni_os_replace(&table);
    int answer = read_and_remove(s);
    int kept = ends(s, 0);
    kilni_os_replace(NULL);
    end_idle_reader(&other);
    assert_int_equal(answer, 0);
    assert_int_equal(kept, 0);
    put(s, 1, 1, 1);
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[1]), KILN_OK);
    assert_int_equal(ends(s, 0) + ends(s, 1), 2);
}

/* Once the other thread has read again with ordinary fences, objects are reclaimed without the
 * system's fence. */
static void test_a_sandbox_that_refuses_the_fence_keeps_nothing(void **state)
{
    scene *s = *state;
    open_cache(s);
    put(s, 0, 1, 1);
    put(s, 1, 1, 1);
    idle_reader other;
    start_idle_reader(&other, s);
    kilni_os_table table = refusing_table();
    kilni_os_replace(&table);
    for (uint32_t i = 2; i < 5; i++) {
        put(s, i, 1, 1);
        assert_int_equal(kiln_cache_remove(s->cache, s->keys[i]), KILN_OK);
    }
    pthread_barrier_wait(&other.step);
    pthread_barrier_wait(&other.step);
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[1]), KILN_OK);
    for (uint32_t i = 1; i < 5; i++) {
        assert_int_equal(ends(s, i), 1);
    }
    kilni_os_replace(NULL);
    end_idle_reader(&other);
}
#endif

#define IN_SCENE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_SCENE(test_a_thread_leaves_its_sections_when_it_ends),
        IN_SCENE(test_a_thread_may_read_while_it_ends),
        IN_SCENE(test_many_threads_start_and_end),
        IN_SCENE(test_a_thread_without_tickets_ends_without_a_lock),
        IN_SCENE(test_sections_nest_without_limit),
        IN_SCENE(test_crowd_reads_without_memory_too),
        IN_SCENE(test_a_peak_of_threads_has_no_lasting_cost),
        IN_SCENE(test_an_open_section_keeps_only_what_it_can_see),
        IN_SCENE(test_waiters_survive_a_build_that_ends_its_thread),
        IN_SCENE(test_a_waiting_thread_cannot_be_cancelled),
        IN_SCENE(test_a_child_has_its_own_cache),
        IN_SCENE(test_a_child_keeps_nothing_for_sections_of_the_parent),
        IN_SCENE(test_a_child_keeps_only_the_sections_of_its_thread),
        IN_SCENE(test_forks_find_no_lock_taken),
        IN_SCENE(test_a_child_waits_for_no_listener_of_the_parent),
        IN_SCENE(test_a_process_may_end_with_everything_open),
#ifndef KILNI_FENCE_IS_COUNTED
        IN_SCENE(test_ordinary_fences_suffice_without_asymmetric_ones),
        IN_SCENE(test_the_fence_is_issued_only_if_needed),
        IN_SCENE(test_the_fence_is_issued_without_the_lock),
        IN_SCENE(test_nothing_is_reclaimed_after_a_fence_that_failed),
        IN_SCENE(test_a_sandbox_that_refuses_the_fence_keeps_nothing),
#endif
    };
    return cmocka_run_group_tests_name("memory life", tests, NULL, NULL);
}
