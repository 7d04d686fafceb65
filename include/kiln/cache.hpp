/* SPDX-License-Identifier: Apache-2.0
 *
 * kiln/cache.h in C++11: objects of one type, each built once.
 *
 *     kiln::cache<program> programs;
 *     kiln::pin<program> found = programs.get_or_build(key, [&] {
 *         return kiln::built<program>(compile(source), source.size());
 *     });
 *     found->run();
 *
 * A build that throws kiln::error has failed, and all threads that wait for it get that error. Any
 * other exception reaches only the thread that built, and one of the waiting threads builds
 * instead. Without exceptions, a build that fails returns the status of the failure.
 *
 * Pins, watches and pending answers may outlive the cache; sections, tickets and listeners must
 * not.
 */
#ifndef KILN_CACHE_HPP
#define KILN_CACHE_HPP

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include <kiln/cache.h>
#include <kiln/key.hpp>
#include <kiln/status.hpp>

namespace kiln
{

/* What is evicted first: kiln_policy. */
enum class policy : std::uint32_t {
    cost = KILN_POLICY_COST,
    lru = KILN_POLICY_LRU,
    fifo = KILN_POLICY_FIFO,
    no_evict = KILN_POLICY_NO_EVICT,
    automatic = KILN_POLICY_AUTO
};

/* The answers to a reservation: kiln_outcome. */
enum class outcome : std::int32_t {
    none = 0, /* the wait timed out, or no ticket was wanted; without exceptions, also if the call
                 failed */
    hit = KILN_HIT,
    owner = KILN_OWNER,
    bypass = KILN_BYPASS,
    pending = KILN_PENDING /* only with KILN_RESERVE_PENDING */
};

/* How a ticket ends without an object: kiln_abandonment. */
enum class abandonment : std::int32_t {
    failed = KILN_ABANDON_FAILED,
    transient = KILN_ABANDON_TRANSIENT,
    unshareable = KILN_ABANDON_UNSHAREABLE
};

/* Reports whether an object is still in its cache. This costs one load. Does not keep the object
 * alive. A default-constructed watch is not live. */
class watch
{
  public:
    watch() = default;

    /* Takes ownership of the watch. */
    explicit watch(kiln_watch *taken) noexcept : held_(taken)
    {
    }

    /* Returns true if the object is still in the cache. */
    bool is_live() const noexcept
    {
        return kiln_watch_is_live(held_.get()) != 0;
    }

