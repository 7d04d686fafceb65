/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests that wait: for a build in this process, for a build in a different one, and for each
 * other.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/request_scene.h"

#define WAITERS 4

/* ---- an owner and its waiters ---- */

typedef struct scene {
    environment at;
    atomic_int entered; /* the owner is building */
    caller owner, waiters[WAITERS];
} scene;

static void build_until_all_wait(void *user)
{
    scene *s = user;
    atomic_fetch_add(&s->entered, 1);
    await_waiters(s->at.memory, WAITERS);
}

/* Runs one request that builds until all other requests wait for it. */
static void play(fixture *f, scene *s, kilni_ending ending)
{
    s->at = enter(f, ending);
    f->device.while_building = build_until_all_wait;
    f->device.user = s;
    s->owner = (caller){
        .at = &s->at, .keys = {f->a}, .key_count = 1, .wants_no_error = s->owner.wants_no_error};
    pthread_t owner, waiters[WAITERS];
    assert_int_equal(pthread_create(&owner, NULL, run, &s->owner), 0);
    assert_true(await(&s->entered, 1));
    for (size_t i = 0; i < WAITERS; i++) {
        s->waiters[i] = (caller){.at = &s->at, .keys = {f->a}, .key_count = 1};
        assert_int_equal(pthread_create(&waiters[i], NULL, run, &s->waiters[i]), 0);
    }
    pthread_join(owner, NULL);
    for (size_t i = 0; i < WAITERS; i++) {
        pthread_join(waiters[i], NULL);
    }
    f->device.while_building = NULL;
}

static void end_scene(scene *s)
{
    leave(&s->owner);
    for (size_t i = 0; i < WAITERS; i++) {
        leave(&s->waiters[i]);
    }
    close_environment(&s->at);
}

static void check_shared_build(fixture *f, kilni_ending ending)
{
    scene s = {0};
    play(f, &s, ending);
    assert_got(&s.owner, KILNI_FROM_BUILD);
    assert_int_equal(s.owner.result.waited, 0);
    for (size_t i = 0; i < WAITERS; i++) {
        assert_got(&s.waiters[i], KILNI_FROM_MEMORY);
        assert_int_equal(s.waiters[i].result.waited, 1);
        assert_true(s.waiters[i].result.wait_ns > 0);
        const bool is_shared = program_of(&s.waiters[i]) == program_of(&s.owner);
        assert_int_equal(is_shared, ending == KILNI_KEEP_PROGRAM);
    }
    assert_int_equal(atomic_load(&f->device.build.count), 1);
    assert_totals(
        &s.at, (kiln_stats){
                   .misses = 1, .builds = 1, .puts = 1, .hits_memory = WAITERS, .waits = WAITERS});
    end_scene(&s);
}

static void test_waiters_share_the_entry(void **state)
{
    check_shared_build(*state, KILNI_KEEP_ENTRIES);
}

static void test_waiters_share_the_program(void **state)
{
    check_shared_build(*state, KILNI_KEEP_PROGRAM);
}

static void test_failed_capture_lets_each_build(void **state)
{
    fixture *f = *state;
    scene s = {0};
    script(&f->device.capture, SCRIPTED_ALWAYS, KILN_E_UNSUPPORTED);
    play(f, &s, KILNI_KEEP_ENTRIES);
    assert_got(&s.owner, KILNI_FROM_BUILD);
    assert_int_equal(s.owner.result.kept, KILN_E_UNSUPPORTED);
    for (size_t i = 0; i < WAITERS; i++) {
        assert_got(&s.waiters[i], KILNI_FROM_PRIVATE_BUILD);
    }
    assert_calls(f, 1 + WAITERS, 1, 0);
    const kiln_store_stat stat = stat_of(&s.at);
    assert_int_equal(stat.entries, 0);
    assert_int_equal(stat.totals.builds, 1 + WAITERS);
    assert_int_equal(stat.totals.misses, 1 + WAITERS);
    assert_int_equal(stat.totals.dropped, 1);
    assert_int_equal(stat.totals.waits, WAITERS);
    end_scene(&s);
}

