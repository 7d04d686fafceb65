/* SPDX-License-Identifier: Apache-2.0
 *
 * When a call that removes constants returns, those constants have been freed, whatever other
 * threads were doing with them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <sched.h>

#include <kiln/constant.h>

#include "constant/constants.h"
#include "face/onednn/constant_environment.h"
#include "memory/reader.h"
#include "os/os.h"
#include "support/child.h"
#include "support/constant_budget.h"
#include "support/constant_scene.h"

enum { CONTEXT = 7, OWNER = 9, SIZE = 10 };

/* How long the other thread sleeps after its last action. A call that did not wait for the thread
 * would return during this time. */
static const struct timespec a_rest = {.tv_nsec = 50000000};

typedef struct scene {
    backend b;
    uint32_t index;
    kiln_constant_cache *cache;
    kiln_key *key;
    pthread_t thread;
    atomic_bool is_there; /* the other thread has reached its waiting point */
    atomic_bool is_cancelled;
    atomic_bool is_over; /* the other thread may end */
} scene;

static int set_up(void **state)
{
    scene *s = calloc(1, sizeof *s);
    backend_init(&s->b);
    s->index = new_index();
    s->cache = cache_at(KILN_ENGINE_GPU, s->index);
    s->key = key_with(CONTEXT, 1, "w", 1);
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    scene *s = *state;
    assert_int_equal(kiln_constant_set_enabled(1), KILN_OK);
    assert_int_equal(backend_live(&s->b), 0);
    kiln_key_release(&s->key);
    free(s);
    return 0;
}

static void start(scene *s, void *(*function)(void *))
{
    atomic_store(&s->is_there, false);
    assert_int_equal(pthread_create(&s->thread, NULL, function, s), 0);
    while (!atomic_load(&s->is_there)) {
        sched_yield();
    }
}

static void put_it(scene *s)
{
    kiln_pin *pin = put_as(&s->b, s->cache, s->key, SIZE, 1, OWNER);
    kiln_pin_release(&pin);
}

/* ---- the ways to remove ---- */

static void remove_context(scene *s)
{
    (void)s;
    assert_int_equal(kiln_constant_remove_context(CONTEXT), 1);
}

static void remove_owner(scene *s)
{
    (void)s;
    assert_int_equal(kiln_constant_remove_owner(OWNER), 1);
}

static void disable(scene *s)
{
    (void)s;
    assert_int_equal(kiln_constant_set_enabled(0), KILN_OK);
    assert_int_equal(kiln_constant_set_enabled(1), KILN_OK);
}

static void set_one(scene *s)
{
    assert_int_equal(constant_set_index(KILN_ENGINE_GPU, s->index, 3, KILN_POLICY_UNCHANGED),
                     KILN_OK);
}

static void remove_one(scene *s)
{
    assert_int_equal(kiln_constant_remove_if_exist(s->cache, s->key), KILN_OK);
}

static void (*const removals[])(scene *) = {remove_context, remove_owner, disable, set_one,
                                            remove_one};

enum { REMOVALS = sizeof removals / sizeof removals[0] };

/* ---- a thread that looks up ---- */

/* A thread whose look-up lasts until after the constant is removed. */
static void *look(void *argument)
{
    scene *s = argument;
    kiln_section section;
    kiln_section_enter(s->cache->memory, &section);
    atomic_store(&s->is_there, true);
    while (kiln_cache_peek(&section, s->key)) {
        sched_yield();
    }
    nanosleep(&a_rest, NULL);
    kiln_section_leave(&section);
    return NULL;
}

static void test_flush_waits_for_lookups(void **state)
{
    scene *s = *state;
    for (int i = 0; i < REMOVALS; i++) {
        put_it(s);
        start(s, look);
        removals[i](s);
        assert_int_equal(backend_live(&s->b), 0);
        pthread_join(s->thread, NULL);
    }
}

/* ---- a thread that evicts ---- */

static void tell_slowly(void *user, const kiln_constant_buffer *buffer)
{
    scene *s = user;
    backend_evicted(&s->b, buffer);
    atomic_store(&s->is_there, true);
    nanosleep(&a_rest, NULL);
}

