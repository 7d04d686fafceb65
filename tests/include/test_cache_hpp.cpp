/* SPDX-License-Identifier: Apache-2.0
 *
 * cache.hpp: objects that are built once, and the exceptions of a build. Also compiled without
 * exceptions. A build then returns the status of its failure.
 */
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <kiln/cache.hpp>

#define CHECK(condition) check(static_cast<bool>(condition), #condition, __LINE__)

static void check(bool holds, const char *condition, int line)
{
    if (!holds) {
        std::fprintf(stderr, "line %d: %s\n", line, condition);
        std::exit(1);
    }
}

namespace
{

std::atomic<int> alive(0);

struct program {
    explicit program(std::string of) : source(std::move(of))
    {
        alive++;
    }

    ~program()
    {
        alive--;
    }

    program(const program &) = delete;
    program &operator=(const program &) = delete;

    std::string source;
};

using programs = kiln::cache<program>;
using kiln::outcome;
using kiln::status;

kiln::built<program> build(const std::string &source)
{
    return kiln::built<program>(std::unique_ptr<program>(new program(source)), 100);
}

kiln::key key_of(const std::string &source)
{
    return kiln::key_builder().add("source", source).finish();
}

void test_an_object_is_built_once()
{
    programs cache;
    int builds = 0;
    const auto count = [&builds] {
        builds++;
        return build("a");
    };
    const kiln::pin<program> first = cache.get_or_build(key_of("a"), count);
    const kiln::pin<program> again = cache.get_or_build(key_of("a"), count);
    CHECK(builds == 1 && first.get() == again.get() && first->source == "a");
    CHECK((*first).source == "a" && cache.find(key_of("a")).get() == first.get());
    CHECK(!cache.find(key_of("b")));
    CHECK(cache.stats().entries == 1 && cache.stats().bytes == 100);
}

void test_obtaining_has_options_and_says_how()
{
    programs cache;
    kiln_reserve_params options = kiln::params<kiln_reserve_params>();
    options.group = 4;
    kiln_served served = KILN_SERVED_BYPASSED;
    const auto make = [] { return build("a"); };
    CHECK(cache.obtain(key_of("a"), make, options, &served) && served == KILN_SERVED_BUILT);
    CHECK(cache.obtain(key_of("a"), make, options, &served) && served == KILN_SERVED_HIT);
    CHECK(cache.remove_group(4) == 1);
    auto owned = cache.reserve(key_of("a"));
    options.wait_ns = KILN_NO_WAIT;
    CHECK(!cache.obtain(key_of("a"), make, options, &served));
}

/* Returns options with flags. */
kiln_reserve_params with_flags(std::uint32_t flags)
{
    kiln_reserve_params options = kiln::params<kiln_reserve_params>();
    options.flags = flags;
    return options;
}

void test_a_pending_answer()
{
    programs cache;
    auto owned = cache.reserve(key_of("a"));
    CHECK(owned.outcome == outcome::owner && !owned.pending);
    auto answer = cache.reserve(key_of("a"), with_flags(KILN_RESERVE_PENDING));
    CHECK(answer.outcome == outcome::pending && answer.pending && !answer.found && !answer.ticket);
    CHECK(answer.pending.wait(KILN_NO_WAIT).outcome == outcome::none);
    int notices = 0;
    CHECK(answer.pending.notify([&notices] { notices++; }) == status::success && notices == 0);
    CHECK(owned.ticket.fulfil(build("a")) && notices == 1);
    const auto got = answer.pending.wait();
    CHECK(got.outcome == outcome::hit && got.found->source == "a");
    CHECK(answer.pending.notify([&notices] { notices++; }) == status::success && notices == 2);
}

/* Dropping a pending answer calls its function once, and the build continues. */
void test_a_pending_answer_is_dropped()
{
    programs cache;
    int notices = 0;
    auto owned = cache.reserve(key_of("a"));
    {
        auto answer = cache.reserve(key_of("a"), with_flags(KILN_RESERVE_PENDING));
        CHECK(answer.pending.notify([&notices] { notices++; }) == status::success);
        const kiln::pending<program> moved(std::move(answer.pending));
        CHECK(moved && !answer.pending && notices == 0);
    }
    CHECK(notices == 1);
    CHECK(owned.ticket.fulfil(build("a")) && cache.find(key_of("a")));
}

void test_a_pending_answer_may_become_a_ticket()
{
    programs cache;
    auto owned = cache.reserve(key_of("a"));
    const auto answer = cache.reserve(key_of("a"), with_flags(KILN_RESERVE_PENDING));
    owned.ticket = kiln::ticket<program>();
    auto next = answer.pending.wait();
    CHECK(next.outcome == outcome::owner && next.ticket.fulfil(build("a")));
}

void test_no_ticket_is_issued()
{
    programs cache;
    CHECK(cache.reserve(key_of("a"), with_flags(KILN_RESERVE_NO_TICKET)).outcome == outcome::none);
    CHECK(cache.get_or_build(key_of("a"), [] { return build("a"); }));
    CHECK(cache.reserve(key_of("a"), with_flags(KILN_RESERVE_NO_TICKET)).outcome == outcome::hit);
}

void test_what_is_resident_is_listed()
{
    programs cache;
    for (const char *source : {"a", "bb", "ccc"}) {
        cache.get_or_build(key_of(source), [source] { return build(source); });
    }
    std::string seen(3, ' ');
    CHECK(cache.visit([&](const program &object, const kiln_resident &described) {
        const std::size_t length = object.source.size();
        seen[length - 1] = object.source[0];
        CHECK(described.bytes == 100 && &object == described.object);
        CHECK(cache.find(key_of(object.source)).get() == &object);
        return true;
    }) == status::success);
    CHECK(seen == "abc");
    int count = 0;
    cache.visit([&count](const program &, const kiln_resident &) { return ++count < 2; });
    CHECK(count == 2);
#ifndef KILN_NO_EXCEPTIONS
    std::string thrown;
    try {
        cache.visit([&count](const program &, const kiln_resident &) -> bool {
            count++;
            throw std::runtime_error("seen enough");
        });
    } catch (const std::runtime_error &failed) {
        thrown = failed.what();
    }
    CHECK(thrown == "seen enough" && count == 3);
#endif
    cache.clear();
    CHECK(alive == 0);
}

void test_pins_outlive_the_cache()
{
    kiln::pin<program> kept;
    kiln::watch watch;
    CHECK(!kept && kept.get() == nullptr && !watch.is_live());
    {
        programs cache;
        kept = cache.get_or_build(key_of("a"), [] { return build("a"); });
        watch = kept.make_watch();
        CHECK(watch.is_live());
        const kiln::pin<program> copy(kept);
        CHECK(copy.get() == kept.get());
    }
    CHECK(!watch.is_live() && kept->source == "a" && alive == 1);
    kiln::pin<program> moved(std::move(kept));
    CHECK(!kept && moved);
    moved = kiln::pin<program>();
    CHECK(alive == 0);
    static_assert(std::is_nothrow_move_constructible<kiln::pin<program>>::value, "moves hold");
    static_assert(!std::is_copy_constructible<programs>::value, "a cache has one owner");
}

/* There are more keys than one look-up handles at a time, and every third key is not ready. */
void test_several_keys_at_once()
{
    programs cache;
    std::vector<kiln::key> keys;
    for (int i = 0; i < 40; i++) {
        const std::string source = std::to_string(i);
        keys.push_back(key_of(source));
        if (i % 3 != 0) {
            cache.get_or_build(keys.back(), [&source] { return build(source); });
        }
    }
    std::vector<kiln::pin<program>> pins;
    cache.find_many(keys.begin(), keys.end(), std::back_inserter(pins));
    program *seen[40];
    const programs::section section(cache);
    CHECK(section.peek_many(keys.begin(), keys.end(), seen) == seen + 40);
    CHECK(pins.size() == 40);
    for (int i = 0; i < 40; i++) {
        CHECK(pins[i].get() == seen[i]);
        CHECK(i % 3 == 0 ? seen[i] == nullptr : seen[i]->source == std::to_string(i));
    }
    CHECK(section.peek_many(keys.begin(), keys.begin(), seen) == seen);
}

void test_sections_peek()
{
    programs cache;
    cache.get_or_build(key_of("a"), [] { return build("a"); });
    const programs::section section(cache);
    const program *seen = section.peek(key_of("a"));
    CHECK(seen && section.peek(key_of("b")) == nullptr);
    cache.clear();
    CHECK(seen->source == "a" && section.peek(key_of("a")) == nullptr);
    CHECK(cache.collect() == 0 && alive == 1);
}

void test_a_ticket_is_fulfilled()
{
    programs cache;
    auto answer = cache.reserve(key_of("a"), 100);
    CHECK(answer.outcome == outcome::owner && answer.ticket && !answer.found);
    CHECK(cache.stats().reserved_bytes == 100);
    CHECK(cache.reserve(key_of("b"), 1).outcome == outcome::owner); /* and is abandoned */
    CHECK(answer.ticket.take() == status::success);
    const kiln::pin<program> made = answer.ticket.fulfil(build("a"));
    CHECK(made->source == "a" && !answer.ticket);
    auto next = cache.reserve(key_of("a"));
    CHECK(next.outcome == outcome::hit && next.found.get() == made.get());
    CHECK(cache.reserve(key_of("b"), 1).outcome == outcome::owner);
    cache.set_capacity(0, 0);
    CHECK(cache.reserve(key_of("c")).outcome == outcome::bypass);
}

void test_a_wait_may_have_a_deadline()
{
    programs cache;
    auto answer = cache.reserve(key_of("a"));
    std::thread other(
        [&cache] { CHECK(cache.reserve(key_of("a"), 0, KILN_NO_WAIT).outcome == outcome::none); });
    other.join();
    answer.ticket.abandon(kiln::abandonment::unshareable);
    CHECK(!answer.ticket);
}

void test_it_is_governed()
{
    programs cache;
    for (const char *source : {"a", "b", "c"}) {
        cache.get_or_build(key_of(source), [source] { return build(source); });
    }
    CHECK(cache.set_policy(kiln::policy::lru) == status::success);
    CHECK(cache.set_cost(key_of("a"), 7) == status::success);
    CHECK(cache.set_cost(key_of("d"), 7) == status::miss);
    CHECK(cache.set_capacity(200, KILN_UNLIMITED) == status::success);
    CHECK(!cache.find(key_of("a")) && cache.find(key_of("c")) && alive == 2);
    CHECK(cache.remove(key_of("b")) == status::success);
    CHECK(cache.remove(key_of("b")) == status::miss);
    CHECK(cache.evict_bytes(1) == 100 && alive == 0);
    cache.reserve(key_of("e"), 100, 0, 5).ticket.fulfil(build("e"));
    CHECK(cache.remove_group(5) == 1 && alive == 0);
}

void test_listeners_are_called_until_removed()
{
    programs cache;
    int evictions = 0;
    {
        const kiln::listener listener(cache.get(), KILN_EVENT_EVICTED,
                                      [&evictions](const kiln_event &event) {
                                          evictions += event.reason == KILN_EVICTED_CLEARED;
                                      });
        cache.get_or_build(key_of("a"), [] { return build("a"); });
        cache.clear();
    }
    cache.get_or_build(key_of("a"), [] { return build("a"); });
    cache.clear();
    CHECK(evictions == 1);
}

struct freer {
    void operator()(void *bytes) const
    {
        std::free(bytes);
        alive--;
    }
};

void test_objects_are_destroyed_by_their_deleter()
{
    kiln::cache<void, freer> cache;
    alive++;
    const auto made = cache.get_or_build(key_of("a"), [] {
        return kiln::built<void, freer>(std::unique_ptr<void, freer>(std::malloc(8)), 8);
    });
    CHECK(made.get() != nullptr);
    cache.clear();
    CHECK(alive == 1);
}

#ifndef KILN_NO_EXCEPTIONS

/* Returns once @count threads wait in the cache. */
void await_waits(const programs &cache, std::uint64_t wanted)
{
    while (cache.stats().waits < wanted) {
        std::this_thread::yield();
    }
}

/* A thread waits for a build that throws, and can build the key itself. Returns what this thread
 * gets. */
template <typename Throw> std::string failure_of_waiter(Throw throw_it, int *ret_builds)
{
    programs cache;
    std::atomic<bool> begun(false);
    std::string got;
    std::thread waiter([&] {
        while (!begun) {
            std::this_thread::yield();
        }
        try {
            got = cache
                      .get_or_build(key_of("a"),
                                    [ret_builds] {
                                        ++*ret_builds;
                                        return build("built by the waiter");
                                    })
                      ->source;
        } catch (const kiln::error &failed) {
            got = failed.what();
            CHECK(failed.status() == status::build_failed);
        }
    });
    std::string thrown;
    try {
        cache.get_or_build(key_of("a"), [&]() -> kiln::built<program> {
            begun = true;
            await_waits(cache, 1);
            throw_it();
            return kiln::built<program>(status::build_failed);
        });
    } catch (const std::exception &failed) {
        thrown = failed.what();
    }
    waiter.join();
    CHECK(thrown == "the reason");
    return got;
}

void test_a_failure_is_reported_to_all_waiters()
{
    int builds = 0;
    CHECK(failure_of_waiter([] { throw kiln::error(status::build_failed, "the reason"); },
                            &builds) == "the reason");
    CHECK(builds == 0);
}

void test_a_foreign_exception_reaches_only_its_thread()
{
    int builds = 0;
    CHECK(failure_of_waiter([] { throw std::runtime_error("the reason"); }, &builds) ==
          "built by the waiter");
    CHECK(builds == 1);
}

struct compile_error : kiln::error {
    explicit compile_error(int at) : error(status::build_failed, "it does not compile"), line(at)
    {
    }

