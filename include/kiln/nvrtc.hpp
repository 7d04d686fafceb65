/* SPDX-License-Identifier: Apache-2.0
 *
 * NVRTC's device ops of kiln/nvrtc.h in C++11, for kiln::program_context:
 *
 *     const kiln::nvrtc_device device;
 *     kiln::program_context programs(device.context_params());
 *     const kiln::program program(kiln::program_desc(programs, described));
 *     const kiln_bytes ptx = kiln::nvrtc_output(program, KILN_NVRTC_PTX);
 *
 * Nothing here needs NVIDIA's headers.
 */
#ifndef KILN_NVRTC_HPP
#define KILN_NVRTC_HPP

#include <string>

#include <kiln/nvrtc.h>
#include <kiln/program.hpp>
#include <kiln/status.hpp>

namespace kiln
{

/* Where programs are compiled, and where they are loaded. Contexts, programs and kernels that use
 * it end before it does. */
class nvrtc_device
{
  public:
    explicit nvrtc_device(
        const kiln_nvrtc_device_params &chosen = params<kiln_nvrtc_device_params>())
        : handle_(nullptr)
    {
        kiln_error described = params<kiln_error>();
        const kiln_status code = kiln_nvrtc_device_new(&chosen, device_.address(), &described);
        detail::check(code, &described);
        handle_ = device_.get();
    }

    nvrtc_device(const nvrtc_device &) = delete;
    nvrtc_device &operator=(const nvrtc_device &) = delete;

    /* Without exceptions: whether it could be made. */
    explicit operator bool() const noexcept
    {
        return static_cast<bool>(device_);
    }

    /* For a context of this device alone; all else is at its default. Points into this. */
    kiln_program_context_params context_params() const noexcept
    {
        return context_params(params<kiln_program_context_params>());
    }

    /* The same, with what @in says of all else, such as kiln::program_params. */
    kiln_program_context_params context_params(kiln_program_context_params in) const noexcept
    {
        in.ops = device_ ? kiln_nvrtc_ops() : nullptr;
        in.devices = &handle_;
        in.device_count = 1;
        return in;
    }

    /* The C handle, which stays this object's. */
    kiln_nvrtc_device *get() const noexcept
    {
        return device_.get();
    }

  private:
    detail::owner<kiln_nvrtc_device, kiln_nvrtc_device_free> device_;
    void *handle_;
};

/* What NVRTC's function of that name gives, texts with their closing zero; lives as long as the
 * program. Empty: NVRTC gives nothing, or has no such output. */
inline kiln_bytes nvrtc_output(const program &of, kiln_nvrtc_output output)
{
    kiln_bytes bytes = kiln_bytes();
    detail::check(kiln_nvrtc_get_output(of.handle<const void *>(), output, &bytes));
    return bytes;
}

/* The lowered name of an expression that the program's options named; lives as long as the program.
 * Null: it was not named, or is not valid. */
inline const char *nvrtc_lowered_name(const program &of, const std::string &expression)
{
    const char *name = nullptr;
    detail::check(
        kiln_nvrtc_get_lowered_name(of.handle<const void *>(), expression.c_str(), &name));
    return name;
}

} // namespace kiln

#endif
