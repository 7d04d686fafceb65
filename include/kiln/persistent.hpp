/* SPDX-License-Identifier: Apache-2.0
 *
 * kiln/persistent.h in C++11, by the names that oneDNN's proposal gives its calls:
 *
 *     kiln::set_persistent_cache_dir("/var/cache/mine");
 *     kiln::set_persistent_cache_capacity(512);
 */
#ifndef KILN_PERSISTENT_HPP
#define KILN_PERSISTENT_HPP

#include <cstddef>
#include <cstdint>
#include <string>

#include <kiln/engine.hpp>
#include <kiln/entry.hpp>
#include <kiln/key.hpp>
#include <kiln/persistent.h>
#include <kiln/status.hpp>

namespace kiln
{

/* What happens when the capacity is reached. */
enum class persistent_cache_policy {
    fifo = KILN_POLICY_FIFO,        /* what was created first goes */
    no_evict = KILN_POLICY_NO_EVICT /* nothing new is kept */
};

/* @enable  0 or 1; both kinds are on at first, so that the capacity alone decides */
inline status set_persistent_cache(int enable, engine::kind kind)
{
    return detail::check(kiln_persistent_set_enabled(detail::number_of(kind), enable));
}

/* The switch alone: true also where the capacity is 0. */
inline bool get_persistent_cache(engine::kind kind)
{
    int is_enabled = 0;
    detail::check(kiln_persistent_get_enabled(detail::number_of(kind), &is_enabled));
    return is_enabled != 0;
}

/* @capacity  in MiB; 0, the default: the persistent cache is disabled */
inline status set_persistent_cache_capacity(int capacity)
{
    return detail::check(kiln_persistent_set_capacity(capacity));
}

/* In MiB. */
inline int get_persistent_cache_capacity()
{
    std::int32_t capacity = 0;
    detail::check(kiln_persistent_get_capacity(&capacity));
    return capacity;
}

/* @dir  empty, the default: a directory of our own in the working directory */
inline status set_persistent_cache_dir(const std::string &dir)
{
    return detail::check(detail::is_text(dir) ? kiln_persistent_set_dir(dir.c_str())
                                              : KILN_E_INVALID);
}

/* As it was set; a relative one with "./" before it. */
inline std::string get_persistent_cache_dir()
{
    /* Another thread may set a longer one between two calls. */
    std::string dir;
    std::size_t size = 0;
    kiln_status code = kiln_persistent_get_dir(nullptr, &size);
    do {
        dir.resize(size);
        code = kiln_persistent_get_dir(&dir[0], &size);
    } while (code == KILN_E_TOO_LARGE);
    detail::check(code);
    dir.resize(size - 1);
    return dir;
}

/* fifo, the default, or no_evict. */
inline status set_persistent_cache_policy(persistent_cache_policy policy)
{
    return detail::check(kiln_persistent_set_policy(static_cast<std::uint32_t>(policy)));
}

/* What was set. */
inline persistent_cache_policy get_persistent_cache_policy()
{
    std::uint32_t policy = KILN_POLICY_FIFO;
    detail::check(kiln_persistent_get_policy(&policy));
    return static_cast<persistent_cache_policy>(policy);
}

/* Opens the store now, or throws why it can't be opened; status::miss: the cache is off. */
inline status open_persistent_cache(engine::kind kind)
{
    kiln_error described = kiln_error();
    described.struct_size = sizeof described;
    return detail::check(kiln_persistent_open(detail::number_of(kind), &described), &described);
}

/* What the cache holds for a key; empty: nothing that could be used. */
inline entry find_persistent(engine::kind kind, const key &wanted)
{
    kiln_entry *found = nullptr;
    const kiln_status code = kiln_persistent_get(detail::number_of(kind), wanted.get(), &found);
    if (code == KILN_E_INVALID || code == KILN_E_NO_MEMORY) {
        detail::check(code);
    }
    return entry(found);
}

/* Whether an entry is kept from now on. A cache that can't keep one fails nobody. */
inline bool keep_persistent(engine::kind kind, const entry &kept)
{
    const kiln_status code = kiln_persistent_put(detail::number_of(kind), kept.get());
    if (code == KILN_E_INVALID || code == KILN_E_NO_MEMORY) {
        detail::check(code);
    }
    return code == KILN_OK;
}

} // namespace kiln

#endif