static void *remove_key(void *argument)
{
    scene *s = argument;
    kiln_constant_remove_if_exist(s->cache, s->key);
    return NULL;
}

static void test_flush_waits_for_notices(void **state)
{
    scene *s = *state;
    s->b.memory.evicted = tell_slowly;
    s->b.memory.user = s;
    put_it(s);
    start(s, remove_key);
    assert_int_equal(kiln_constant_remove_context(CONTEXT), 0);
    assert_int_equal(backend_live(&s->b), 0);
    pthread_join(s->thread, NULL);
}

static void free_slowly(void *data, void *engine, void *allocator)
{
    backend *b = engine;
    scene *s = b->memory.user;
    atomic_store(&s->is_there, true);
    nanosleep(&a_rest, NULL);
    backend_free(data, engine, allocator);
}

static void test_flush_waits_for_frees(void **state)
{
    scene *s = *state;
    s->b.memory.free = free_slowly;
    s->b.memory.evicted = NULL;
    s->b.memory.user = s;
    put_it(s);
    start(s, remove_key);
    assert_int_equal(kiln_constant_remove_owner(OWNER), 0);
    assert_int_equal(backend_live(&s->b), 0);
    pthread_join(s->thread, NULL);
}

/* ---- many threads ---- */

enum { OTHERS = 2, OTHER_KEYS = 24, CONTEXTS = 300, CONSTANTS = 4, LARGE = 64 << 10 };

typedef struct crowd {
    kiln_constant_cache
        *cache; /* has room for 16 such constants, so each thread evicts those of other threads */
    kiln_key *keys[OTHER_KEYS];
    backend b;
    atomic_bool over;
    atomic_int wrong;
} crowd;

static void use_one(crowd *c, const kiln_key *key)
{
    kiln_reservation answer = {0};
    kiln_constant_buffer *buffer = NULL;
    bool right = kiln_constant_get_or_add(c->cache, key, LARGE, NULL, &answer, NULL) == KILN_OK;
    if (answer.outcome == KILN_OWNER) {
        right = kiln_constant_buffer_new(&c->b.memory, LARGE, NULL, &buffer) == KILN_OK &&
                kiln_constant_fulfil(&answer.ticket, &buffer, 1, &answer.pin) == KILN_OK;
    }
    if (!right || !kiln_constant_buffer_of(answer.pin)) {
        atomic_fetch_add(&c->wrong, 1);
    }
    kiln_pin_release(&answer.pin);
}

static void *use_others(void *argument)
{
    crowd *c = argument;
    for (unsigned i = 1; !atomic_load(&c->over); i = i * 1664525u + 1013904223u) {
        use_one(c, c->keys[(i >> 16) % OTHER_KEYS]);
    }
    return NULL;
}

/* Lets other threads run while the buffer is about to be freed. */
static void tell_and_rest(void *user, const kiln_constant_buffer *buffer)
{
    backend_evicted(user, buffer);
    sched_yield();
}

/* A context with its own runtime that begins, caches and ends. */
static void live_and_end(kiln_constant_cache *cache, uint64_t context)
{
    static const char *const names[CONSTANTS] = {"a", "b", "c", "d"};
    backend own_backend;
    backend_init(&own_backend);
    own_backend.memory.evicted = tell_and_rest;
    for (int i = 0; i < CONSTANTS; i++) {
        kiln_key *key = key_with(context, 1, names[i], 1);
        put(&own_backend, cache, key, LARGE, 1);
        kiln_key_release(&key);
    }
    sched_yield();
    kiln_constant_remove_context(context);
    assert_int_equal(backend_live(&own_backend), 0);
    assert_int_equal(atomic_load(&own_backend.evictions), CONSTANTS);
}