/* Waiting callers already have the program when its capture fails. */
static void test_failed_capture_of_a_shared_program(void **state)
{
    fixture *f = *state;
    scene s = {0};
    script(&f->device.capture, SCRIPTED_ALWAYS, KILN_E_UNSUPPORTED);
    play(f, &s, KILNI_KEEP_PROGRAM);
    assert_got(&s.owner, KILNI_FROM_BUILD);
    assert_int_equal(s.owner.result.kept, KILN_E_UNSUPPORTED);
    for (size_t i = 0; i < WAITERS; i++) {
        assert_got(&s.waiters[i], KILNI_FROM_MEMORY);
    }
    assert_calls(f, 1, 1, 0);
    assert_int_equal(stat_of(&s.at).entries, 0);
    end_scene(&s);
}

static void test_failing_build_fails_in_each_of_its_programs(void **state)
{
    fixture *f = *state;
    scene s = {0};
    script(&f->device.build, SCRIPTED_ALWAYS, KILN_E_BUILD);
    f->device.build_text = "line 7: what is this?";
    play(f, &s, KILNI_KEEP_ENTRIES);
    assert_int_equal(s.owner.status, KILN_E_BUILD);
    assert_int_equal(s.owner.result.source, KILNI_FROM_BUILD);
    assert_string_equal(s.owner.error.text, f->device.build_text);
    for (size_t i = 0; i < WAITERS; i++) {
        assert_int_equal(s.waiters[i].status, KILN_E_BUILD);
        assert_int_equal(s.waiters[i].result.source, KILNI_FROM_PRIVATE_BUILD);
        assert_string_equal(s.waiters[i].error.text, f->device.build_text);
    }
    assert_calls(f, 1 + WAITERS, 0, 0);
    const kiln_stats totals = stat_of(&s.at).totals;
    assert_int_equal(totals.failures, 1 + WAITERS);
    assert_int_equal(totals.builds, 1 + WAITERS);
    assert_int_equal(totals.misses, 1 + WAITERS);
    end_scene(&s);
}

static void check_shared_failure(fixture *f, bool owner_wants_no_error)
{
    scene s = {.owner.wants_no_error = owner_wants_no_error};
    script(&f->device.build, SCRIPTED_ALWAYS, KILN_E_BUILD);
    f->device.build_text = "line 7: what is this?";
    play(f, &s, KILNI_KEEP_PROGRAM);
    assert_int_equal(s.owner.status, KILN_E_BUILD);
    for (size_t i = 0; i < WAITERS; i++) {
        assert_int_equal(s.waiters[i].status, KILN_E_BUILD);
        assert_null(program_of(&s.waiters[i]));
        assert_int_equal(s.waiters[i].error.status, KILN_E_BUILD);
        assert_string_equal(s.waiters[i].error.text, f->device.build_text);
    }
    assert_calls(f, 1, 0, 0);
    assert_totals(&s.at, (kiln_stats){.misses = 1, .builds = 1, .failures = 1, .waits = WAITERS});

    /* The failure isn't kept, so the next request builds again. */
    script(&f->device.build, 0, KILN_OK);
    request(&s.at, f->a, NULL, KILNI_FROM_BUILD);
    end_scene(&s);
}

static void test_failing_build_of_a_shared_program(void **state)
{
    check_shared_failure(*state, false);
}

static void test_waiters_get_the_failure_even_if_the_owner_ignores_it(void **state)
{
    check_shared_failure(*state, true);
}

static void test_transient_failure_reaches_only_the_owner(void **state)
{
    fixture *f = *state;
    scene s = {0};
    script(&f->device.build, 1, KILN_E_IO);
    play(f, &s, KILNI_KEEP_PROGRAM);
    assert_int_equal(s.owner.status, KILN_E_IO);
    assert_null(program_of(&s.owner));
    int builders = 0;
    for (size_t i = 0; i < WAITERS; i++) {
        const bool has_built = s.waiters[i].result.source == KILNI_FROM_BUILD;
        assert_got(&s.waiters[i], has_built ? KILNI_FROM_BUILD : KILNI_FROM_MEMORY);
        builders += has_built;
    }
    assert_int_equal(builders, 1);
    assert_calls(f, 2, 1, 0);
    assert_totals(&s.at, (kiln_stats){.misses = 2,
                                      .builds = 2,
                                      .failures = 1,
                                      .puts = 1,
                                      .hits_memory = WAITERS - 1,
                                      .waits = WAITERS});
    end_scene(&s);
}

