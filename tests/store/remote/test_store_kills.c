/* SPDX-License-Identifier: Apache-2.0
 *
 * store_kills LIBRARY SERVER KILLS SCRIPT: the holder of a fleet's lease is killed at each moment
 * of its build, and each time one other process takes over. Each machine is represented by a
 * directory. The requests are complete ones, of contexts of programs, so moments of the writer's
 * thread count too.
 *
 * Several builds happen at the same time, each of a different program. For each of them there are
 * three processes: the holder on machine 0, one that waits on the same machine, and one on a
 * different machine. Most time is spent waiting for the end of leases.
 */
#include "support/store_scene.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "os/clock.h"
#include "support/fleet_scene.h"

#define NS_PER_MS UINT64_C(1000000)
#define WAITERS 2u
#define BUILD_MS 50u
/* A second hand-over, or a busy machine, may take this many times longer than a successor should.
 */
#define PATIENCE 3u
/* On a busy machine a waiter may miss the deadline of a request, and then builds for itself. In one
 * of this many kills this is accepted, and always if there are fewer than MANY kills. */
#define DOUBLES 10u
#define MANY 100u

/* One killed build; shared by all processes. Times are those of kilni_clock_ns; 0: not yet. */
typedef struct scene_of_kill {
    _Atomic uint64_t begun_ns; /* the holder's build began */
    _Atomic uint64_t ended_ns; /* it ended */
    _Atomic uint64_t next_ns;  /* a waiter's build began */
    _Atomic unsigned builds;   /* by waiters */
    _Atomic unsigned found;    /* waiters that found the entry in a store */
    /* Only the parent uses these: */
    pid_t holder, waiters[WAITERS];
    unsigned number;
    uint64_t killed_ns;
} scene_of_kill;

static scene_of_kill *scenes;
static unsigned kill_count;

/* ---- processes ---- */

static void build_of_holder(void *user)
{
    scene_of_kill *scene = user;
    atomic_store(&scene->begun_ns, kilni_clock_ns());
    kilni_sleep_ns(BUILD_MS * NS_PER_MS);
    atomic_store(&scene->ended_ns, kilni_clock_ns());
}

static void build_of_waiter(void *user)
{
    scene_of_kill *scene = user;
    atomic_store(&scene->next_ns, kilni_clock_ns());
    atomic_fetch_add(&scene->builds, 1);
    kilni_sleep_ns(BUILD_MS * NS_PER_MS);
}

static void run_holder(scene_of_kill *scene, unsigned machine)
{
    fleet_obtain(scene->number, machine, build_of_holder, scene);
    /* The parent kills this process at the same moment whether it has ended its work or not. */
    for (;;) {
        pause();
    }
}

static void run_waiter(scene_of_kill *scene, unsigned machine)
{
    while (atomic_load(&scene->begun_ns) == 0) {
        kilni_sleep_ns(NS_PER_MS);
    }
    const uint32_t from = fleet_obtain(scene->number, machine, build_of_waiter, scene);
    CHECK(from == KILN_PROGRAM_FROM_STORE || from == KILN_PROGRAM_FROM_BUILD);
    atomic_fetch_add(&scene->found, from == KILN_PROGRAM_FROM_STORE);
}

static pid_t start(scene_of_kill *scene, unsigned machine,
                   void (*body)(scene_of_kill *scene, unsigned machine))
{
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        body(scene, machine);
        exit(0);
    }
    assert_true(child > 0);
    return child;
}

/* ---- kills ---- */

static void begin(scene_of_kill *scene, unsigned number)
{
    memset(scene, 0, sizeof *scene);
    scene->number = number;
    for (unsigned i = 0; i < WAITERS; i++) {
        scene->waiters[i] = start(scene, i, run_waiter);
    }
    scene->holder = start(scene, 0, run_holder);
}

/* The moments are spread evenly over the build, and the capture, the put and the release. */
static uint64_t moment_of(const scene_of_kill *scene)
{
    const uint64_t begun_ns = atomic_load(&scene->begun_ns);
    const uint64_t span_ns = (BUILD_MS + fleet.server->after_ms) * NS_PER_MS;
    return begun_ns == 0 ? UINT64_MAX : begun_ns + span_ns * scene->number / kill_count;
}