  private:
    detail::owner<kiln_watch, kiln_watch_free> held_;
};

/* A hold on an object, which lives until its last pin is destroyed. A copy is one more hold; an
 * empty pin holds nothing. */
template <typename T> class pin
{
  public:
    pin() noexcept : held_(nullptr)
    {
    }

    /* Takes ownership of the hold. */
    explicit pin(kiln_pin *taken) noexcept : held_(taken)
    {
    }

    pin(const pin &other) noexcept : held_(kiln_pin_retain(other.held_))
    {
    }

    pin(pin &&other) noexcept : held_(other.held_)
    {
        other.held_ = nullptr;
    }

    pin &operator=(pin other) noexcept
    {
        std::swap(held_, other.held_);
        return *this;
    }

    ~pin()
    {
        kiln_pin_release(&held_);
    }

    /* Returns the object; null if the pin is empty. */
    T *get() const noexcept
    {
        return static_cast<T *>(kiln_pin_object(held_));
    }

    typename std::add_lvalue_reference<T>::type operator*() const noexcept
    {
        return *get();
    }

    T *operator->() const noexcept
    {
        return get();
    }

    explicit operator bool() const noexcept
    {
        return held_ != nullptr;
    }

    /* Creates a watch on the object. */
    kiln::watch make_watch() const
    {
        kiln_watch *made = nullptr;
        detail::check(kiln_pin_watch(held_, &made));
        return kiln::watch(made);
    }

    /* Returns the C handle, which still belongs to this object. */
    kiln_pin *handle() const noexcept
    {
        return held_;
    }

  private:
    kiln_pin *held_;
};

/* The result of a build: an object, or the status of the failed build. */
template <typename T, typename Deleter = std::default_delete<T>> struct built {
    using pointer = std::unique_ptr<T, Deleter>;

    /* A result with an object.
     *
     * @taken  not null
     * @size   of the object, in bytes
     * @cost   of a miss, in nanoseconds; 0: the duration of the build */
    built(pointer taken, std::uint64_t size, std::uint64_t cost = 0) noexcept
        : object(std::move(taken)), bytes(size), cost_ns(cost), failure(status::success)
    {
    }

    /* A failure, for builds that don't throw. */
    explicit built(status code) noexcept : bytes(0), cost_ns(0), failure(code)
    {
    }

    pointer object;
    std::uint64_t bytes;
    std::uint64_t cost_ns;
    status failure;
};

/* The right and the duty to build one absent key. If a ticket is destroyed without an object, for
 * example by an exception, another waiting thread builds. */
template <typename T, typename Deleter = std::default_delete<T>> class ticket
{
  public:
    ticket() noexcept : held_(nullptr)
    {
    }

    /* Takes ownership of the ticket. */
    explicit ticket(kiln_ticket *taken) noexcept : held_(taken)
    {
    }

    ticket(ticket &&other) noexcept : held_(other.held_)
    {
        other.held_ = nullptr;
    }

    /* Abandons the ticket that this object had before. A waiting thread then builds instead. */
    ticket &operator=(ticket &&other) noexcept
    {
        ticket taken(std::move(other));
        std::swap(held_, taken.held_);
        return *this;
    }

    ticket(const ticket &) = delete;
    ticket &operator=(const ticket &) = delete;

    ~ticket()
    {
        abandon(abandonment::transient);
    }

    explicit operator bool() const noexcept
    {
        return held_ != nullptr;
    }

    /* Ends the ticket with the object that was built. The cache then owns the object. If @made has
     * no object, the ticket ends as a failure. */
    pin<T> fulfil(built<T, Deleter> made)
    {
        if (!made.object) {
            const status code =
                made.failure == status::success ? status::invalid_arguments : made.failure;
            abandon(abandonment::failed, code);
            detail::check(static_cast<kiln_status>(code));
            return pin<T>();
        }
        kiln_pin *held = nullptr;
        const kiln_status code =
            kiln_ticket_fulfil(&held_, made.object.get(), made.bytes, made.cost_ns, &held);
        if (code == KILN_OK) {
            made.object.release();
        }
        detail::check(code);
        return pin<T>(held);
    }

    /* Ends the ticket without an object. If @how is failed, waiters get @code and @text; if @text
     * is null, they get the text of the status. */
    void abandon(abandonment how, status code = status::build_failed,
                 const char *text = nullptr) noexcept
    {
        kiln_ticket_abandon(&held_, static_cast<kiln_abandonment>(how),
                            static_cast<kiln_status>(code), text);
    }

    /* Transfers the ticket to the calling thread, for a build that continues there. */
    status take()
    {
        return detail::check(kiln_ticket_take(held_));
    }

  private:
    kiln_ticket *held_;
};

namespace detail
{

/* An answer that is not known yet. Any thread may use it until it is destroyed. Destroying it does
 * not end the build. */
class pending_answer
{
  public:
    pending_answer() = default;

    /* Takes ownership of the answer. */
    explicit pending_answer(kiln_pending *taken) noexcept : held_(taken)
    {
    }

    explicit operator bool() const noexcept
    {
        return static_cast<bool>(held_);
    }

    /* Registers a function that is called once. If the answer is already known, it is called
     * immediately. Otherwise it is called when the answer becomes known, on a thread that ends a
     * build; or when this object is destroyed before that. If the function throws, the program
     * terminates. At most one function can be registered. */
    kiln::status notify(std::function<void()> on_answer)
    {
        std::unique_ptr<std::function<void()>> kept(
            new std::function<void()>(std::move(on_answer)));
        const kiln_status code = kiln_pending_notify(held_.get(), call, kept.get());
        if (code == KILN_OK) {
            kept.release(); /* call has freed it, or will */
        }
        return check(code);
    }

    /* Returns the C handle, which still belongs to this object. */
    kiln_pending *get() const noexcept
    {
        return held_.get();
    }

  private:
    static void call(void *user) noexcept
    {
        const std::unique_ptr<std::function<void()>> kept(
            static_cast<std::function<void()> *>(user));
        (*kept)();
    }

    owner<kiln_pending, kiln_pending_drop> held_;
};

} // namespace detail

template <typename T, typename Deleter> struct reservation;

/* The answer for a key that another caller is building. cache::reserve returns it with
 * KILN_RESERVE_PENDING. */
template <typename T, typename Deleter = std::default_delete<T>>
class pending : public detail::pending_answer
{
  public:
    using detail::pending_answer::pending_answer;

    pending() = default;

