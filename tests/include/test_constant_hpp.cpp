/* SPDX-License-Identifier: Apache-2.0
 *
 * Uses kiln/constant.hpp in a backend like that of oneDNN's proposal, which has a promise, a future
 * and its own buffer class.
 */
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

/* The header for users must not include the header for backends. */
#include <kiln/constant.h>
#ifdef KILN_CONSTANT_BACKEND_H
#error "kiln/constant.h must not include kiln/constant_backend.h"
#endif

#include <kiln/onednn.hpp>

#define CHECK(condition) check(condition, #condition, __LINE__)

static void check(bool holds, const char *condition, int line)
{
    if (!holds) {
        fprintf(stderr, "%s:%d: %s\n", __FILE__, line, condition);
        exit(1);
    }
}

using kiln::constant_tensor_cache_policy;
using kiln::constant_tensor_cache_t;
using kiln::engine;
using kiln::status;

/* ---- a backend ---- */

struct allocator_t {
    std::atomic<int> holds{0};
    std::atomic<int> live{0};
    bool is_empty = false;

    void retain()
    {
        holds++;
    }

    void release()
    {
        holds--;
    }
};

struct engine_t {
    engine::kind kind;
};

static void *allocate(std::size_t size, const engine_t &, const allocator_t *alc)
{
    if (alc->is_empty) {
        return nullptr;
    }
    const_cast<allocator_t *>(alc)->live++;
    return malloc(size);
}

static void give_back(void *data, const engine_t &eng, const allocator_t *alc)
{
    CHECK(eng.kind == engine::kind::gpu && alc->holds > 0);
    const_cast<allocator_t *>(alc)->live--;
    free(data);
}

static std::atomic<int> notices{0};

class backend_buffer_t : public kiln::device_constant_buffer_t<engine_t, allocator_t>
{
  public:
    backend_buffer_t(std::size_t size, const engine_t &eng, const allocator_t *alc)
        : device_constant_buffer_t(size, eng, alc, allocate, give_back)
    {
    }

    void notify_evict() override
    {
        notices++;
    }
};

static const engine_t the_engine = {engine::kind::gpu};
static allocator_t the_allocator;

static std::shared_ptr<backend_buffer_t> new_buffer(std::size_t size)
{
    return std::make_shared<backend_buffer_t>(size, the_engine, &the_allocator);
}

/* ---- users ---- */

static void test_users_calls()
{
    const std::size_t unlimited = SIZE_MAX;
    CHECK(kiln::get_constant_tensor_cache() == 1);
    CHECK(kiln::get_constant_tensor_cache_capacity(engine::kind::cpu) == unlimited);
    CHECK(kiln::set_constant_tensor_cache_capacity(engine::kind::cpu, 10240) == status::success);
    CHECK(kiln::set_constant_tensor_cache_capacity(
              engine::kind::gpu, 2048, constant_tensor_cache_policy::cost) == status::success);
    CHECK(kiln::get_constant_tensor_cache_capacity(engine::kind::cpu) == 10240);
    std::size_t size = 0;
    constant_tensor_cache_policy policy = constant_tensor_cache_policy::unchanged;
    CHECK(kiln::get_constant_tensor_cache_capacity(engine::kind::gpu, &size, &policy) ==
          status::success);
    CHECK(size == 2048 && policy == constant_tensor_cache_policy::cost);

    kiln::set_constant_tensor_cache_capacity(engine::kind::gpu, 1, std::size_t(7));
    kiln::set_constant_tensor_cache_capacity(engine::kind::gpu, 2, unlimited,
                                             constant_tensor_cache_policy::lru);
    kiln::get_constant_tensor_cache_capacity(engine::kind::gpu, 1, &size, &policy);
    CHECK(size == 7 && policy == constant_tensor_cache_policy::cost);
    kiln::get_constant_tensor_cache_capacity(engine::kind::gpu, 2, &size, &policy);
    CHECK(size == unlimited && policy == constant_tensor_cache_policy::lru);

    int handle = 0;
    CHECK(kiln::interop::set_constant_tensor_cache_capacity(&handle, 5) == status::success);
    {
        const kiln::constant_device_binding_t binding(&handle, engine::kind::gpu, 1);
        CHECK(kiln::interop::get_constant_tensor_cache_capacity(&handle, &size) == status::success);
        CHECK(size == 5);
    }
    CHECK(kiln::interop::get_constant_tensor_cache_capacity(&handle, &size) == status::miss);

    kiln::set_constant_tensor_cache(0);
    CHECK(kiln::get_constant_tensor_cache() == 0);
    CHECK(kiln::get_constant_tensor_cache_capacity(engine::kind::cpu) == 0);
    kiln::set_constant_tensor_cache_capacity(engine::kind::gpu, unlimited,
                                             constant_tensor_cache_policy::no_evict);
    kiln::set_constant_tensor_cache(1);
}