/* Two attempts fail: all callers get the failure of the second one, and no thread hangs. */
static void test_transient_failures_without_end(void **state)
{
    fixture *f = *state;
    scene s = {0};
    script(&f->device.build, SCRIPTED_ALWAYS, KILN_E_IO);
    play(f, &s, KILNI_KEEP_PROGRAM);
    assert_int_equal(s.owner.status, KILN_E_IO);
    for (size_t i = 0; i < WAITERS; i++) {
        assert_int_equal(s.waiters[i].status, KILN_E_IO);
    }
    assert_calls(f, 2, 0, 0);
    end_scene(&s);
}

/* ---- builds that make requests themselves ---- */

typedef struct nesting {
    caller inner;
    atomic_int *meeting; /* NULL, or the number of threads inside their outer build */
    bool has_nested;     /* used by one thread only */
} nesting;

/* The further request that this thread's build makes. It is thread-local, because all threads share
 * the device. */
static _Thread_local nesting *own_nesting;

static void nest_once(void *user)
{
    (void)user;
    nesting *n = own_nesting;
    if (!n || n->has_nested) {
        return;
    }
    n->has_nested = true;
    if (n->meeting) {
        atomic_fetch_add(n->meeting, 1);
        await(n->meeting, 2);
    }
    run(&n->inner);
}

static void check_nested(fixture *f, kilni_ending ending, bool is_same_key)
{
    environment at = enter(f, ending);
    const kiln_key *inner_key = is_same_key ? f->a : f->b;
    nesting n = {.inner = {.at = &at, .keys = {inner_key}, .key_count = 1}};
    own_nesting = &n;
    f->device.while_building = nest_once;
    request(&at, f->a, NULL, KILNI_FROM_BUILD);
    own_nesting = NULL;
    assert_true(n.has_nested);
    if (!is_same_key) {
        assert_got(&n.inner, KILNI_FROM_BUILD);
    } else if (ending == KILNI_KEEP_ENTRIES) {
        assert_got(&n.inner, KILNI_FROM_PRIVATE_BUILD);
        /* The inner request succeeded, so no error is reported. */
        assert_string_equal(n.inner.error.text, "");
    } else {
        assert_int_equal(n.inner.status, KILN_E_CYCLE);
        assert_non_null(strstr(n.inner.error.text, "waits for itself"));
    }
    leave(&n.inner);
    request(&at, f->a, NULL, KILNI_FROM_MEMORY);
    close_environment(&at);
}

static void test_build_requests_another_entry(void **state)
{
    check_nested(*state, KILNI_KEEP_ENTRIES, false);
}

static void test_build_requests_another_program(void **state)
{
    check_nested(*state, KILNI_KEEP_PROGRAM, false);
}

static void test_build_requests_its_own_entry(void **state)
{
    check_nested(*state, KILNI_KEEP_ENTRIES, true);
}

static void test_build_requests_its_own_program(void **state)
{
    check_nested(*state, KILNI_KEEP_PROGRAM, true);
}

typedef struct crossing {
    caller outer;
    nesting nested;
} crossing;

static void *cross(void *user)
{
    crossing *c = user;
    own_nesting = &c->nested;
    run(&c->outer);
    own_nesting = NULL;
    return NULL;
}

/* One thread builds a and needs b for it; the other builds b and needs a for it. */
static void check_crossing(fixture *f, kilni_ending ending)
{
    environment at = enter(f, ending);
    f->device.while_building = nest_once;
    atomic_int meeting = 0;
    crossing sides[2];
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        const kiln_key *own = i == 0 ? f->a : f->b, *other = i == 0 ? f->b : f->a;
        sides[i] = (crossing){
            .outer = {.at = &at, .keys = {own}, .key_count = 1},
            .nested = {.inner = {.at = &at, .keys = {other}, .key_count = 1}, .meeting = &meeting}};
        assert_int_equal(pthread_create(&threads[i], NULL, cross, &sides[i]), 0);
    }
    int cycles = 0, private_builds = 0;
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < 2; i++) {
        assert_got(&sides[i].outer, KILNI_FROM_BUILD);
        caller *inner = &sides[i].nested.inner;
        cycles += inner->status == KILN_E_CYCLE;
        private_builds +=
            inner->status == KILN_OK && inner->result.source == KILNI_FROM_PRIVATE_BUILD;
        leave(&sides[i].outer);
        leave(inner);
    }
    assert_int_equal(cycles, ending == KILNI_KEEP_PROGRAM ? 1 : 0);
    assert_int_equal(private_builds, ending == KILNI_KEEP_ENTRIES ? 1 : 0);
    close_environment(&at);
}