    /* Waits for the answer: hit, owner or bypass. Owner means that the other build ended without an
     * object, so this caller must build. Returns none if the wait timed out; the answer is then
     * still pending.
     *
     * @wait_ns  how long to wait; 0: without limit; or KILN_NO_WAIT */
    reservation<T, Deleter> wait(std::uint64_t wait_ns = 0) const
    {
        kiln_reservation answer = kiln_reservation();
        kiln_error described = params<kiln_error>();
        detail::check(kiln_pending_wait(get(), wait_ns, &answer, &described), &described);
        return reservation<T, Deleter>(answer);
    }
};

/* An answer. The outcome hit comes with a pin, owner with a ticket, and pending with a pending
 * answer. */
template <typename T, typename Deleter = std::default_delete<T>> struct reservation {
    /* Takes ownership of what the answer has. */
    explicit reservation(const kiln_reservation &taken) noexcept
        : outcome(static_cast<kiln::outcome>(taken.outcome)), found(taken.pin),
          ticket(taken.ticket), pending(taken.pending)
    {
    }

    kiln::outcome outcome;
    pin<T> found;
    kiln::ticket<T, Deleter> ticket;
    kiln::pending<T, Deleter> pending;
};

/* Passes the events of a cache to a function until the listener is destroyed. */
class listener
{
  public:
    /* Starts listening.
     *
     * @cache     must outlive the listener
     * @events    KILN_EVENT_… or-ed
     * @on_event  called for each event, from any thread; if it throws, the program terminates */
    listener(kiln_cache *cache, std::uint32_t events,
             std::function<void(const kiln_event &)> on_event)
        : cache_(cache), on_event_(std::move(on_event)), id_(0)
    {
        detail::check(kiln_cache_listen(cache_, events, notify, this, &id_));
    }

    listener(const listener &) = delete;
    listener &operator=(const listener &) = delete;

    /* Stops listening. When the destructor returns, the function is not running on another thread.
     */
    ~listener()
    {
        kiln_cache_unlisten(cache_, id_);
    }

  private:
    static void notify(void *self, const kiln_event *event) noexcept
    {
        static_cast<listener *>(self)->on_event_(*event);
    }

