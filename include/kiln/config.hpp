/* SPDX-License-Identifier: Apache-2.0
 *
 * kiln/config.h in C++11: what the environment says, for both levels of cache.
 *
 *     const kiln::config config(kiln::profile::sycl);
 *     kiln::cache<program> programs(config.memory());
 *     kiln::store store = config.open_store();
 */
#ifndef KILN_CONFIG_HPP
#define KILN_CONFIG_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <kiln/config.h>
#include <kiln/program.h>
#include <kiln/status.hpp>
#include <kiln/store.hpp>

namespace kiln
{

/* Whose variables, units and defaults. */
enum class profile : std::uint32_t {
    kiln = KILN_PROFILE_KILN,
    sycl = KILN_PROFILE_SYCL,
    onednn = KILN_PROFILE_ONEDNN
};

/* Immutable. Any thread. */
class config
{
  public:
    /* @lookup  null: the process's environment */
    explicit config(profile chosen = profile::kiln, kiln_lookup_fn lookup = nullptr,
                    void *user = nullptr)
    {
        detail::check(kiln_config_from_profile(static_cast<std::uint32_t>(chosen), lookup, user,
                                               config_.address()));
    }

    /* Where entries are kept on disk; empty: nowhere. */
    std::string location() const
    {
        const char *said = config_.get()->location;
        return said ? said : "";
    }

    /* For a store at that location; texts in it live as long as this. */
    kiln_store_params store() const
    {
        kiln_store_params said = params<kiln_store_params>();
        detail::check(kiln_config_get_store(config_.get(), &said));
        return said;
    }

    /* The store that it names; an empty one where nothing is kept on disk. */
    kiln::store open_store() const
    {
        return location().empty() ? kiln::store() : kiln::store(location(), store());
    }

    /* For a cache in memory. */
    kiln_cache_params memory() const
    {
        kiln_cache_params said = params<kiln_cache_params>();
        detail::check(kiln_config_get_memory(config_.get(), &said));
        return said;
    }

    /* A line for each wrong value. */
    std::vector<std::string> complaints() const
    {
        std::vector<std::string> lines;
        for (std::size_t i = 0; const char *line = config_.get()->complaints[i]; i++) {
            lines.push_back(line);
        }
        return lines;
    }

    /* The C handle, which stays this object's. */
    const kiln_config *get() const noexcept
    {
        return config_.get();
    }

  private:
    detail::owner<kiln_config, kiln_config_free> config_;
};

/* What the environment says of programs; texts in it live as long as @config. */
inline kiln_program_context_params program_params(const config &config)
{
    kiln_program_context_params said = params<kiln_program_context_params>();
    detail::check(kiln_config_get_programs(config.get(), &said));
    return said;
}

} // namespace kiln

#endif
