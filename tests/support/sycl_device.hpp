/* SPDX-License-Identifier: Apache-2.0
 *
 * Replaces <sycl/sycl.hpp> in tests without a SYCL runtime: devices of several backends, with the
 * part of the interface that Kiln uses.
 */
#ifndef KILN_TESTS_SYCL_DEVICE_HPP
#define KILN_TESTS_SYCL_DEVICE_HPP

#include <memory>

namespace sycl
{

enum class backend : char { opencl = 1, ext_oneapi_level_zero = 2, ext_oneapi_cuda = 3, other = 4 };

class device
{
  public:
    explicit device(backend of, int number = 0)
        : of_(of), number_(number), native_(std::make_shared<int>())
    {
    }

    backend get_backend() const noexcept
    {
        return of_;
    }

    bool operator==(const device &other) const
    {
        return native_ == other.native_;
    }

    int number_of() const
    {
        return number_;
    }

    int *native() const
    {
        return native_.get();
    }

  private:
    backend of_;
    int number_;
    std::shared_ptr<int> native_;
};

template <backend Backend> struct native_type {
};

template <> struct native_type<backend::opencl> {
    using type = int *;

    static type of(const device &dev)
    {
        return dev.native();
    }
};

template <> struct native_type<backend::ext_oneapi_cuda> {
    using type = int;

    static type of(const device &dev)
    {
        return dev.number_of();
    }
};

/* There is no specialization for Level Zero, as if its header were not included. */
template <backend Backend> auto get_native(const device &dev) -> typename native_type<Backend>::type
{
    return native_type<Backend>::of(dev);
}

} // namespace sycl

#endif