static void test_a_context_ends_while_other_threads_look_up_and_evict(void **state)
{
    (void)state;
    static crowd c;
    c.cache = new_device_with(1, KILN_POLICY_LRU);
    backend_init(&c.b);
    for (uint64_t i = 0; i < OTHER_KEYS; i++) {
        c.keys[i] = key_with(1, 2, "other", i);
    }
    pthread_t threads[OTHERS];
    for (int i = 0; i < OTHERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, use_others, &c), 0);
    }
    for (int i = 0; i < CONTEXTS; i++) {
        live_and_end(c.cache, kiln_constant_unique_number() + 100);
    }
    atomic_store(&c.over, true);
    for (int i = 0; i < OTHERS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(atomic_load(&c.wrong), 0);
    assert_int_equal(kiln_constant_set_enabled(1), KILN_OK);
    assert_int_equal(backend_live(&c.b), 0);
    for (int i = 0; i < OTHER_KEYS; i++) {
        kiln_key_release(&c.keys[i]);
    }
}

/* ---- no waiting ---- */

static void test_pins_are_not_waited_for(void **state)
{
    scene *s = *state;
    kiln_pin *pin = put_as(&s->b, s->cache, s->key, SIZE, 1, OWNER);
    assert_int_equal(kiln_constant_remove_context(CONTEXT), 1);
    assert_int_equal(backend_live(&s->b), 1);
    kiln_pin_release(&pin);
}

static void remove_in_notice(void *user, const kiln_constant_buffer *buffer)
{
    (void)buffer;
    pthread_barrier_wait(user);
    kiln_constant_remove_context(CONTEXT);
    assert_int_equal(kiln_constant_set_enabled(1), KILN_OK);
}

static void test_functions_of_backends_wait_for_no_thread(void **state)
{
    scene *s = *state;
    scene other = {.key = s->key, .cache = new_device()};
    scene *both[] = {s, &other};
    pthread_barrier_t met;
    pthread_barrier_init(&met, NULL, 2);
    backend_init(&other.b);
    for (int i = 0; i < 2; i++) {
        both[i]->b.memory.evicted = remove_in_notice;
        both[i]->b.memory.user = &met;
        put_it(both[i]);
    }
    assert_int_equal(pthread_create(&other.thread, NULL, remove_key, &other), 0);
    assert_int_equal(kiln_constant_remove_if_exist(s->cache, s->key), KILN_OK);
    pthread_join(other.thread, NULL);
    assert_int_equal(backend_live(&s->b), 0);
    assert_int_equal(backend_live(&other.b), 0);
    pthread_barrier_destroy(&met);
}

static void tell_and_end(void *user, const kiln_constant_buffer *buffer)
{
    (void)buffer;
    scene *s = user;
    atomic_store(&s->is_there, true);
    pthread_exit(NULL);
}

static void free_and_end(void *data, void *engine, void *allocator)
{
    backend *b = engine;
    scene *s = b->memory.user;
    backend_free(data, engine, allocator);
    backend_release(engine, allocator);
    atomic_store(&s->is_there, true);
    pthread_exit(NULL);
}

/* The function that should have freed the buffer never returns, so the buffer leaks. LeakSanitizer
 * calls this function to learn which leaks to ignore. */
const char *__lsan_default_suppressions(void);

const char *__lsan_default_suppressions(void)
{
    return "leak:test_function_that_ends_its_thread_delays_no_thread\n";
}

static void test_function_that_ends_its_thread_delays_no_thread(void **state)
{
    scene *s = *state;
    s->b.memory.user = s;
    s->b.memory.evicted = tell_and_end;
    put_it(s);
    start(s, remove_key);
    pthread_join(s->thread, NULL);
    assert_int_equal(kiln_constant_remove_context(CONTEXT), 0);
    assert_int_equal(backend_live(&s->b), 0);
    backend_init(&s->b);
    s->b.memory.user = s;
    s->b.memory.evicted = NULL;
    s->b.memory.free = free_and_end;
    put_it(s);
    start(s, remove_key);
    pthread_join(s->thread, NULL);
    assert_int_equal(kiln_constant_remove_context(CONTEXT), 0);
}

static void tell_and_come_to_be_cancelled(void *user, const kiln_constant_buffer *buffer)
{
    (void)buffer;
    scene *s = user;
    atomic_store(&s->is_there, true);
    while (!atomic_load(&s->is_cancelled)) {
        sched_yield();
    }
    pthread_testcancel();
}

