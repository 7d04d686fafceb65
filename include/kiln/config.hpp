/* SPDX-License-Identifier: Apache-2.0
 *
 * kiln/config.h in C++11: the configuration from the environment, for both levels of cache.
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

/* Selects variables, units and defaults: kiln_profile. */
enum class profile : std::uint32_t {
    kiln = KILN_PROFILE_KILN,
    sycl = KILN_PROFILE_SYCL,
    onednn = KILN_PROFILE_ONEDNN
};

/* A configuration. Immutable. Any thread may read it. */
class config
{
  public:
    /* Reads the configuration.
     *
     * @lookup  called for each variable; null: the environment of the process
     * @user    passed to @lookup */
    explicit config(profile chosen = profile::kiln, kiln_lookup_fn lookup = nullptr,
                    void *user = nullptr)
    {
        detail::check(kiln_config_from_profile(static_cast<std::uint32_t>(chosen), lookup, user,
                                               config_.address()));
    }

    /* Returns where entries are kept on disk; empty: nowhere. */
    std::string location() const
    {
        const char *path = config_.get()->location;
        return path ? path : "";
    }

    /* Returns the parameters of the store at location(). Their texts are valid as long as this
     * object is. */
    kiln_store_params store() const
    {
        kiln_store_params filled = params<kiln_store_params>();
        detail::check(kiln_config_get_store(config_.get(), &filled));
        return filled;
    }

    /* Opens the configured store. Returns an empty store if nothing is kept on disk. */
    kiln::store open_store() const
    {
        return location().empty() ? kiln::store() : kiln::store(location(), store());
    }

    /* Returns the parameters of a cache in memory. */
    kiln_cache_params memory() const
    {
        kiln_cache_params filled = params<kiln_cache_params>();
        detail::check(kiln_config_get_memory(config_.get(), &filled));
        return filled;
    }

    /* Returns a line for each wrong value. */
    std::vector<std::string> warnings() const
    {
        std::vector<std::string> lines;
        for (std::size_t i = 0; const char *line = config_.get()->warnings[i]; i++) {
            lines.push_back(line);
        }
        return lines;
    }

    /* Returns the C handle, which still belongs to this object. */
    const kiln_config *get() const noexcept
    {
        return config_.get();
    }

  private:
    detail::owner<kiln_config, kiln_config_free> config_;
};

/* Returns the parameters of programs that the environment sets. The texts are valid as long as
 * @config is. */
inline kiln_program_context_params program_params(const config &config)
{
    kiln_program_context_params filled = params<kiln_program_context_params>();
    detail::check(kiln_config_get_programs(config.get(), &filled));
    return filled;
}

} // namespace kiln

#endif