    kiln_cache *cache_;
    std::function<void(const kiln_event &)> on_event_;
    std::uint64_t id_;
};

/* A cache of live objects of one type. Any thread may use it. Deleter destroys an object, and has
 * no state. */
template <typename T, typename Deleter = std::default_delete<T>> class cache
{
  public:
    using built_type = built<T, Deleter>;
    using pin_type = pin<T>;
    using reservation_type = reservation<T, Deleter>;

    /* Creates a cache.
     *
     * @bounds  the constructor overwrites the members destroy and user */
    explicit cache(kiln_cache_params bounds = params<kiln_cache_params>())
    {
        bounds.destroy = destroy;
        bounds.user = nullptr;
        detail::check(kiln_cache_new(&bounds, cache_.address()));
    }

    /* ---- build once ---- */

    /* Finds an object, or builds it once while later callers wait.
     *
     * @build  called at most once, without arguments; returns a built_type, or throws */
    template <typename Build> pin<T> get_or_build(const key &wanted, Build build)
    {
        return obtain(wanted, build, params<kiln_reserve_params>());
    }

    /* Does the same as get_or_build, with options. The pin is empty if the wait timed
     * out.
     *
     * @options     the expected size, how long to wait for another caller, and the group
     * @ret_served  [out] how the object was obtained; may be null */
    template <typename Build>
    pin<T> obtain(const key &wanted, Build build, const kiln_reserve_params &options,
                  kiln_served *ret_served = nullptr)
    {
        call<Build> made = {build, std::exception_ptr()};
        kiln_error described = params<kiln_error>();
        kiln_pin *held = nullptr;
        const kiln_status code = kiln_cache_obtain(cache_.get(), wanted.get(), &options, run<Build>,
                                                   &made, &held, ret_served, &described);
#ifndef KILN_NO_EXCEPTIONS
        if (made.thrown) {
            std::rethrow_exception(made.thrown);
        }
#endif
        detail::check(code, &described);
        return pin<T>(held);
    }

    /* Asks for a key. The answer is hit, owner or bypass, or none if the wait timed out.
     *
     * @bytes    expected size, reserved immediately; 0: not known yet
     * @wait_ns  how long to wait for a build by another caller; 0: without limit; or KILN_NO_WAIT
     * @group    the owner of the object, for remove_group; 0: none */
    reservation<T, Deleter> reserve(const key &wanted, std::uint64_t bytes = 0,
                                    std::uint64_t wait_ns = 0, std::uint64_t group = 0)
    {
        kiln_reserve_params asked = params<kiln_reserve_params>();
        asked.bytes = bytes;
        asked.wait_ns = wait_ns;
        asked.group = group;
        return reserve(wanted, asked);
    }

    /* Does the same as the other reserve, with flags. With KILN_RESERVE_PENDING, the call does not
     * wait for builds, and the answer can be pending. With KILN_RESERVE_NO_TICKET, the answer is
     * none if the key is absent. */
    reservation<T, Deleter> reserve(const key &wanted, const kiln_reserve_params &options)
    {
        kiln_reservation answer = kiln_reservation();
        kiln_error described = params<kiln_error>();
        detail::check(kiln_cache_reserve(cache_.get(), wanted.get(), &options, &answer, &described),
                      &described);
        return reservation<T, Deleter>(answer);
    }

    /* ---- look up ---- */

    /* Returns a hold on an object, or an empty pin if the key is not ready. Never waits for a
     * build. */
    pin<T> find(const key &wanted) const
    {
        kiln_pin *held = nullptr;
        detail::check(kiln_cache_pin(cache_.get(), wanted.get(), &held));
        return pin<T>(held);
    }

    /* Looks up several keys, as kiln_cache_pin_many does.
     *
     * @first, @last  iterators over keys
     * @found         an output iterator, which receives a pin<T> for each key, in the order of the
     *                keys; the pin is empty if the key is not ready
     * Returns the output iterator past the last pin. */
    template <typename Keys, typename Output>
    Output find_many(Keys first, Keys last, Output found) const
    {
        while (first != last) {
            const kiln_key *wanted[at_once];
            kiln_pin *held[at_once];
            const std::size_t count = take(first, last, wanted);
            detail::check(kiln_cache_pin_many(cache_.get(), wanted, count, held));
            pin<T> pins[at_once];
            for (std::size_t i = 0; i < count; i++) {
                pins[i] = pin<T>(held[i]);
            }
            for (std::size_t i = 0; i < count; i++) {
                *found = std::move(pins[i]);
                ++found;
            }
        }
        return found;
    }

    /* A read section. An object that is peeked at inside a section stays valid until the section
     * ends. */
    class section
    {
      public:
        explicit section(const cache &in) noexcept
        {
            kiln_section_enter(in.get(), &entered_);
        }

        section(const section &) = delete;
        section &operator=(const section &) = delete;

        ~section()
        {
            kiln_section_leave(&entered_);
        }

        /* Returns the object of a key that is ready, or null. Takes no hold. */
        T *peek(const key &wanted) const noexcept
        {
            return static_cast<T *>(kiln_cache_peek(&entered_, wanted.get()));
        }

        /* Peeks at several keys, as kiln_cache_peek_many does. @found receives a T * for each key,
         * which is null if the key is not ready. The iterators are as in find_many. */
        template <typename Keys, typename Output>
        Output peek_many(Keys first, Keys last, Output found) const
        {
            while (first != last) {
                const kiln_key *wanted[at_once];
                void *objects[at_once];
                const std::size_t count = take(first, last, wanted);
                kiln_cache_peek_many(&entered_, wanted, count, objects);
                for (std::size_t i = 0; i < count; i++) {
                    *found = static_cast<T *>(objects[i]);
                    ++found;
                }
            }
            return found;
        }

      private:
        kiln_section entered_;
    };

    /* Lists the objects in the cache, as kiln_cache_visit does.
     *
     * @visit  called with each object, as a const T &, and with its kiln_resident; may use the
     *         cache; returns false to end the listing. An exception also ends it, and reaches the
     *         caller */
    template <typename Visit> status visit(Visit visit) const
    {
        visitor<Visit> with = {visit, std::exception_ptr()};
        const kiln_status code = kiln_cache_visit(cache_.get(), show<Visit>, &with);
#ifndef KILN_NO_EXCEPTIONS
        if (with.thrown) {
            std::rethrow_exception(with.thrown);
        }
#endif
        return detail::check(code);
    }

    /* ---- control ---- */

    /* Sets the cost of future misses of this key. Returns miss if the key is not ready. */
    status set_cost(const key &wanted, std::uint64_t cost_ns)
    {
        return detail::check(kiln_cache_set_cost(cache_.get(), wanted.get(), cost_ns));
    }

    /* Changes the capacity. Each limit may be KILN_UNLIMITED; if either limit is 0, the call clears
     * and disables the cache. */
    status set_capacity(std::uint64_t max_bytes, std::uint64_t max_entries)
    {
        return detail::check(kiln_cache_set_capacity(cache_.get(), max_bytes, max_entries));
    }

    /* Does the same as set_capacity, and also removes everything in the cache. */
    status set_capacity_flush(std::uint64_t max_bytes, std::uint64_t max_entries)
    {
        return detail::check(kiln_cache_set_capacity_flush(cache_.get(), max_bytes, max_entries));
    }

    /* Changes the policy. Evicts nothing. */
    status set_policy(policy chosen)
    {
        return detail::check(
            kiln_cache_set_policy(cache_.get(), static_cast<std::uint32_t>(chosen)));
    }

    /* Evicts objects without pins until @bytes bytes were freed. Returns how many bytes were freed.
     */
    std::uint64_t evict_bytes(std::uint64_t bytes)
    {
        std::uint64_t freed = 0;
        detail::check(kiln_cache_evict_bytes(cache_.get(), bytes, &freed));
        return freed;
    }

    /* Removes a key. Returns miss if the key is absent or building. */
    status remove(const key &wanted)
    {
        return detail::check(kiln_cache_remove(cache_.get(), wanted.get()));
    }

    /* Removes a group. Returns the number of keys removed. */
    std::size_t remove_group(std::uint64_t group) noexcept
    {
        return kiln_cache_remove_group(cache_.get(), group);
    }

    /* Removes everything. */
    void clear() noexcept
    {
        kiln_cache_clear(cache_.get());
    }

    /* Destroys all objects that were removed from the cache and that nothing can reach any more.
     * Returns how many it destroyed. */
    std::size_t collect() noexcept
    {
        return kiln_cache_collect(cache_.get());
    }

    /* Returns the counters. */
    kiln_cache_stats stats() const
    {
        kiln_cache_stats counted = params<kiln_cache_stats>();
        detail::check(kiln_cache_get_stats(cache_.get(), &counted));
        return counted;
    }

    /* Returns the C handle, which still belongs to this object. A listener needs it. */
    kiln_cache *get() const noexcept
    {
        return cache_.get();
    }

  private:
    /* The number of keys that the engine looks up at a time. */
    static constexpr std::size_t at_once = 16;

    /* Takes keys from a range until the range ends or @wanted is full. Returns the number of keys.
     */
    template <typename Keys>
    static std::size_t take(Keys &first, Keys last, const kiln_key *(&wanted)[at_once])
    {
        std::size_t count = 0;
        for (; count < at_once && first != last; ++first) {
            wanted[count++] = first->get();
        }
        return count;
    }

    template <typename Build> struct call {
        Build &build;
        std::exception_ptr thrown;
    };

    template <typename Visit> struct visitor {
        Visit &visit;
        std::exception_ptr thrown;
    };

    template <typename Visit> static int show(void *user, const kiln_resident *resident) noexcept
    {
        visitor<Visit> *with = static_cast<visitor<Visit> *>(user);
        const T &object = *static_cast<const T *>(resident->object);
#ifdef KILN_NO_EXCEPTIONS
        return with->visit(object, *resident) ? 1 : 0;
#else
        try {
            return with->visit(object, *resident) ? 1 : 0;
        } catch (...) {
            with->thrown = std::current_exception();
            return 0;
        }
#endif
    }

    static void destroy(void *, void *object)
    {
        Deleter()(static_cast<T *>(object));
    }

    static kiln_status fill(built_type made, kiln_built *ret_built) noexcept
    {
        ret_built->object = made.object.release();
        ret_built->bytes = made.bytes;
        ret_built->cost_ns = made.cost_ns;
        return ret_built->object ? KILN_OK : failure_of(made.failure);
    }

    /* A failure whose status is not an error counts as a failed build. */
    static kiln_status failure_of(status given) noexcept
    {
        const kiln_status code = static_cast<kiln_status>(given);
        return code < 0 ? code : KILN_E_BUILD;
    }

    /* Runs a build. If an exception other than kiln::error passes through the cache, the cache ends
     * the flight. */
    template <typename Build>
    static kiln_status run(void *user, const kiln_key *, kiln_built *ret_built,
                           kiln_error *described)
    {
        call<Build> *made = static_cast<call<Build> *>(user);
#ifdef KILN_NO_EXCEPTIONS
        (void)described;
        return fill(made->build(), ret_built);
#else
        try {
            return fill(made->build(), ret_built);
        } catch (const error &failed) {
            made->thrown = std::current_exception();
            *described = failed.described();
            return failure_of(failed.status());
        }
#endif
    }

    detail::owner<kiln_cache, kiln_cache_free> cache_;
};

} // namespace kiln

#endif