    int line;
};

void test_builder_gets_the_exception()
{
    programs cache;
    int line = 0;
    try {
        cache.get_or_build(key_of("a"), []() -> kiln::built<program> { throw compile_error(7); });
    } catch (const compile_error &failed) {
        line = failed.line;
    }
    CHECK(line == 7 && cache.get_or_build(key_of("a"), [] { return build("a"); }));
}

void test_failures_may_be_kept()
{
    kiln_cache_params bounds = kiln::params<kiln_cache_params>();
    bounds.flags = KILN_CACHE_RETAIN_FAILURES;
    programs cache(bounds);
    for (int i = 0; i < 2; i++) {
        std::string said;
        try {
            cache.get_or_build(key_of("a"), [i]() -> kiln::built<program> {
                CHECK(i == 0);
                throw kiln::error(status::build_failed, "once");
            });
        } catch (const kiln::error &failed) {
            said = failed.what();
        }
        CHECK(said == "once");
    }
}

void test_an_exception_abandons_the_ticket()
{
    programs cache;
    try {
        const auto answer = cache.reserve(key_of("a"));
        CHECK(answer.outcome == outcome::owner);
        throw std::runtime_error("lost");
    } catch (const std::runtime_error &) {
    }
    /* A lost ticket counts as a failure. The failure is not kept: the next caller is the owner. */
    CHECK(cache.stats().failures == 1);
    CHECK(cache.reserve(key_of("a"), 0, KILN_NO_WAIT).outcome == outcome::owner);
}

/* A build that returns success but no object has failed. */
void test_a_build_without_an_object_has_failed()
{
    programs cache;
    bool has_failed = false;
    try {
        cache.get_or_build(key_of("a"), [] { return kiln::built<program>(status::success); });
    } catch (const kiln::error &failed) {
        has_failed = failed.status() == status::build_failed;
    }
    CHECK(has_failed);
}

void test_misuse_is_thrown()
{
    programs cache;
    bool is_refused = false;
    try {
        cache.set_policy(static_cast<kiln::policy>(99));
    } catch (const kiln::error &failed) {
        is_refused = failed.status() == status::invalid_arguments;
    }
    CHECK(is_refused);
}

#endif

/* A ticket that is replaced is abandoned at once, and not at the end of the new one. */
void test_assigning_to_a_ticket_abandons_it()
{
    programs cache;
    auto a = cache.reserve(key_of("a"));
    auto b = cache.reserve(key_of("b"));
    CHECK(a.outcome == outcome::owner && b.outcome == outcome::owner);
    a.ticket = std::move(b.ticket);
    CHECK(a.ticket && !b.ticket);
    CHECK(cache.reserve(key_of("a"), 0, KILN_NO_WAIT).outcome == outcome::owner);
    auto &itself = a.ticket;
    a.ticket = std::move(itself);
    CHECK(a.ticket.fulfil({std::unique_ptr<program>(new program("b")), 1}));
    CHECK(cache.find(key_of("b")));
}

void test_a_build_may_return_its_failure()
{
    programs cache;
#ifdef KILN_NO_EXCEPTIONS
    CHECK(!cache.get_or_build(key_of("a"),
                              [] { return kiln::built<program>(status::build_failed); }));
    CHECK(cache.set_policy(static_cast<kiln::policy>(99)) == status::invalid_arguments);
#else
    status got = status::success;
    try {
        cache.get_or_build(key_of("a"), [] { return kiln::built<program>(status::refused); });
    } catch (const kiln::error &failed) {
        got = failed.status();
    }
    CHECK(got == status::refused);
#endif
    CHECK(cache.stats().failures == 1 && cache.stats().entries == 0);
}

} // namespace

int main()
{
    test_an_object_is_built_once();
    test_obtaining_has_options_and_says_how();
    test_a_pending_answer();
    test_a_pending_answer_is_dropped();
    test_a_pending_answer_may_become_a_ticket();
    test_no_ticket_is_issued();
    test_what_is_resident_is_listed();
    test_pins_outlive_the_cache();
    test_several_keys_at_once();
    test_sections_peek();
    test_a_ticket_is_fulfilled();
    test_a_wait_may_have_a_deadline();
    test_it_is_governed();
    test_listeners_are_called_until_removed();
    test_objects_are_destroyed_by_their_deleter();
    test_assigning_to_a_ticket_abandons_it();
    test_a_build_may_return_its_failure();
#ifndef KILN_NO_EXCEPTIONS
    test_a_failure_is_reported_to_all_waiters();
    test_a_foreign_exception_reaches_only_its_thread();
    test_builder_gets_the_exception();
    test_failures_may_be_kept();
    test_an_exception_abandons_the_ticket();
    test_a_build_without_an_object_has_failed();
    test_misuse_is_thrown();
#endif
    CHECK(alive == 0);
    return 0;
}
