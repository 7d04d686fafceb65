/* SPDX-License-Identifier: Apache-2.0 */
#include "constants_hpp.h"

#include <memory>

#include <kiln/constant.hpp>

using cache_t = kiln::constant_tensor_cache_t;

namespace
{

enum { BACKEND_ID = 1, SPEC_KEY = 17 };

class buffer_t : public kiln::constant_buffer_t
{
  public:
    buffer_t() : constant_buffer_t(&value_, sizeof value_)
    {
    }

  private:
    std::uint64_t value_ = 1;
};

/* Requests a constant as a backend does: it is found, or promised and then computed. */
template <typename Ask> std::uint64_t execute(const Ask &ask)
{
    cache_t::promise_t promise;
    const cache_t::value_t cached = ask(promise.get_future());
    if (cached.valid()) {
        return *cached.get()->data<std::uint64_t>();
    }
    promise.set_value(std::make_shared<buffer_t>());
    return 0;
}

} // namespace

uint64_t run_constant_hpp(void *, size_t count)
{
    const cache_t cache(kiln::engine::kind::gpu);
    const kiln::constant_key_t key = cache.key(BACKEND_ID, std::size_t(SPEC_KEY));
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < count; i++) {
        sum += execute([&](const cache_t::value_t &value) {
            return cache.get_or_add(key, sizeof(std::uint64_t), value);
        });
    }
    return sum;
}

uint64_t run_constant_hpp_with_key(void *, size_t count)
{
    const cache_t cache(kiln::engine::kind::gpu);
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < count; i++) {
        sum += execute([&](const cache_t::value_t &value) {
            return cache.get_or_add(BACKEND_ID, std::size_t(SPEC_KEY), sizeof(std::uint64_t),
                                    value);
        });
    }
    return sum;
}