static void test_builds_of_entries_depend_on_each_other(void **state)
{
    check_crossing(*state, KILNI_KEEP_ENTRIES);
}

static void test_builds_of_programs_depend_on_each_other(void **state)
{
    check_crossing(*state, KILNI_KEEP_PROGRAM);
}

/* ---- the same keys in different orders ---- */

#define ROUNDS 60

typedef struct rounds {
    const environment *at;
    kiln_key *const *firsts, *const *seconds;
    pthread_barrier_t *start;
    int failures;
} rounds;

static void *run_rounds(void *user)
{
    rounds *r = user;
    for (int i = 0; i < ROUNDS; i++) {
        caller c = {.at = r->at, .keys = {r->firsts[i], r->seconds[i]}, .key_count = 2};
        pthread_barrier_wait(r->start);
        run(&c);
        r->failures += c.status != KILN_OK || !c.program;
        leave(&c);
    }
    return NULL;
}

static void check_orders(fixture *f, environment *here, environment *there)
{
    kiln_key *a[ROUNDS], *b[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        a[i] = make_key("round a", (uint64_t)i);
        b[i] = make_key("round b", (uint64_t)i);
    }
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, 2);
    rounds one = {.at = here, .firsts = a, .seconds = b, .start = &start};
    rounds other = {.at = there, .firsts = b, .seconds = a, .start = &start};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_rounds, &other), 0);
    run_rounds(&one);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&start);
    assert_int_equal(one.failures, 0);
    assert_int_equal(other.failures, 0);
    assert_int_equal(atomic_load(&f->device.build.count), ROUNDS);
    for (int i = 0; i < ROUNDS; i++) {
        kiln_key_release(&a[i]);
        kiln_key_release(&b[i]);
    }
}

static void test_orders_in_one_context(void **state)
{
    fixture *f = *state;
    environment at = enter(f, KILNI_KEEP_ENTRIES);
    check_orders(f, &at, &at);
    close_environment(&at);
}

/* Between two contexts, leases determine the order and exclude other builders. */
static void test_orders_in_two_contexts(void **state)
{
    fixture *f = *state;
    environment here = enter(f, KILNI_KEEP_ENTRIES), there = enter(f, KILNI_KEEP_ENTRIES);
    check_orders(f, &here, &there);
    close_environment(&here);
    close_environment(&there);
}

/* ---- one builder, across contexts and processes ---- */

/* Shared with the children. */
typedef struct meeting_place {
    atomic_int building; /* the lease's holder is in its build */
    atomic_int refused;  /* another process asked for the lease meanwhile */
    atomic_int builds;
} meeting_place;

static meeting_place *meeting; /* where the processes of this test meet */
static pid_t doomed;           /* the process to kill when a lease is refused; 0: none */

/* Counts refused leases, which are locks of single bytes; all other locks are of whole files. */
static int watch_lock(int file, short type, off_t offset, off_t size)
{
    const int result = kilni_os_system()->lock(file, type, offset, size);
    const int error = errno;
    if (result != 0 && size == 1) {
        atomic_fetch_add(&meeting->refused, 1);
        if (doomed) {
            kill(doomed, SIGKILL);
        }
    }
    errno = error;
    return result;
}

static void watch_locks(void)
{
    static kilni_os_table table;
    table = *kilni_os_system();
    table.lock = watch_lock;
    kilni_os_replace(&table);
}

static void open_meeting(void)
{
    meeting =
        mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(meeting != MAP_FAILED);
}

static void close_meeting(void)
{
    munmap(meeting, sizeof *meeting);
    meeting = NULL;
}

static void build_until_refused(void *user)
{
    (void)user;
    atomic_fetch_add(&meeting->builds, 1);
    atomic_fetch_add(&meeting->building, 1);
    await(&meeting->refused, 1);
}

static void run_while_first_builds(caller *first, caller *second)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run, first), 0);
    assert_true(await(&meeting->building, 1));
    run(second);
    pthread_join(thread, NULL);
}