/* ---- promise and future ---- */

/* Does what a compiled partition does: finds the constant or computes it, and returns its
 * content. */
static int execute(const constant_tensor_cache_t &cache, std::size_t spec_key, int content,
                   int *computed)
{
    const std::size_t bkd_id = 3;
    const std::size_t size = sizeof content;
    constant_tensor_cache_t::promise_t c_promise;
    constant_tensor_cache_t::value_t cached_value =
        cache.get_or_add(bkd_id, spec_key, size, c_promise.get_future());
    bool is_from_cache = cached_value.valid();
    if (is_from_cache) {
        constant_tensor_cache_t::cached_t c_buffer = cached_value.get();
        return *c_buffer->data<int>();
    }
    constant_tensor_cache_t::cached_t c_buffer = new_buffer(size);
    *c_buffer->data<int>() = content;
    (*computed)++;
    c_promise.set_value(c_buffer);
    CHECK(c_promise.get_future().get() == c_buffer);
    return content;
}

static void test_the_first_computes()
{
    constant_tensor_cache_t cache(engine::kind::gpu, 10);
    int computed = 0;
    CHECK(execute(cache, 1, 17, &computed) == 17);
    CHECK(execute(cache, 1, 18, &computed) == 17);
    CHECK(computed == 1 && cache.get_size() == sizeof(int));
    CHECK(execute(cache, 2, 19, &computed) == 19);
    CHECK(computed == 2);
    /* The first execution has a different context, and the second has a different device. */
    CHECK(execute(constant_tensor_cache_t(engine::kind::gpu, 10, 5), 1, 20, &computed) == 20);
    CHECK(execute(constant_tensor_cache_t(engine::kind::gpu, 11), 1, 21, &computed) == 21);
    CHECK(the_allocator.live == 4);
    cache.remove_if_exist(3, std::size_t(1));
    cache.remove_if_exist(3, std::size_t(1));
    CHECK(the_allocator.live == 3 && notices == 1);
    CHECK(execute(cache, 1, 22, &computed) == 22);
    kiln::set_constant_tensor_cache(1);
    CHECK(the_allocator.live == 0 && the_allocator.holds == 0 && notices == 5);
}

