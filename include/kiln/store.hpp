/* SPDX-License-Identifier: Apache-2.0
 *
 * kiln/store.h and kiln/store_tools.h in C++11: entries that outlive the process.
 *
 *     kiln::store store("/var/cache/mine");
 *     if (kiln::entry found = store.get(key)) {
 *         use(found.payload());
 *     }
 *
 * A store fails nobody: what it can't give is a miss, and what it can't take is told by a status.
 * Only misuse and want of memory are thrown, and what prevents opening.
 */
#ifndef KILN_STORE_HPP
#define KILN_STORE_HPP

#include <cstdint>
#include <exception>
#include <string>

#include <kiln/entry.hpp>
#include <kiln/key.hpp>
#include <kiln/status.hpp>
#include <kiln/store.h>
#include <kiln/store_tools.h>

namespace kiln
{

namespace detail
{

/* Throws what is the caller's fault, or want of memory; hands on all else. */
inline status check_store(kiln_status code)
{
    return code == KILN_E_INVALID || code == KILN_E_NO_MEMORY ? check(code)
                                                              : static_cast<status>(code);
}

} // namespace detail

/* The right to build one key, across processes; empty where it could not be had. */
using lease = detail::owner<kiln_lease, kiln_lease_release>;

/* One stored item, as a walk finds it; valid during the call. */
class item
{
  public:
    explicit item(kiln_item *found) noexcept : found_(found)
    {
    }

    /* What the entry's head says; its texts live as long as the item. */
    kiln_item_info info() const
    {
        kiln_item_info said = params<kiln_item_info>();
        detail::check(kiln_item_get_info(found_, &said));
        return said;
    }

    /* All of it, verified; empty: damaged, or gone. */
    entry read() const
    {
        kiln_entry *found = nullptr;
        detail::check_store(kiln_item_read(found_, &found));
        return entry(found);
    }

    /* success; miss: gone, or replaced meanwhile; … */
    status remove() const
    {
        return detail::check_store(kiln_item_remove(found_));
    }

  private:
    kiln_item *found_;
};

/* Any thread may use it. An empty one is no store: gets miss, puts are dropped. */
class store
{
  public:
    store() = default;

    /* @location  a directory, a URL, a pack, or several of these with '|' between
     * Without exceptions: empty where it can't be opened; open says why. */
    explicit store(const std::string &location,
                   const kiln_store_params &chosen = params<kiln_store_params>())
    {
        open(location, chosen);
    }

    /* Closes what was open, and opens another one. */
    status open(const std::string &location,
                const kiln_store_params &chosen = params<kiln_store_params>(),
                kiln_error *ret_error = nullptr)
    {
        kiln_error described = params<kiln_error>();
        kiln_store *opened = nullptr;
        const kiln_status code =
            detail::is_text(location)
                ? kiln_store_open(location.c_str(), &chosen, &opened, &described)
                : KILN_E_INVALID;
        store_ = owner(opened);
        if (code < 0 && ret_error) {
            *ret_error =
                error(described.status == code ? described : error(code).described()).described();
        }
        return detail::check(code, &described);
    }

    explicit operator bool() const noexcept
    {
        return static_cast<bool>(store_);
    }

    /* What is there for a key, verified; empty: nothing that could be used. */
    entry get(const key &wanted, status *ret_status = nullptr) const
    {
        kiln_entry *found = nullptr;
        const kiln_status code = kiln_store_get(store_.get(), wanted.get(), &found);
        if (ret_status) {
            *ret_status = static_cast<status>(code);
        }
        detail::check_store(code);
        return entry(found);
    }

    /* Publishes an entry under its own key, whole or not at all. */
    status put(const entry &kept) const
    {
        return detail::check_store(kiln_store_put(store_.get(), kept.get()));
    }

    /* success; miss; … */
    status remove(const key &wanted) const
    {
        return detail::check_store(kiln_store_remove(store_.get(), wanted.get()));
    }

    /* Whether a get would find a file, without reading it. */
    bool contains(const key &wanted) const
    {
        return detail::check_store(kiln_store_contains(store_.get(), wanted.get())) ==
               status::success;
    }

    /* Takes the right to build a key. Empty: another has it for longer than @wait_ns, or there are
     * no leases here: build without. */
    kiln::lease take_lease(const key &wanted, std::uint64_t wait_ns) const
    {
        kiln_lease *held = nullptr;
        detail::check_store(kiln_store_lease(store_.get(), wanted.get(), wait_ns, &held));
        return kiln::lease(held);
    }

    /* Walks all items.
     *
     * @visit  called with each item; returns whether the walk goes on. What it throws ends it */
    template <typename Visit> status each(Visit visit) const
    {
        call<Visit> made = {visit, std::exception_ptr()};
        const kiln_status code = kiln_store_each(store_.get(), run<Visit>, &made);
#ifndef KILN_NO_EXCEPTIONS
        if (made.thrown) {
            std::rethrow_exception(made.thrown);
        }
#endif
        return detail::check_store(code);
    }

    /* Removes what the parameters name, in the order of the store's policy. */
    status trim(const kiln_trim_params &chosen, kiln_trim_report *ret_report = nullptr) const
    {
        return detail::check_store(kiln_store_trim(store_.get(), &chosen, ret_report));
    }

    /* Reads and checks every entry. */
    status verify(kiln_verify_report *ret_report) const
    {
        return detail::check_store(kiln_store_verify(store_.get(), nullptr, nullptr, ret_report));
    }

    /* What those who write to the store know of it, without a walk. */
    kiln_store_stat stat() const
    {
        kiln_store_stat counted = params<kiln_store_stat>();
        detail::check_store(kiln_store_get_stat(store_.get(), KILN_STAT_KNOWN, &counted));
        return counted;
    }

    /* Adds hits, misses, builds and times to its totals, for who uses get and put alone. */
    status account(const kiln_stats &delta) const
    {
        return detail::check_store(kiln_store_account(store_.get(), &delta));
    }

    /* The C handle, which stays this object's. */
    kiln_store *get() const noexcept
    {
        return store_.get();
    }

  private:
    using owner = detail::owner<kiln_store, kiln_store_close>;

    template <typename Visit> struct call {
        Visit &visit;
        std::exception_ptr thrown;
    };

    /* No exception crosses the walk, which has files open. */
    template <typename Visit> static int run(void *user, kiln_item *found)
    {
        call<Visit> *made = static_cast<call<Visit> *>(user);
#ifdef KILN_NO_EXCEPTIONS
        return made->visit(item(found)) ? 0 : 1;
#else
        try {
            return made->visit(item(found)) ? 0 : 1;
        } catch (...) {
            made->thrown = std::current_exception();
            return 1;
        }
#endif
    }

    owner store_;
};

} // namespace kiln

#endif