static void kill_holders(unsigned count)
{
    unsigned left = count;
    while (left > 0) {
        for (unsigned i = 0; i < count; i++) {
            scene_of_kill *scene = &scenes[i];
            if (scene->killed_ns == 0 && kilni_clock_ns() >= moment_of(scene)) {
                assert_int_equal(kill(scene->holder, SIGKILL), 0);
                scene->killed_ns = kilni_clock_ns();
                left--;
            }
        }
        kilni_sleep_ns(NS_PER_MS / 4);
    }
}

static int status_of(pid_t child)
{
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

/* What the kills in a build, and those after it, led to. If a holder was killed after its build,
 * its own machine may have the entry, and the server may not. Then a waiter of that machine may be
 * the first successor, and finds the entry, and the other waiter builds after a second hand-over.
 */
static struct outcome {
    const char *moment;
    unsigned kills;
    unsigned takeovers;          /* a waiter built */
    unsigned doubles;            /* both waiters built */
    uint64_t longest_ms, sum_ms; /* of them */
    unsigned beyond;             /* later than they should */
} outcomes[] = {{.moment = "in the build"}, {.moment = "after it"}};

static void note_takeover(struct outcome *outcome, uint64_t late_ms)
{
    outcome->takeovers++;
    outcome->sum_ms += late_ms;
    outcome->longest_ms = late_ms > outcome->longest_ms ? late_ms : outcome->longest_ms;
    outcome->beyond += late_ms > fleet.server->handover_ms;
}

static void print_outcome(const struct outcome *outcome)
{
    const uint64_t sum_ms = outcome->sum_ms;
    print_message("          %u killed %s; %u takeovers, after %lu ms on average and at most %lu "
                  "ms, %u of them after more than %u ms; %u with two builds\n",
                  outcome->kills, outcome->moment, outcome->takeovers,
                  (unsigned long)(outcome->takeovers > 0 ? sum_ms / outcome->takeovers : 0),
                  (unsigned long)outcome->longest_ms, outcome->beyond, fleet.server->handover_ms,
                  outcome->doubles);
}

static void expect_one_successor(scene_of_kill *scene)
{
    const int holder = status_of(scene->holder);
    assert_true(WIFSIGNALED(holder));
    for (unsigned i = 0; i < WAITERS; i++) {
        assert_int_equal(status_of(scene->waiters[i]), 0);
    }
    const unsigned builds = atomic_load(&scene->builds);
    const uint64_t ended_ns = atomic_load(&scene->ended_ns);
    const bool was_in_build = ended_ns == 0 || ended_ns > scene->killed_ns;
    struct outcome *outcome = &outcomes[was_in_build ? 0 : 1];
    outcome->kills++;
    outcome->doubles += builds == WAITERS;
    assert_true(builds > 0 || !was_in_build);
    assert_int_equal(atomic_load(&scene->found), WAITERS - builds);
    if (builds > 0) {
        const uint64_t next_ns = atomic_load(&scene->next_ns);
        const uint64_t late_ms =
            next_ns > scene->killed_ns ? (next_ns - scene->killed_ns) / NS_PER_MS : 0;
        note_takeover(outcome, late_ms);
        assert_in_range(late_ms, 0, PATIENCE * fleet.server->handover_ms);
    }
}

static void test_a_holder_is_killed_at_each_moment(void **state)
{
    (void)state;
    const unsigned at_once = fleet.server->at_once;
    for (unsigned first = 0; first < kill_count; first += at_once) {
        const unsigned count = kill_count - first < at_once ? kill_count - first : at_once;
        for (unsigned i = 0; i < count; i++) {
            begin(&scenes[i], first + i);
        }
        kill_holders(count);
        for (unsigned i = 0; i < count; i++) {
            expect_one_successor(&scenes[i]);
        }
    }
    print_outcome(&outcomes[0]);
    print_outcome(&outcomes[1]);
    assert_true(outcomes[0].takeovers > 0);
    if (kill_count >= MANY) {
        assert_in_range(outcomes[0].doubles + outcomes[1].doubles, 0, kill_count / DOUBLES);
    }
}

static int set_up(void **state)
{
    (void)state;
    const size_t size = fleet.server->at_once * sizeof *scenes;
    scenes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return scenes != MAP_FAILED && fleet_start() ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    fleet_stop();
    munmap(scenes, fleet.server->at_once * sizeof *scenes);
    return 0;
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_holder_is_killed_at_each_moment, set_up, tear_down),
    };
    if (count != 5 || !fleet_init(arguments[1], arguments[2], arguments[4])) {
        return 2;
    }
    kill_count = (unsigned)atoi(arguments[3]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