static void check_two_contexts(fixture *f, kilni_ending ending)
{
    open_meeting();
    watch_locks();
    environment here = enter(f, ending), there = enter(f, ending);
    f->device.while_building = build_until_refused;
    caller first = {.at = &here, .keys = {f->a}, .key_count = 1};
    caller second = {.at = &there, .keys = {f->a}, .key_count = 1};
    run_while_first_builds(&first, &second);
    assert_got(&first, KILNI_FROM_BUILD);
    assert_got(&second, KILNI_FROM_STORE);
    assert_int_equal(second.result.waited, 1);
    assert_int_equal(second.result.store, KILN_OK);
    assert_calls(f, 1, 1, 1);
    leave(&first);
    leave(&second);
    close_environment(&there);
    assert_totals(&here,
                  (kiln_stats){.misses = 1, .builds = 1, .puts = 1, .hits_store = 1, .waits = 1});
    close_environment(&here);
    close_meeting();
}

static void test_two_contexts_build_entries_once(void **state)
{
    check_two_contexts(*state, KILNI_KEEP_ENTRIES);
}

static void test_two_contexts_build_programs_once(void **state)
{
    check_two_contexts(*state, KILNI_KEEP_PROGRAM);
}

/* An outdated entry in the store must not cause two builds either. */
static void check_outdated_entry(fixture *f, kilni_ending ending)
{
    open_meeting();
    environment here = enter(f, ending);
    request(&here, f->a, NULL, KILNI_FROM_BUILD);
    open_again(&here, f->directory);
    environment there = enter(f, ending);
    watch_locks();
    /* Each thread calls load at its first look-up. */
    script(&f->device.load, 2, KILN_MISS);
    script(&f->device.build, 0, KILN_OK);
    f->device.while_building = build_until_refused;
    caller first = {.at = &here, .keys = {f->a}, .key_count = 1};
    caller second = {.at = &there, .keys = {f->a}, .key_count = 1};
    run_while_first_builds(&first, &second);
    assert_got(&first, KILNI_FROM_BUILD);
    assert_int_equal(first.result.store, KILN_MISS);
    assert_got(&second, KILNI_FROM_STORE);
    assert_int_equal(second.result.waited, 1);
    assert_int_equal(atomic_load(&f->device.build.count), 1);
    assert_int_equal(atomic_load(&f->device.load.count), 3);
    leave(&first);
    leave(&second);
    f->device.while_building = NULL;
    close_environment(&there);
    close_environment(&here);
    kilni_os_replace(NULL);
    close_meeting();
}

static void test_outdated_entry_is_replaced_once(void **state)
{
    check_outdated_entry(*state, KILNI_KEEP_ENTRIES);
}

static void test_outdated_entry_of_a_program_is_replaced_once(void **state)
{
    check_outdated_entry(*state, KILNI_KEEP_PROGRAM);
}

/* Runs in a child: makes one request, and returns the exit status of the child, 0 if the request
 * succeeded. */
static int run_child(fixture *f, kilni_source expected)
{
    environment at;
    watch_locks();
    if (!open_environment(&at, &f->device, KILNI_KEEP_ENTRIES, f->directory, 0)) {
        return 1;
    }
    f->device.while_building = build_until_refused;
    caller c = {.at = &at, .keys = {f->a}, .key_count = 1};
    if (expected == KILNI_FROM_STORE && !await(&meeting->building, 1)) {
        return 2;
    }
    run(&c);
    if (c.status != KILN_OK || !c.program || c.program->value != value_of_program(&c)) {
        return 3;
    }
    if (c.result.source != expected) {
        return 4;
    }
    leave(&c);
    close_environment(&at);
    return atomic_load(&f->device.wrong) == 0 ? 0 : 5;
}

static pid_t start_child(fixture *f, kilni_source expected)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(run_child(f, expected));
    }
    return child;
}