static void test_threads_share()
{
    constant_tensor_cache_t cache(engine::kind::gpu, 12);
    std::atomic<int> computed{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) {
        threads.emplace_back([&] {
            int mine = 0;
            CHECK(execute(cache, 9, 99, &mine) == 99);
            computed += mine;
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    CHECK(computed == 1);
    kiln::set_constant_tensor_cache(1);
    CHECK(the_allocator.live == 0);
}

static void test_a_full_cache_accepts_no_promise()
{
    kiln::set_constant_tensor_cache_capacity(engine::kind::gpu, 13, std::size_t(0));
    constant_tensor_cache_t cache(engine::kind::gpu, 13);
    constant_tensor_cache_t::promise_t promise;
    CHECK(!cache.get_or_add(1, "weights", 4, promise.get_future()).valid());
    CHECK(!promise.is_awaited());
    CHECK(cache.get_capacity() == 0);
    CHECK(constant_tensor_cache_t(engine::kind::gpu, 12).get_capacity() == SIZE_MAX);
    promise.set_value(new_buffer(4));
    CHECK(cache.get_size() == 0 && the_allocator.live == 1);
    promise.set_value(nullptr);
    CHECK(the_allocator.live == 0);
}

static void test_a_constant_is_shared()
{
    constant_tensor_cache_t cache(engine::kind::gpu, 14);
    const kiln::constant_key_t key = cache.key(1, "weights", 2);
    {
        constant_tensor_cache_t::promise_t promise;
        CHECK(!cache.get_or_add(key, 4, promise.get_future()).valid());
        CHECK(promise.is_awaited());
        promise.set_value(new_buffer(4), 1000);
        CHECK(!promise.is_awaited());
    }
    constant_tensor_cache_t::cached_t kept;
    kiln::watch watch;
    CHECK(!watch.is_live());
    {
        constant_tensor_cache_t::promise_t promise;
        constant_tensor_cache_t::value_t hit = cache.get_or_add(key, 4, promise.get_future());
        CHECK(hit.valid() && !promise.is_awaited());
        watch = hit.watch();
        kept = hit.get();
    }
    CHECK(watch.is_live());
    cache.remove_if_exist(key);
    CHECK(!watch.is_live());
    CHECK(the_allocator.live == 1 && kept->size() == 4);
    kept.reset();
    CHECK(the_allocator.live == 0);
}

/* get_or_add never waits, so one thread may call it twice. */
static void test_calling_twice_in_one_thread()
{
    constant_tensor_cache_t cache(engine::kind::gpu, 23);
    constant_tensor_cache_t::promise_t first, second;
    CHECK(!cache.get_or_add(1, "w", 4, first.get_future()).valid());
    constant_tensor_cache_t::value_t again = cache.get_or_add(1, "w", 4, second.get_future());
    const constant_tensor_cache_t::value_t copy = again;
    CHECK(again.valid() && !again.is_ready() && !second.is_awaited());
#ifndef KILN_NO_EXCEPTIONS
    bool is_cycle = false;
    try {
        again.get();
    } catch (const kiln::error &error) {
        is_cycle = error.status() == status::cycle;
    }
    CHECK(is_cycle);
#else
    CHECK(!again.get());
#endif
    const constant_tensor_cache_t::cached_t buffer = new_buffer(4);
    first.set_value(buffer);
    CHECK(again.is_ready() && again.get() == buffer && copy.get() == buffer);
    CHECK(again.watch().is_live());
    kiln::set_constant_tensor_cache(1);
    CHECK(copy.get() == buffer && !copy.watch().is_live());
}

/* Several threads wait for the same constant while its owner computes it. */
static void test_a_future_waits_for_its_constant()
{
    constant_tensor_cache_t cache(engine::kind::gpu, 24);
    constant_tensor_cache_t::promise_t owner, other;
    CHECK(!cache.get_or_add(1, "w", 4, owner.get_future()).valid());
    const constant_tensor_cache_t::value_t future = cache.get_or_add(1, "w", 4, other.get_future());
    std::atomic<int> right{0};
    std::vector<std::thread> threads;
    const constant_tensor_cache_t::cached_t buffer = new_buffer(4);
    for (int i = 0; i < 4; i++) {
        threads.emplace_back([&] { right += future.get() == buffer; });
    }
    owner.set_value(buffer);
    for (std::thread &thread : threads) {
        thread.join();
    }
    CHECK(right == 4);
    kiln::set_constant_tensor_cache(1);
}

/* A thread does not wait for a promise that has been destroyed. */
static void test_a_future_that_outlives_its_promise()
{
    constant_tensor_cache_t cache(engine::kind::gpu, 19);
    constant_tensor_cache_t::value_t future;
    {
        constant_tensor_cache_t::promise_t promise;
        future = promise.get_future();
    }
    CHECK(!cache.get_or_add(1, "w", 4, future).valid());
    {
        constant_tensor_cache_t::promise_t promise;
        CHECK(!cache.get_or_add(1, "w", 4, promise.get_future()).valid());
        CHECK(promise.is_awaited());
        promise.set_value(new_buffer(4));
    }
    CHECK(cache.get_or_add(1, "w", 4, future).valid());
    kiln::set_constant_tensor_cache(1);
    CHECK(the_allocator.live == 0);
}

/* The next caller computes, even if the thread that had the promise continues. */
static void test_destroyed_promise_abandons()
{
    constant_tensor_cache_t cache(engine::kind::gpu, 21);
    for (int i = 0; i < 2; i++) {
        constant_tensor_cache_t::promise_t promise;
        CHECK(!cache.get_or_add(1, "w", 4, promise.get_future()).valid());
        CHECK(promise.is_awaited());
    }
    CHECK(cache.get_size() == 0);
}

static void test_keys_differ_by_backend_and_generation()
{
    constant_tensor_cache_t cache(engine::kind::gpu, 22);
    const kiln::constant_key_t keys[] = {cache.key(1, "w", 1), cache.key(1, "w", 2),
                                         cache.key(2, "w", 1), cache.key(2, "v", 1)};
    for (const kiln::constant_key_t &key : keys) {
        constant_tensor_cache_t::promise_t promise;
        CHECK(!cache.get_or_add(key, 4, promise.get_future()).valid());
        promise.set_value(new_buffer(4));
    }
    CHECK(cache.get_size() == 16);
    kiln::set_constant_tensor_cache(1);
    CHECK(the_allocator.live == 0);
}

/* ---- what the types exclude ---- */

static void test_buffers_cannot_be_copied()
{
    using kiln::constant_buffer_t;
    static_assert(!std::is_copy_constructible<constant_buffer_t>::value,
                  "a buffer cannot be copied");
    static_assert(!std::is_copy_assignable<constant_buffer_t>::value, "nor assigned");
    static_assert(!std::is_copy_constructible<backend_buffer_t>::value, "nor a backend's");
    static_assert(!std::is_copy_assignable<backend_buffer_t>::value, "nor a backend's");
    static_assert(!std::is_move_constructible<backend_buffer_t>::value, "nor moved");
    static_assert(!std::is_move_assignable<backend_buffer_t>::value, "nor moved");
}

template <typename Cache, typename = void> struct can_set_capacity : std::false_type {
};

template <typename Cache>
struct can_set_capacity<Cache, decltype(static_cast<void>(std::declval<Cache &>().set_capacity(
                                   std::size_t(1))))> : std::true_type {
};

template <typename Cache, typename = void> struct can_get_capacity : std::false_type {
};

template <typename Cache>
struct can_get_capacity<Cache, decltype(static_cast<void>(std::declval<Cache &>().get_capacity()))>
    : std::true_type {
};

/* Backends read the capacity of their cache, and can't set it. */
static void test_backends_get_the_capacity_and_set_none()
{
    static_assert(!can_set_capacity<constant_tensor_cache_t>::value, "only users set the capacity");
    static_assert(can_get_capacity<constant_tensor_cache_t>::value,
                  "backends may query the capacity");
    kiln::set_constant_tensor_cache_capacity(engine::kind::gpu, 20, std::size_t(7));
    CHECK(constant_tensor_cache_t(engine::kind::gpu, 20).get_capacity() == 7);
    kiln::set_constant_tensor_cache(1);
}

static void put(const constant_tensor_cache_t &cache, const char *key, std::uint64_t owner)
{
    constant_tensor_cache_t::promise_t promise;
    CHECK(!cache.get_or_add(cache.key(1, key), 4, promise.get_future(), owner).valid());
    promise.set_value(new_buffer(4));
}

static void test_constants_are_removed_with_owner_and_context()
{
    const constant_tensor_cache_t plain(engine::kind::gpu, 18);
    {
        const kiln::constant_context_t context;
        const kiln::constant_context_t other;
        const constant_tensor_cache_t inside(engine::kind::gpu, 18, context.number());
        CHECK(context.number() != other.number());
        put(plain, "a", 0);
        put(inside, "a", 0);
        {
            const kiln::constant_owner_t owner;
            put(plain, "b", owner.number());
            put(inside, "b", owner.number());
            CHECK(plain.get_size() == 16);
        }
        CHECK(plain.get_size() == 8);
    }
    CHECK(plain.get_size() == 4);
    kiln::set_constant_tensor_cache(1);
    CHECK(the_allocator.live == 0);
}

/* ---- failures ---- */

static void test_wrong_arguments()
{
    constant_tensor_cache_t cache(engine::kind::gpu, 15);
    constant_tensor_cache_t::promise_t promise;
    cache.get_or_add(1, "weights", 4, promise.get_future());
#ifndef KILN_NO_EXCEPTIONS
    int thrown = 0;
    try {
        kiln::set_constant_tensor_cache(-1);
    } catch (const kiln::error &error) {
        thrown += error.status() == status::invalid_arguments;
    }
    try {
        kiln::set_constant_tensor_cache_capacity(engine::kind::gpu, -1, std::size_t(1));
    } catch (const kiln::error &error) {
        thrown += error.status() == status::invalid_arguments;
    }
    try {
        promise.set_value(nullptr);
    } catch (const kiln::error &error) {
        thrown += error.status() == status::invalid_arguments;
    }
    the_allocator.is_empty = true;
    try {
        new_buffer(4);
    } catch (const kiln::error &error) {
        thrown += strcmp(error.what(), kiln_status_text(KILN_E_RESOURCES)) == 0;
    }
    the_allocator.is_empty = false;
    CHECK(thrown == 4);
#else
    CHECK(kiln::set_constant_tensor_cache(-1) == status::invalid_arguments);
    CHECK(kiln::set_constant_tensor_cache_capacity(engine::kind::gpu, -1, std::size_t(1)) ==
          status::invalid_arguments);
    CHECK(promise.set_value(nullptr) == status::invalid_arguments);
    the_allocator.is_empty = true;
    CHECK(!new_buffer(4)->data<int>());
    the_allocator.is_empty = false;
#endif
    CHECK(promise.is_awaited());
    CHECK(the_allocator.holds == 0);
}

#ifndef KILN_NO_EXCEPTIONS
struct stubborn_allocator_t {
    int live = 0;
    bool refuses = false;

    void retain()
    {
        if (refuses) {
            throw std::runtime_error("not now");
        }
    }

    void release()
    {
    }
};

struct stubborn_engine_t {
    bool refuses;

    explicit stubborn_engine_t(bool refuses_copies) : refuses(refuses_copies)
    {
    }

    stubborn_engine_t(const stubborn_engine_t &other) : refuses(other.refuses)
    {
        if (refuses) {
            throw std::runtime_error("no copies");
        }
    }
};

static char byte;

static void *allocate_byte(std::size_t, const stubborn_engine_t &, const stubborn_allocator_t *alc)
{
    const_cast<stubborn_allocator_t *>(alc)->live++;
    return &byte;
}

static void give_byte_back(void *, const stubborn_engine_t &, const stubborn_allocator_t *alc)
{
    const_cast<stubborn_allocator_t *>(alc)->live--;
}

static int failures_to_make(const stubborn_engine_t &eng, const stubborn_allocator_t &alc)
{
    using buffer_t = kiln::device_constant_buffer_t<stubborn_engine_t, stubborn_allocator_t>;
    try {
        buffer_t(1, eng, &alc, allocate_byte, give_byte_back);
    } catch (const std::runtime_error &) {
        return 1;
    }
    return 0;
}

static void test_a_failed_allocation_caches_nothing()
{
    stubborn_allocator_t alc;
    CHECK(failures_to_make(stubborn_engine_t(false), alc) == 0);
    CHECK(failures_to_make(stubborn_engine_t(true), alc) == 1);
    CHECK(alc.live == 0);
    alc.refuses = true;
    CHECK(failures_to_make(stubborn_engine_t(false), alc) == 1);
    CHECK(alc.live == 0);
}

static void compute_in_vain(const constant_tensor_cache_t &cache, std::atomic<bool> *is_waited_for)
{
    constant_tensor_cache_t::promise_t promise;
    CHECK(!cache.get_or_add(1, "w", 4, promise.get_future()).valid());
    while (!*is_waited_for) {
        std::this_thread::yield();
    }
    throw std::runtime_error("a kernel failed");
}

static uint64_t waits_of(const constant_tensor_cache_t &cache)
{
    kiln_cache_stats stats = kiln_cache_stats();
    stats.struct_size = sizeof stats;
    CHECK(kiln_constant_get_stats(cache.get(), &stats) == KILN_OK);
    return stats.waits;
}

/* If a promise is destroyed without a value, threads that wait for it get an error, as from a
 * std::future, and the next caller computes. */
static void test_a_computation_that_throws()
{
    constant_tensor_cache_t cache(engine::kind::gpu, 16);
    std::atomic<bool> is_waited_for{false};
    std::atomic<int> caught{0};
    std::thread owner([&] {
        try {
            compute_in_vain(cache, &is_waited_for);
        } catch (const std::runtime_error &) {
            caught++;
        }
    });
    kiln_cache_stats stats = kiln_cache_stats();
    stats.struct_size = sizeof stats;
    do {
        std::this_thread::yield();
        CHECK(kiln_constant_get_stats(cache.get(), &stats) == KILN_OK);
    } while (stats.misses == 0);
    std::thread waiter([&] {
        constant_tensor_cache_t::promise_t promise;
        constant_tensor_cache_t::value_t future = cache.get_or_add(1, "w", 4, promise.get_future());
        CHECK(future.valid() && !promise.is_awaited() && !future.is_ready());
        try {
            future.get();
        } catch (const kiln::error &error) {
            caught += error.status() == status::build_failed;
        }
        CHECK(!cache.get_or_add(1, "w", 4, promise.get_future()).valid());
        CHECK(promise.is_awaited());
        promise.set_value(new_buffer(4));
    });
    while (waits_of(cache) == 0) {
        std::this_thread::yield();
    }
    is_waited_for = true;
    owner.join();
    waiter.join();
    CHECK(caught == 2);
    constant_tensor_cache_t::promise_t promise;
    CHECK(cache.get_or_add(1, "w", 4, promise.get_future()).valid());
}

static void test_failure_reaches_waiters()
{
    constant_tensor_cache_t cache(engine::kind::gpu, 17);
    constant_tensor_cache_t::promise_t promise;
    CHECK(!cache.get_or_add(1, "w", 4, promise.get_future()).valid());
    std::atomic<int> caught{0};
    std::thread waiter([&] {
        try {
            constant_tensor_cache_t::promise_t mine;
            cache.get_or_add(1, "w", 4, mine.get_future()).get();
        } catch (const kiln::error &error) {
            caught += strcmp(error.what(), "no such reorder") == 0;
        }
    });
    while (waits_of(cache) == 0) {
        std::this_thread::yield();
    }
    promise.set_failure(KILN_E_BUILD, "no such reorder");
    waiter.join();
    CHECK(caught == 1);
}
#endif

int main()
{
    unsetenv("ONEDNN_GRAPH_CONSTANT_TENSOR_CACHE_CAPACITY");
    test_users_calls();
    test_the_first_computes();
    test_threads_share();
    test_a_full_cache_accepts_no_promise();
    test_a_constant_is_shared();
    test_calling_twice_in_one_thread();
    test_a_future_waits_for_its_constant();
    test_a_future_that_outlives_its_promise();
    test_destroyed_promise_abandons();
    test_keys_differ_by_backend_and_generation();
    test_buffers_cannot_be_copied();
    test_backends_get_the_capacity_and_set_none();
    test_constants_are_removed_with_owner_and_context();
    test_wrong_arguments();
#ifndef KILN_NO_EXCEPTIONS
    test_a_failed_allocation_caches_nothing();
    test_a_computation_that_throws();
    test_failure_reaches_waiters();
#endif
    kiln::set_constant_tensor_cache(0);
    CHECK(the_allocator.live == 0);
    return 0;
}
