/* SPDX-License-Identifier: Apache-2.0
 *
 * kiln/store.h and kiln/store_tools.h in C++11: entries that outlive the process.
 *
 *     kiln::store store("/var/cache/mine");
 *     if (kiln::entry found = store.get(key)) {
 *         use(found.payload());
 *     }
 *
 * A store does not make its caller fail. An entry that can't be read is a miss. If an entry can't
 * be stored, a status reports that. The store throws only for misuse, for lack of memory, and if it
 * can't be opened.
 */
#ifndef KILN_STORE_HPP
#define KILN_STORE_HPP

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include <kiln/entry.hpp>
#include <kiln/key.hpp>
#include <kiln/status.hpp>
#include <kiln/store.h>
#include <kiln/store_tools.h>

namespace kiln
{

namespace detail
{

/* Throws if the status means misuse or lack of memory; returns any other status. */
inline status check_store(kiln_status code)
{
    return code == KILN_E_INVALID || code == KILN_E_NO_MEMORY ? check(code)
                                                              : static_cast<status>(code);
}

} // namespace detail

/* The right of one process to build a key; empty if it was not obtained. */
using lease = detail::owner<kiln_lease, kiln_lease_release>;

/* One stored item, as a walk finds it. Valid during the call. */
class item
{
  public:
    explicit item(kiln_item *found) noexcept : found_(found)
    {
    }

    /* Reads the header of the entry. The texts are valid as long as the item is. */
    kiln_item_info info() const
    {
        kiln_item_info result = params<kiln_item_info>();
        detail::check(kiln_item_get_info(found_, &result));
        return result;
    }

    /* Reads and verifies the whole entry. The result is empty if the entry can't be used or was
     * removed. */
    entry read() const
    {
        kiln_entry *found = nullptr;
        detail::check_store(kiln_item_read(found_, &found));
        return entry(found);
    }

    /* Removes the item. Returns success; miss: the item no longer exists, or was replaced
     * meanwhile; or another status of kiln_item_remove. */
    status remove() const
    {
        return detail::check_store(kiln_item_remove(found_));
    }

  private:
    kiln_item *found_;
};

/* A store. Any thread may use it. An empty object stands for no store: a get is a miss, and a put
 * drops its entry. */
class store
{
  public:
    store() = default;

    /* Opens a store. Without exceptions, the object is empty if that fails. The function open
     * reports the reason.
     *
     * @location  a directory, a URL, a pack, or several of these separated by '|' */
    explicit store(const std::string &location,
                   const kiln_store_params &chosen = params<kiln_store_params>())
    {
        open(location, chosen);
    }

    /* Opens a store. Then closes the store that was open before, even if opening failed.
     *
     * @ret_error  [out] may be null */
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

    /* Looks up and verifies an entry. The result is empty if there is no entry that can be used.
     *
     * @ret_status  [out] may be null */
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

    /* Looks up several keys. A server is asked for many of them at once. Each result is empty if
     * there is no entry that can be used. */
    std::vector<entry> get_many(const std::vector<key> &wanted) const
    {
        std::vector<const kiln_key *> keys;
        for (const key &one : wanted) {
            keys.push_back(one.get());
        }
        std::vector<kiln_entry *> found(keys.size());
        detail::check(
            kiln_store_get_many(store_.get(), keys.data(), keys.size(), found.data(), nullptr));
        std::vector<entry> entries(found.size());
        for (std::size_t i = 0; i < found.size(); i++) {
            entries[i] = entry(found[i]);
        }
        return entries;
    }

    /* Publishes an entry under its own key, completely or not at all. */
    status put(const entry &kept) const
    {
        return detail::check_store(kiln_store_put(store_.get(), kept.get()));
    }

    /* Removes an entry. Returns success, miss, or another status of kiln_store_remove. */
    status remove(const key &wanted) const
    {
        return detail::check_store(kiln_store_remove(store_.get(), wanted.get()));
    }

    /* Returns true if a get would find a file. Does not read the file. */
    bool contains(const key &wanted) const
    {
        return detail::check_store(kiln_store_contains(store_.get(), wanted.get())) ==
               status::success;
    }

    /* Takes the right to build a key. The result is empty if another process or thread still holds
     * the lease after @wait_ns, or if no lease could be taken. In both cases, build without a
     * lease. */
    kiln::lease take_lease(const key &wanted, std::uint64_t wait_ns) const
    {
        kiln_lease *held = nullptr;
        detail::check_store(kiln_store_lease(store_.get(), wanted.get(), wait_ns, &held));
        return kiln::lease(held);
    }

    /* Visits all items.
     *
     * @visit  called with each item; returns true to continue the walk. An exception ends the walk
     *         and reaches the caller */
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

    /* Removes the entries that the parameters select, in the order of the store's policy. */
    status trim(const kiln_trim_params &chosen, kiln_trim_report *ret_report = nullptr) const
    {
        return detail::check_store(kiln_store_trim(store_.get(), &chosen, ret_report));
    }

    /* Copies entries into another store, as kiln_store_copy does.
     *
     * @ret_report  [in, out] the caller sets its struct_size; not null */
    status copy(const store &into, const kiln_copy_params &chosen,
                kiln_copy_report *ret_report) const
    {
        return detail::check_store(
            kiln_store_copy(store_.get(), into.get(), &chosen, ret_report, nullptr));
    }

    /* Reads and verifies every entry.
     *
     * @ret_report  [in, out] the caller sets its struct_size; not null */
    status verify(kiln_verify_report *ret_report) const
    {
        return detail::check_store(kiln_store_verify(store_.get(), nullptr, nullptr, ret_report));
    }

    /* Returns the numbers that writers keep. Walks through the store only if these numbers are
     * missing. */
    kiln_store_stat stat() const
    {
        kiln_store_stat counted = params<kiln_store_stat>();
        detail::check_store(kiln_store_get_stat(store_.get(), KILN_STAT_KNOWN, &counted));
        return counted;
    }

    /* Adds hits, misses, builds and times to the store's totals, for programs that use only get and
     * put. */
    status add_stats(const kiln_stats &delta) const
    {
        return detail::check_store(kiln_store_add_stats(store_.get(), &delta));
    }

    /* Returns the C handle, which still belongs to this object. */
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

    /* Calls the visitor. No exception may pass through the walk, because it has files open. */
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