static void free_and_come_to_be_cancelled(void *data, void *engine, void *allocator)
{
    backend *b = engine;
    tell_and_come_to_be_cancelled(b->memory.user, NULL);
    backend_free(data, engine, allocator);
}

static void *remove_key_and_end(void *argument)
{
    remove_key(argument);
    pthread_testcancel();
    return argument;
}

static void test_a_function_of_a_backend_cannot_be_cancelled(void **state)
{
    scene *s = *state;
    s->b.memory.user = s;
    s->b.memory.evicted = tell_and_come_to_be_cancelled;
    s->b.memory.free = free_and_come_to_be_cancelled;
    put_it(s);
    void *result = NULL;
    start(s, remove_key_and_end);
    pthread_cancel(s->thread);
    atomic_store(&s->is_cancelled, true);
    pthread_join(s->thread, &result);
    assert_ptr_equal(result, PTHREAD_CANCELED);
    assert_int_equal(backend_live(&s->b), 0);
}

/* Destroys an object of a cache that the program made. This ends a context. */
static void end_context(void *user, void *object)
{
    (void)object;
    scene *s = user;
    assert_int_equal(kiln_constant_remove_context(CONTEXT), 0);
    assert_int_equal(backend_live(&s->b), 0);
}

static void test_a_destroy_of_another_cache_waits(void **state)
{
    scene *s = *state;
    kiln_cache_params params = {.struct_size = sizeof params, .destroy = end_context, .user = s};
    kiln_reserve_params wish = {.struct_size = sizeof wish, .bytes = 1};
    kiln_reservation answer = {0};
    kiln_cache *own = NULL;
    assert_int_equal(kiln_cache_new(&params, &own), KILN_OK);
    assert_int_equal(kiln_cache_reserve(own, s->key, &wish, &answer, NULL), KILN_OK);
    assert_int_equal(kiln_ticket_fulfil(&answer.ticket, s, 1, 1, NULL), KILN_OK);
    s->b.memory.free = free_slowly;
    s->b.memory.evicted = NULL;
    s->b.memory.user = s;
    put_it(s);
    start(s, remove_key);
    kiln_cache_free(&own);
    pthread_join(s->thread, NULL);
}

/* The thread that was notifying exists only in the parent. */
static void disable_in_child(void)
{
    CHECK(kiln_constant_set_enabled(0) == KILN_OK);
    _exit(0);
}

static void test_a_child_waits_for_no_thread_of_its_parent(void **state)
{
    scene *s = *state;
    s->b.memory.evicted = tell_slowly;
    s->b.memory.user = s;
    put_it(s);
    start(s, remove_key);
    assert_int_equal(run_in_child(disable_in_child), 0);
    pthread_join(s->thread, NULL);
}

static int refuse(int command)
{
    (void)command;
    errno = EPERM;
    return -1;
}

/* A thread that has used a read section, and could use one again until it ends. */
static void *look_and_stay(void *argument)
{
    scene *s = argument;
    kiln_section section;
    kiln_section_enter(s->cache->memory, &section);
    kiln_section_leave(&section);
    atomic_store(&s->is_there, true);
    while (!atomic_load(&s->is_over)) {
        sched_yield();
    }
    return NULL;
}

/* The system refuses the fence that runs on all threads. If Kiln's fences depend on it, nothing is
 * freed before the other thread ends. */
static void test_a_fence_that_is_refused_is_not_waited_for(void **state)
{
    scene *s = *state;
    put_it(s);
    start(s, look_and_stay);
    kilni_os_table table = *kilni_os_system();
    table.membarrier = refuse;
    const bool asymmetric = kilni_fence_is_asymmetric();
    kilni_os_replace(&table);
    assert_int_equal(kiln_constant_remove_context(CONTEXT), 1);
    kilni_os_replace(NULL);
    assert_int_equal(backend_live(&s->b), asymmetric ? 1 : 0);
    atomic_store(&s->is_over, true);
    pthread_join(s->thread, NULL);
    assert_int_equal(kiln_constant_remove_context(CONTEXT), 0);
    assert_int_equal(backend_live(&s->b), 0);
}

