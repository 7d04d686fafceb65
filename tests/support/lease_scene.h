/* SPDX-License-Identifier: Apache-2.0
 *
 * Leases of several machines on one server. Each machine is represented by a directory, which is
 * the first store of a chain. A test program sets @lease_location.
 */
#pragma once

#include "support/store_scene.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "os/clock.h"
#include "store/store.h"
#include "support/child.h"

#define NS_PER_S UINT64_C(1000000000)
#define LONG_NS (60 * NS_PER_S)
#define MACHINES 4u
#define PROCESSES 16u /* on all machines */
#define KEYS 8u

/* What all processes of a test share. */
typedef struct fleet {
    _Atomic unsigned builds[KEYS + 1];
    _Atomic unsigned holders; /* processes that hold a lease and do not release it */
} fleet;

static char scratch[SCRATCH_DIRECTORY_SIZE];
static fleet *shared;

/* Returns the location of the server with these options, in a buffer that the next call overwrites.
 */
static const char *(*lease_location)(const char *options);

static inline bool lease_set_up(void)
{
    scratch_make(scratch);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared != MAP_FAILED;
}

static inline void lease_tear_down(void)
{
    munmap(shared, sizeof *shared);
    scratch_remove(scratch);
}

static inline kiln_store *open_at(const char *location)
{
    kiln_store *store = NULL;
    kiln_error error = {.struct_size = sizeof error};
    if (kiln_store_open(location, NULL, &store, &error) != KILN_OK) {
        fprintf(stderr, "%s: %s\n", location, error.text);
        abort();
    }
    return store;
}

static inline kiln_store *open_server(const char *options)
{
    return open_at(lease_location(options));
}

static inline kiln_store *open_machine(unsigned machine)
{
    char location[3 * SCRATCH_PATH_SIZE];
    snprintf(location, sizeof location, "%s/machine-%u|%s", scratch, machine, lease_location(""));
    return open_at(location);
}

static inline kiln_status take(kiln_store *store, uint64_t number, uint64_t wait_ns,
                               kiln_lease **ret_lease)
{
    kiln_key *key = scratch_key(number);
    const kiln_status status = kiln_store_lease(store, key, wait_ns, ret_lease);
    kiln_key_release(&key);
    return status;
}

/* Does what a request does for one key (src/program/request.c). */
static inline bool obtain(kiln_store *store, uint64_t number)
{
    kiln_lease *lease = NULL;
    if (scratch_get(store, number) == KILN_OK) {
        return true;
    }
    take(store, number, LONG_NS, &lease);
    if (scratch_get(store, number) != KILN_OK) {
        atomic_fetch_add(&shared->builds[number], 1);
        kilni_sleep_ns(20000000);
        scratch_put(store, number, 2000);
    }
    kiln_lease_release(&lease);
    return scratch_get(store, number) == KILN_OK;
}

static inline pid_t start(void (*body)(unsigned number), unsigned number)
{
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        body(number);
        exit(0);
    }
    return child;
}

