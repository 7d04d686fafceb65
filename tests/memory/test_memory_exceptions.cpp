/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds, listeners and destroy functions that throw: the exception reaches the caller, no waiter
 * hangs, and nothing leaks.
 */
#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <thread>

#include <kiln/cache.h>

#define CHECK(condition) check(condition, #condition, __LINE__)

static void check(bool holds, const char *condition, int line)
{
    if (!holds) {
        fprintf(stderr, "%s:%d: %s\n", __FILE__, line, condition);
        exit(1);
    }
}

static int object;

static kiln_status build(void *, const kiln_key *, kiln_built *ret_built, kiln_error *)
{
    *ret_built = {&object, 1, 1};
    return KILN_OK;
}

static kiln_status build_in_vain(void *reason, const kiln_key *, kiln_built *, kiln_error *)
{
    throw std::runtime_error(static_cast<const char *>(reason));
}

static kiln_key *make_key(const char *text = "of a build")
{
    kiln_key_builder *builder = nullptr;
    kiln_key *key = nullptr;
    CHECK(kiln_key_builder_new(&builder) == KILN_OK);
    CHECK(kiln_key_builder_add_text(builder, "name", text) == KILN_OK);
    CHECK(kiln_key_builder_finish(builder, &key) == KILN_OK);
    kiln_key_builder_free(&builder);
    return key;
}

static kiln_cache *open_cache(uint32_t flags, kiln_destroy_fn destroy = nullptr)
{
    kiln_cache_params params = {};
    params.struct_size = sizeof params;
    params.flags = flags;
    params.destroy = destroy;
    kiln_cache *cache = nullptr;
    CHECK(kiln_cache_new(&params, &cache) == KILN_OK);
    return cache;
}

static kiln_cache_stats stats_of(kiln_cache *cache)
{
    kiln_cache_stats stats = {};
    stats.struct_size = sizeof stats;
    CHECK(kiln_cache_get_stats(cache, &stats) == KILN_OK);
    return stats;
}

/* Returns the text of the exception that the call threw. */
static std::string thrown_by(kiln_cache *cache, const kiln_key *key, kiln_build_fn build_of,
                             void *user)
{
    kiln_pin *pin = nullptr;
    try {
        kiln_cache_get_or_build(cache, key, build_of, user, &pin, nullptr);
    } catch (const std::runtime_error &error) {
        CHECK(pin == nullptr);
        return error.what();
    }
    return "";
}

static void expect_build(kiln_cache *cache, const kiln_key *key)
{
    kiln_pin *pin = nullptr;
    CHECK(kiln_cache_get_or_build(cache, key, build, nullptr, &pin, nullptr) == KILN_OK);
    CHECK(kiln_pin_object(pin) == &object);
    kiln_pin_release(&pin);
}

/* The cache keeps failures, but does not treat an exception as a failure, because its cause may
 * have nothing to do with the key. */
static void test_exception_reaches_the_caller(const kiln_key *key)
{
    kiln_cache *cache = open_cache(KILN_CACHE_RETAIN_FAILURES);
    char reason[] = "no kiln is hot enough";
    CHECK(thrown_by(cache, key, build_in_vain, reason) == reason);
    CHECK(thrown_by(cache, key, build_in_vain, reason) == reason);
    CHECK(stats_of(cache).entries == 0);
    CHECK(stats_of(cache).reserved_bytes == 0);
    expect_build(cache, key);
    CHECK(stats_of(cache).entries == 1);
    kiln_cache_free(&cache);
}

/* With a disabled cache, each caller builds separately. */
static void test_exception_ends_an_own_build(const kiln_key *key)
{
    kiln_cache *cache = open_cache(KILN_CACHE_DISABLED);
    char reason[] = "the fire is out";
    CHECK(thrown_by(cache, key, build_in_vain, reason) == reason);
    expect_build(cache, key);
    kiln_cache_free(&cache);
}

struct Crowd {
    kiln_cache *cache;
    std::thread waiter;
};

/* Throws once another thread waits for this build. */
static kiln_status build_until_awaited(void *user, const kiln_key *key, kiln_built *, kiln_error *)
{
    Crowd *crowd = static_cast<Crowd *>(user);
    crowd->waiter = std::thread(expect_build, crowd->cache, key);
    while (stats_of(crowd->cache).waits == 0) {
        std::this_thread::yield();
    }
    throw std::runtime_error("awaited");
}

static void test_a_waiter_builds_after_an_exception(const kiln_key *key)
{
    Crowd crowd = {open_cache(0), {}};
    CHECK(thrown_by(crowd.cache, key, build_until_awaited, &crowd) == "awaited");
    crowd.waiter.join();
    CHECK(stats_of(crowd.cache).entries == 1);
    kiln_cache_free(&crowd.cache);
}

static int destroyed;

static void destroy_in_vain(void *, void *)
{
    destroyed++;
    throw std::runtime_error("indestructible");
}

static void listen_in_vain(void *, const kiln_event *)
{
    throw std::runtime_error("unheard");
}

static std::string thrown_by_clear(kiln_cache *cache)
{
    try {
        kiln_cache_clear(cache);
    } catch (const std::runtime_error &error) {
        return error.what();
    }
    return "";
}

static void expect_cancelable()
{
    int state = -1;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
    CHECK(state == PTHREAD_CANCEL_ENABLE);
}

/* Each object is destroyed once. A later call destroys the objects that the exception prevented
 * from being destroyed. */
static void test_objects_are_destroyed_after_an_exception(const kiln_key *key)
{
    kiln_cache *cache = open_cache(0, destroy_in_vain);
    kiln_key *other = make_key("of another");
    expect_build(cache, key);
    expect_build(cache, other);
    for (int i = 1; i <= 2; i++) {
        CHECK(thrown_by_clear(cache) == "indestructible");
        CHECK(destroyed == i);
        CHECK(stats_of(cache).lingering_entries == 2u - i);
        expect_cancelable();
    }
    CHECK(thrown_by_clear(cache) == "");
    kiln_key_release(&other);
    kiln_cache_free(&cache);
}

static void test_an_exception_may_leave_a_listener(const kiln_key *key)
{
    kiln_cache *cache = open_cache(0);
    uint64_t id = 0;
    expect_build(cache, key);
    CHECK(kiln_cache_listen(cache, KILN_EVENT_EVICTED, listen_in_vain, nullptr, &id) == KILN_OK);
    CHECK(thrown_by_clear(cache) == "unheard");
    expect_cancelable();
    kiln_cache_unlisten(cache, id);
    CHECK(stats_of(cache).lingering_entries == 1);
    kiln_cache_clear(cache);
    CHECK(stats_of(cache).lingering_entries == 0);
    kiln_cache_free(&cache);
}

int main()
{
    kiln_key *key = make_key();
    test_exception_reaches_the_caller(key);
    test_exception_ends_an_own_build(key);
    test_a_waiter_builds_after_an_exception(key);
    test_objects_are_destroyed_after_an_exception(key);
    test_an_exception_may_leave_a_listener(key);
    kiln_key_release(&key);
    return 0;
}