#define IN_SCENE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

/* ---- a device that runs out of memory ---- */

/* A device of SIZE bytes, whose memory takes a while to free. */
typedef struct small_device {
    atomic_size_t used;
    atomic_bool is_freeing;
    atomic_int freed;
} small_device;

static void *small_allocate(size_t size, void *engine, void *allocator)
{
    (void)allocator;
    small_device *device = engine;
    if (atomic_fetch_add(&device->used, size) + size > SIZE) {
        atomic_fetch_sub(&device->used, size);
        return NULL;
    }
    size_t *data = malloc(sizeof *data);
    *data = size;
    return data;
}

static void small_free(void *data, void *engine, void *allocator)
{
    (void)allocator;
    small_device *device = engine;
    atomic_store(&device->is_freeing, true);
    nanosleep(&a_rest, NULL);
    atomic_fetch_sub(&device->used, *(size_t *)data);
    atomic_fetch_add(&device->freed, 1);
    free(data);
}

typedef struct small_caller {
    pthread_t thread;
    kiln_constant_memory memory;
    kiln_constant_cache *cache;
    kiln_status status;
} small_caller;

static void *allocate_half(void *argument)
{
    small_caller *caller = argument;
    kiln_constant_buffer *buffer = NULL;
    caller->status = kiln_constant_buffer_new(&caller->memory, SIZE / 2, caller->cache, &buffer);
    if (caller->status == KILN_OK) {
        kiln_constant_buffer_free(&buffer);
    }
    return NULL;
}

/* One thread evicts a constant, and is still freeing it when a second thread finds no memory and
 * nothing to evict. */
static void test_memory_that_another_thread_is_freeing_is_waited_for(void **state)
{
    scene *s = *state;
    small_device device = {0};
    const kiln_constant_memory memory = {.struct_size = sizeof memory,
                                         .allocate = small_allocate,
                                         .free = small_free,
                                         .engine = &device};
    kiln_ticket *ticket = own(s->cache, s->key, SIZE);
    kiln_constant_buffer *buffer = NULL;
    assert_int_equal(kiln_constant_buffer_new(&memory, SIZE, NULL, &buffer), KILN_OK);
    assert_int_equal(kiln_constant_fulfil(&ticket, &buffer, 1, NULL), KILN_OK);
    small_caller first = {.memory = memory, .cache = s->cache};
    small_caller second = first;
    assert_int_equal(pthread_create(&first.thread, NULL, allocate_half, &first), 0);
    while (!atomic_load(&device.is_freeing)) {
        sched_yield();
    }
    allocate_half(&second);
    assert_int_equal(pthread_join(first.thread, NULL), 0);
    assert_int_equal(second.status, KILN_OK);
    assert_int_equal(first.status, KILN_OK);
    assert_int_equal(atomic_load(&device.freed), 3);
    assert_int_equal(atomic_load(&device.used), 0);
}

int main(void)
{
    unsetenv(KILNI_CONSTANT_VARIABLE);
    const struct CMUnitTest tests[] = {
        IN_SCENE(test_flush_waits_for_lookups),
        IN_SCENE(test_flush_waits_for_notices),
        IN_SCENE(test_flush_waits_for_frees),
        IN_SCENE(test_a_context_ends_while_other_threads_look_up_and_evict),
        IN_SCENE(test_pins_are_not_waited_for),
        IN_SCENE(test_functions_of_backends_wait_for_no_thread),
        IN_SCENE(test_function_that_ends_its_thread_delays_no_thread),
        IN_SCENE(test_a_function_of_a_backend_cannot_be_cancelled),
        IN_SCENE(test_a_destroy_of_another_cache_waits),
        IN_SCENE(test_a_child_waits_for_no_thread_of_its_parent),
        IN_SCENE(test_a_fence_that_is_refused_is_not_waited_for),
        IN_SCENE(test_memory_that_another_thread_is_freeing_is_waited_for),
    };
    return cmocka_run_group_tests_name("constant removal", tests, NULL, NULL);
}