static int wait_for(pid_t child)
{
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void test_two_processes_build_once(void **state)
{
    fixture *f = *state;
    open_meeting();
    const pid_t builder = start_child(f, KILNI_FROM_BUILD);
    const pid_t other = start_child(f, KILNI_FROM_STORE);
    assert_int_equal(wait_for(builder), 0);
    assert_int_equal(wait_for(other), 0);
    assert_int_equal(atomic_load(&meeting->builds), 1);
    environment at = enter(f, KILNI_KEEP_ENTRIES);
    assert_totals(&at,
                  (kiln_stats){.misses = 1, .builds = 1, .puts = 1, .hits_store = 1, .waits = 1});
    close_environment(&at);
    close_meeting();
}

/* The status that another process would get if it asked for the lease during the build. */
static kiln_status lease_while_building;

static void look_at_lease(void *user)
{
    const presence *p = user;
    kiln_lease *lease = NULL;
    lease_while_building = kiln_store_lease(p->at->store, p->key, 0, &lease);
    kiln_lease_release(&lease);
}

static void build_for_ever(void *user)
{
    (void)user;
    atomic_fetch_add(&meeting->building, 1);
    for (;;) {
        pause();
    }
}

static void test_killed_builder_frees_the_others(void **state)
{
    fixture *f = *state;
    open_meeting();
    const pid_t builder = fork();
    assert_true(builder >= 0);
    if (builder == 0) {
        environment at;
        if (!open_environment(&at, &f->device, KILNI_KEEP_ENTRIES, f->directory, 0)) {
            _exit(1);
        }
        f->device.while_building = build_for_ever;
        caller c = {.at = &at, .keys = {f->a}, .key_count = 1};
        run(&c);
        _exit(2);
    }
    assert_true(await(&meeting->building, 1));
    doomed = builder;
    watch_locks();
    environment at = enter(f, KILNI_KEEP_ENTRIES);
    presence p = {&at, f->a};
    f->device.while_building = look_at_lease;
    f->device.user = &p;
    const kilni_request_result result = request(&at, f->a, NULL, KILNI_FROM_BUILD);
    doomed = 0;
    assert_int_equal(result.waited, 1);
    assert_int_equal(lease_while_building, KILN_BUSY);
    const int status = wait_for(builder);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    open_again(&at, f->directory);
    request(&at, f->a, NULL, KILNI_FROM_STORE);
    close_environment(&at);
    close_meeting();
}

static void build_until_refused_then_look_at_lease(void *user)
{
    if (atomic_load(&meeting->builds) == 0) {
        build_until_refused(user);
    } else {
        look_at_lease(user);
    }
}

/* A caller waits, and then finds that the entry stored meanwhile is outdated for it too. It takes
 * the lease again and builds. */
static void test_lease_can_be_taken_again(void **state)
{
    fixture *f = *state;
    open_meeting();
    environment here = enter(f, KILNI_KEEP_ENTRIES);
    request(&here, f->a, NULL, KILNI_FROM_BUILD);
    open_again(&here, f->directory);
    environment there = enter(f, KILNI_KEEP_ENTRIES);
    presence p = {&there, f->a};
    watch_locks();
    /* Each thread calls load at its first look-up; the second thread calls it again after the first
     * has built. */
    script(&f->device.load, 3, KILN_MISS);
    script(&f->device.build, 0, KILN_OK);
    f->device.while_building = build_until_refused_then_look_at_lease;
    f->device.user = &p;
    lease_while_building = KILN_OK;
    caller first = {.at = &here, .keys = {f->a}, .key_count = 1};
    caller second = {.at = &there, .keys = {f->a}, .key_count = 1};
    run_while_first_builds(&first, &second);
    assert_got(&first, KILNI_FROM_BUILD);
    assert_got(&second, KILNI_FROM_BUILD);
    assert_int_equal(lease_while_building, KILN_BUSY);
    assert_int_equal(atomic_load(&f->device.load.count), 3);
    leave(&first);
    leave(&second);
    f->device.while_building = NULL;
    close_environment(&there);
    close_environment(&here);
    kilni_os_replace(NULL);
    close_meeting();
}

/* The lease is released with the entry: no process can take it before the entry exists. */
static void test_lease_is_released(void **state)
{
    fixture *f = *state;
    environment at = enter(f, KILNI_KEEP_ENTRIES);
    presence p = {&at, f->a};
    f->device.while_building = look_at_lease;
    f->device.user = &p;
    kiln_lease *lease = NULL;

    /* The lease is released at once after a failed build or capture, otherwise when the entry is
     * written. */
    script(&f->device.build, 1, KILN_E_BUILD);
    caller c = {.at = &at, .keys = {f->a}, .key_count = 1};
    run(&c);
    assert_int_equal(c.status, KILN_E_BUILD);
    assert_int_equal(lease_while_building, KILN_BUSY);
    assert_int_equal(kiln_store_lease(at.store, f->a, 0, &lease), KILN_OK);
    kiln_lease_release(&lease);

    script(&f->device.capture, 1, KILN_E_UNSUPPORTED);
    request(&at, f->a, NULL, KILNI_FROM_BUILD);
    assert_int_equal(kiln_store_lease(at.store, f->a, 0, &lease), KILN_OK);
    kiln_lease_release(&lease);

    request(&at, f->a, NULL, KILNI_FROM_BUILD);
    assert_int_equal(kiln_store_lease(at.store, f->a, DRAIN_NS, &lease), KILN_OK);
    assert_int_equal(kiln_store_contains(at.store, f->a), KILN_OK);
    kiln_lease_release(&lease);
    close_environment(&at);
}

/* ---- without captures ---- */

enum { HOUSES = 3 };

static atomic_int refused_threads, together, left_alone;
static _Thread_local bool was_refused;

static int count_refused_thread(int file, short type, off_t offset, off_t size)
{
    const int result = kilni_os_system()->lock(file, type, offset, size);
    const int error = errno;
    if (result != 0 && size == 1 && !was_refused) {
        was_refused = true;
        atomic_fetch_add(&refused_threads, 1);
    }
    errno = error;
    return result;
}

static void build_until_all_build(void *user)
{
    (void)user;
    atomic_fetch_add(&together, 1);
    if (!await(&together, HOUSES)) {
        atomic_fetch_add(&left_alone, 1);
    }
}

/* After the first build, the program is in the driver's own cache, so no caller waits a second
 * time. The builds of this test end only once all threads are building, so the test would hang if
 * one waited. */
static void test_waiters_without_captures_build_together(void **state)
{
    fixture *f = *state;
    environment first = enter(f, KILNI_KEEP_ENTRIES), environments[HOUSES];
    caller callers[HOUSES];
    pthread_t threads[HOUSES];
    kiln_lease *lease = NULL;
    assert_int_equal(kiln_store_lease(first.store, f->a, 0, &lease), KILN_OK);
    static kilni_os_table table;
    table = *kilni_os_system();
    table.lock = count_refused_thread;
    kilni_os_replace(&table);
    f->device.while_building = build_until_all_build;
    for (size_t i = 0; i < HOUSES; i++) {
        environments[i] = enter(f, KILNI_KEEP_ENTRIES);
        callers[i] = (caller){
            .at = &environments[i], .ops = &ops_without_capture, .keys = {f->a}, .key_count = 1};
        assert_int_equal(pthread_create(&threads[i], NULL, run, &callers[i]), 0);
    }
    assert_true(await(&refused_threads, HOUSES));
    kiln_lease_release(&lease);
    for (size_t i = 0; i < HOUSES; i++) {
        pthread_join(threads[i], NULL);
        assert_got(&callers[i], KILNI_FROM_BUILD);
        assert_int_equal(callers[i].result.waited, 1);
        leave(&callers[i]);
    }
    assert_int_equal(atomic_load(&left_alone), 0);
    /* A result that was never captured does not count as dropped. */
    assert_int_equal(stat_of(&environments[0]).totals.dropped, 0);
    for (size_t i = 0; i < HOUSES; i++) {
        close_environment(&environments[i]);
    }
    close_environment(&first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_waiters_share_the_entry),
        TEST(test_waiters_share_the_program),
        TEST(test_failed_capture_lets_each_build),
        TEST(test_failed_capture_of_a_shared_program),
        TEST(test_failing_build_fails_in_each_of_its_programs),
        TEST(test_failing_build_of_a_shared_program),
        TEST(test_waiters_get_the_failure_even_if_the_owner_ignores_it),
        TEST(test_transient_failure_reaches_only_the_owner),
        TEST(test_transient_failures_without_end),
        TEST(test_build_requests_another_entry),
        TEST(test_build_requests_another_program),
        TEST(test_build_requests_its_own_entry),
        TEST(test_build_requests_its_own_program),
        TEST(test_builds_of_entries_depend_on_each_other),
        TEST(test_builds_of_programs_depend_on_each_other),
        TEST(test_orders_in_one_context),
        TEST(test_orders_in_two_contexts),
        TEST(test_two_contexts_build_entries_once),
        TEST(test_two_contexts_build_programs_once),
        TEST(test_outdated_entry_is_replaced_once),
        TEST(test_outdated_entry_of_a_program_is_replaced_once),
        TEST(test_two_processes_build_once),
        TEST(test_killed_builder_frees_the_others),
        TEST(test_lease_can_be_taken_again),
        TEST(test_lease_is_released),
        TEST(test_waiters_without_captures_build_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