static inline void expect_success(pid_t child)
{
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static inline void obtain_all(unsigned number)
{
    kiln_store *store = open_machine(number % MACHINES);
    for (unsigned i = 0; i < KEYS; i++) {
        CHECK(obtain(store, 1 + (number + i) % KEYS));
    }
    kiln_store_close(&store);
}

static inline void start_all(pid_t children[PROCESSES])
{
    for (unsigned i = 0; i < PROCESSES; i++) {
        children[i] = start(obtain_all, i);
    }
}

static inline void expect_success_of_all(const pid_t children[PROCESSES])
{
    for (unsigned i = 0; i < PROCESSES; i++) {
        expect_success(children[i]);
    }
}

static inline void test_one_build_of_each_key(void **state)
{
    (void)state;
    pid_t children[PROCESSES];
    start_all(children);
    expect_success_of_all(children);
    for (unsigned i = 1; i <= KEYS; i++) {
        assert_int_equal(atomic_load(&shared->builds[i]), 1);
    }
}

/* Holds the lease of the first key until it is killed. */
static inline void hold(unsigned machine)
{
    kiln_store *store = open_machine(machine);
    kiln_lease *lease = NULL;
    CHECK(take(store, 1, LONG_NS, &lease) == KILN_OK);
    atomic_fetch_add(&shared->holders, 1);
    for (;;) {
        pause();
    }
}

static inline pid_t start_holder(unsigned machine)
{
    const pid_t holder = start(hold, machine);
    while (atomic_load(&shared->holders) == 0) {
        kilni_sleep_ns(1000000);
    }
    return holder;
}

static inline void kill_holder(pid_t holder)
{
    kill(holder, SIGKILL);
    assert_int_equal(waitpid(holder, NULL, 0), holder);
}

static kiln_lease *of_parent;

static inline void release_in_child(void)
{
    kiln_lease_release(&of_parent);
}

static inline void test_a_child_releases_nothing(void **state)
{
    (void)state;
    kiln_store *store = open_server("");
    kiln_lease *none = NULL;
    assert_int_equal(take(store, 1, LONG_NS, &of_parent), KILN_OK);
    assert_int_equal(run_in_child(release_in_child), 0);
    assert_int_equal(take(store, 1, 0, &none), KILN_BUSY);
    kiln_lease_release(&of_parent);
    assert_int_equal(take(store, 1, LONG_NS, &of_parent), KILN_OK);
    kiln_lease_release(&of_parent);
    kiln_store_close(&store);
}

static inline void build_first(unsigned machine)
{
    kiln_store *store = open_machine(machine);
    kiln_lease *lease = NULL;
    CHECK(take(store, 1, LONG_NS, &lease) == KILN_OK);
    atomic_fetch_add(&shared->holders, 1);
    kilni_sleep_ns(500000000);
    atomic_fetch_add(&shared->builds[1], 1);
    CHECK(scratch_put(store, 1, 2000) == KILN_OK);
    kiln_lease_release(&lease);
    kiln_store_close(&store);
}

static inline void obtain_first(unsigned machine)
{
    kiln_store *store = open_machine(machine);
    CHECK(obtain(store, 1));
    kiln_store_close(&store);
}

/* One machine builds, and the processes of all others, which come later, wait for it. */
static inline void test_one_build(void **state)
{
    (void)state;
    pid_t children[PROCESSES];
    children[0] = start(build_first, 0);
    while (atomic_load(&shared->holders) == 0) {
        kilni_sleep_ns(1000000);
    }
    for (unsigned i = 1; i < PROCESSES; i++) {
        children[i] = start(obtain_first, i % MACHINES);
    }
    for (unsigned i = 0; i < PROCESSES; i++) {
        expect_success(children[i]);
    }
    assert_int_equal(atomic_load(&shared->builds[1]), 1);
}

/* The lease of a killed process ends by itself; the lease of a running process does not. */
static inline void test_leases_in_time(void **state)
{
    (void)state;
    kiln_store *store = open_machine(1);
    kiln_store *elsewhere = open_machine(2);
    kiln_lease *own = NULL, *next = NULL, *none = NULL;
    assert_int_equal(take(store, 2, LONG_NS, &own), KILN_OK);
    kill_holder(start_holder(0));
    const uint64_t killed_ns = kilni_clock_ns();
    assert_int_equal(take(store, 1, LONG_NS, &next), KILN_OK);
    print_message("handed over after %.1f s\n", (double)(kilni_clock_ns() - killed_ns) / 1e9);
    kiln_lease_release(&next);
    assert_int_equal(take(elsewhere, 2, 3 * NS_PER_S, &none), KILN_BUSY);
    kiln_lease_release(&own);
    assert_int_equal(take(elsewhere, 2, LONG_NS, &none), KILN_OK);
    kiln_lease_release(&none);
    kiln_store_close(&elsewhere);
    kiln_store_close(&store);
}
