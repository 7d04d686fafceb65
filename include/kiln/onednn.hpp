/* SPDX-License-Identifier: Apache-2.0
 *
 * Kiln with the names of oneDNN's proposals, in C++11: the persistent cache, primitives and their
 * blobs, and the constant tensor cache. Header only. The comments of kiln/persistent.h,
 * kiln/program.h and kiln/constant.h apply here too.
 *
 *     kiln::set_persistent_cache_dir(directory);
 *     kiln::set_persistent_cache_capacity(512);
 *     kiln::set_constant_tensor_cache_capacity(kiln::engine::kind::gpu, 2048);
 *     const std::string where = kiln::get_persistent_cache_dir();
 *
 * Source: oneDNN's persistent cache and constant tensor cache (docs/seeds.md, P1 to P62 and C1 to
 * C87).
 */
#ifndef KILN_ONEDNN_HPP
#define KILN_ONEDNN_HPP

#include <cstddef>
#include <cstdint>
#include <string>

#include <kiln/constant.hpp>
#include <kiln/engine.hpp>
#include <kiln/entry.hpp>
#include <kiln/key.hpp>
#include <kiln/persistent.h>
#include <kiln/program.hpp>
#include <kiln/status.hpp>

namespace kiln
{

/* ---- the persistent cache ---- */

/* What happens when the capacity is reached. */
enum class persistent_cache_policy {
    fifo = KILN_POLICY_FIFO,        /* the entries created first are removed */
    no_evict = KILN_POLICY_NO_EVICT /* nothing new is kept */
};

namespace detail
{

/* Changes the settings that @changed names. */
inline status persistent_set(std::uint32_t changed, kiln_persistent_settings settings)
{
    settings.struct_size = sizeof settings;
    settings.changed = changed;
    return check(kiln_persistent_set(&settings));
}

/* Returns the flag of the setting that switches a kind on or off; 0: there is no such kind. */
inline std::uint32_t persistent_switch(engine::kind kind)
{
    if (kind == engine::kind::cpu) {
        return KILN_PERSISTENT_CPU;
    }
    if (kind == engine::kind::gpu) {
        return KILN_PERSISTENT_GPU;
    }
    return 0;
}

/* Returns all settings except texts. */
inline kiln_persistent_settings persistent_get()
{
    kiln_persistent_settings settings = params<kiln_persistent_settings>();
    check(kiln_persistent_get_settings(&settings, nullptr, nullptr));
    return settings;
}

} // namespace detail

/* Switches the persistent cache on or off for a kind of engine.
 *
 * @enable  0 or 1; both kinds are on by default, so the capacity alone decides */
inline status set_persistent_cache(int enable, engine::kind kind)
{
    kiln_persistent_settings settings = kiln_persistent_settings();
    settings.cpu = settings.gpu = enable;
    return detail::persistent_set(detail::persistent_switch(kind), settings);
}

/* Returns true if the cache is switched on for a kind. The capacity can be 0 nevertheless. */
inline bool get_persistent_cache(engine::kind kind)
{
    detail::check(detail::persistent_switch(kind) ? KILN_OK : KILN_E_INVALID);
    const kiln_persistent_settings settings = detail::persistent_get();
    return (kind == engine::kind::cpu ? settings.cpu : settings.gpu) != 0;
}

/* Sets the capacity.
 *
 * @capacity  in MiB; 0, the default: the persistent cache is disabled */
inline status set_persistent_cache_capacity(int capacity)
{
    kiln_persistent_settings settings = kiln_persistent_settings();
    settings.capacity_mib = capacity;
    return detail::persistent_set(KILN_PERSISTENT_CAPACITY, settings);
}

/* Returns the capacity in MiB. */
inline int get_persistent_cache_capacity()
{
    return detail::persistent_get().capacity_mib;
}

/* Sets the directory.
 *
 * @dir  empty, the default: a separate directory in the working directory */
inline status set_persistent_cache_dir(const std::string &dir)
{
    if (!detail::is_text(dir)) {
        return detail::check(KILN_E_INVALID);
    }
    kiln_persistent_settings settings = kiln_persistent_settings();
    settings.dir = dir.c_str();
    return detail::persistent_set(KILN_PERSISTENT_DIR, settings);
}

/* Returns the directory that was set. A relative path begins with "./". */
inline std::string get_persistent_cache_dir()
{
    kiln_persistent_settings settings = params<kiln_persistent_settings>();
    std::string texts;
    std::size_t size = 0;
    kiln_status code = KILN_E_TOO_LARGE;
    /* Another thread might set a longer text between two calls. */
    while (code == KILN_E_TOO_LARGE) {
        texts.resize(size + 1);
        size = texts.size();
        code = kiln_persistent_get_settings(&settings, &texts[0], &size);
    }
    detail::check(code);
    return settings.dir ? settings.dir : "";
}

/* Sets the policy: fifo, the default, or no_evict. */
inline status set_persistent_cache_policy(persistent_cache_policy policy)
{
    kiln_persistent_settings settings = kiln_persistent_settings();
    settings.policy = static_cast<std::uint32_t>(policy);
    return detail::persistent_set(KILN_PERSISTENT_POLICY, settings);
}

/* Returns the policy that was set. */
inline persistent_cache_policy get_persistent_cache_policy()
{
    return static_cast<persistent_cache_policy>(detail::persistent_get().policy);
}

/* Opens the store now. If it can't be opened, throws an error that says why. Returns status::miss
 * if the cache is off. */
inline status open_persistent_cache(engine::kind kind)
{
    kiln_error described = kiln_error();
    described.struct_size = sizeof described;
    return detail::check(kiln_persistent_open(detail::number_of(kind), &described), &described);
}

/* Returns the entry of a key, or an empty entry if there is none that can be used. */
inline entry find_persistent(engine::kind kind, const key &wanted)
{
    kiln_entry *found = nullptr;
    const kiln_status code = kiln_persistent_get(detail::number_of(kind), wanted.get(), &found);
    if (code == KILN_E_INVALID || code == KILN_E_NO_MEMORY) {
        detail::check(code);
    }
    return entry(found);
}

/* Stores an entry. Returns true if it is kept. Does not throw if the cache can't keep it. */
inline bool keep_persistent(engine::kind kind, const entry &kept)
{
    const kiln_status code = kiln_persistent_put(detail::number_of(kind), kept.get());
    if (code == KILN_E_INVALID || code == KILN_E_NO_MEMORY) {
        detail::check(code);
    }
    return code == KILN_OK;
}

/* ---- primitives ---- */

/* A base class for classes of primitives. These inherit its constructors. */
using primitive = program;

/* What a primitive is made from. */
using primitive_desc_base = program_desc;

/* ---- the constant tensor cache ---- */

/* What happens when the capacity is reached: kiln_policy. */
enum class constant_tensor_cache_policy : std::uint32_t {
    no_evict = KILN_POLICY_NO_EVICT, /* nothing new is kept: the default */
    cost = KILN_POLICY_COST, /* constants that are cheap to compute for their size are evicted */
    lru = KILN_POLICY_LRU,   /* the least recently used constants are evicted */
    fifo = KILN_POLICY_FIFO, /* the oldest constants are evicted */
    automatic = KILN_POLICY_AUTO,     /* the library chooses */
    unchanged = KILN_POLICY_UNCHANGED /* the policy stays as it is */
};

namespace detail
{

inline std::uint32_t number_of(constant_tensor_cache_policy policy)
{
    return static_cast<std::uint32_t>(policy);
}

inline std::uint64_t mib_of_size(std::size_t size)
{
    return size < (std::numeric_limits<std::size_t>::max)() ? size : KILN_UNLIMITED;
}

/* Returns a budget that names a kind. */
inline kiln_constant_budget budget_of(engine::kind kind)
{
    kiln_constant_budget budget = params<kiln_constant_budget>();
    budget.kind = number_of(kind);
    return budget;
}

/* Returns a budget that names one device of a kind; a negative index names no device. */
inline kiln_constant_budget budget_of(engine::kind kind, int index)
{
    kiln_constant_budget budget = budget_of(index < 0 ? engine::kind() : kind);
    budget.scope = KILN_CONSTANT_INDEX;
    budget.index = static_cast<std::uint32_t>(index);
    return budget;
}

/* Returns a budget that names one device by its handle. */
inline kiln_constant_budget budget_of(const void *device)
{
    kiln_constant_budget budget = params<kiln_constant_budget>();
    budget.scope = KILN_CONSTANT_DEVICE;
    budget.device = device;
    return budget;
}

inline status set_budget(kiln_constant_budget budget, std::size_t size,
                         constant_tensor_cache_policy policy)
{
    budget.capacity_mib = mib_of_size(size);
    budget.policy = number_of(policy);
    return check(kiln_constant_set_budget(&budget));
}

inline status get_budget(kiln_constant_budget budget, std::size_t *size,
                         constant_tensor_cache_policy *policy)
{
    const status found = check(kiln_constant_get_budget(&budget));
    if (found == status::success && size) {
        *size = size_of_mib(budget.capacity_mib);
    }
    if (found == status::success && policy) {
        *policy = static_cast<constant_tensor_cache_policy>(budget.policy);
    }
    return found;
}

} // namespace detail

/* Enables or disables the caches of constants.
 *
 * @flag  0: disable; greater, the default: enable */
inline status set_constant_tensor_cache(int flag)
{
    return detail::check(kiln_constant_set_enabled(flag));
}

/* Returns 1 if any kind or device has a capacity above 0; otherwise 0. */
inline int get_constant_tensor_cache()
{
    int flag = 0;
    detail::check(kiln_constant_get_enabled(&flag));
    return flag;
}

/* Sets the capacity of each device of a kind.
 *
 * @size  in MiB; the largest std::size_t means no limit, also in the functions that return it */
inline status set_constant_tensor_cache_capacity(
    engine::kind kind, std::size_t size,
    constant_tensor_cache_policy policy = constant_tensor_cache_policy::unchanged)
{
    return detail::set_budget(detail::budget_of(kind), size, policy);
}

/* Sets the capacity of one device. */
inline status set_constant_tensor_cache_capacity(
    engine::kind kind, int index, std::size_t size,
    constant_tensor_cache_policy policy = constant_tensor_cache_policy::unchanged)
{
    return detail::set_budget(detail::budget_of(kind, index), size, policy);
}

/* Reads the capacity of each device of a kind.
 *
 * @size, @policy  [out] may be null */
inline status get_constant_tensor_cache_capacity(engine::kind kind, std::size_t *size,
                                                 constant_tensor_cache_policy *policy = nullptr)
{
    return detail::get_budget(detail::budget_of(kind), size, policy);
}

/* Returns the capacity of each device of a kind, in MiB. */
inline std::size_t get_constant_tensor_cache_capacity(engine::kind kind)
{
    std::size_t size = 0;
    get_constant_tensor_cache_capacity(kind, &size);
    return size;
}

/* Reads the capacity of one device. */
inline status get_constant_tensor_cache_capacity(engine::kind kind, int index, std::size_t *size,
                                                 constant_tensor_cache_policy *policy = nullptr)
{
    return detail::get_budget(detail::budget_of(kind, index), size, policy);
}

/* Functions that identify a device by its runtime's handle. */
namespace interop
{

/* Sets the capacity of one device. If no backend has bound the handle yet, the capacity takes
 * effect when a backend binds it. */
inline status set_constant_tensor_cache_capacity(
    const void *device, std::size_t size,
    constant_tensor_cache_policy policy = constant_tensor_cache_policy::unchanged)
{
    return detail::set_budget(detail::budget_of(device), size, policy);
}

/* Reads the capacity of one device. Returns status::miss if no backend has bound the handle, and
 * nothing was set for it. */
inline status get_constant_tensor_cache_capacity(const void *device, std::size_t *size,
                                                 constant_tensor_cache_policy *policy = nullptr)
{
    return detail::get_budget(detail::budget_of(device), size, policy);
}

/* Sets the capacity of a sycl::device, which is found by its handle (see device_handle). Fails with
 * status::invalid_arguments if the device has no handle. */
template <typename Device, typename Backend = detail::sycl_backend<Device>>
status set_constant_tensor_cache_capacity(
    const Device &device, std::size_t size,
    constant_tensor_cache_policy policy = constant_tensor_cache_policy::unchanged)
{
    return set_constant_tensor_cache_capacity(device_handle(device), size, policy);
}

/* Reads the capacity of a sycl::device. Fails with status::invalid_arguments if the device has no
 * handle. */
template <typename Device, typename Backend = detail::sycl_backend<Device>>
status get_constant_tensor_cache_capacity(const Device &device, std::size_t *size,
                                          constant_tensor_cache_policy *policy = nullptr)
{
    return get_constant_tensor_cache_capacity(device_handle(device), size, policy);
}

} // namespace interop

/* The cache of a device, as one context sees it. */
using unified_constant_tensor_cache_t = constant_tensor_cache_t;

/* Returns the cache of the first device of a kind. */
template <engine::kind Kind> constant_tensor_cache_t get_unified_constant_tensor_cache_t()
{
    return constant_tensor_cache_t(Kind);
}

/* What happens when the capacity is reached. */
using policy_t = constant_tensor_cache_policy;

/* Nothing new is kept. */
constexpr policy_t NO_EVICT = policy_t::no_evict;

/* Constants that are cheap to compute for their size are evicted. */
constexpr policy_t COST = policy_t::cost;

} // namespace kiln

#endif
