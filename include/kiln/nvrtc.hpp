/* SPDX-License-Identifier: Apache-2.0
 *
 * NVRTC's device ops of kiln/nvrtc.h in C++11, for kiln::program_context:
 *
 *     const kiln::nvrtc_device device;
 *     kiln::program_context programs(device.context_params());
 *     const kiln::program program(kiln::program_desc(programs, described));
 *     const kiln_bytes ptx = kiln::nvrtc_output(program, KILN_NVRTC_PTX);
 *
 * This header includes none of NVIDIA's headers.
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
 * the device must be destroyed before it. */
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

    /* Only for programs without exceptions: returns true if the device was created. */
    explicit operator bool() const noexcept
    {
        return static_cast<bool>(device_);
    }

    /* Returns the parameters of a context that has only this device. All other members have their
     * defaults. The parameters point into this object. */
    kiln_program_context_params context_params() const noexcept
    {
        return context_params(params<kiln_program_context_params>());
    }

    /* Returns @in with this device and its ops added. @in can come from kiln::program_params. */
    kiln_program_context_params context_params(kiln_program_context_params in) const noexcept
    {
        in.ops = device_ ? kiln_nvrtc_ops() : nullptr;
        in.devices = &handle_;
        in.device_count = 1;
        return in;
    }

    /* Returns the C handle, which still belongs to this object. */
    kiln_nvrtc_device *get() const noexcept
    {
        return device_.get();
    }

  private:
    detail::owner<kiln_nvrtc_device, kiln_nvrtc_device_free> device_;
    void *handle_;
};

/* Returns what the NVRTC function of that name would return. Texts include their terminating NUL.
 * The bytes are valid as long as the program is. They are empty if NVRTC returns nothing or has no
 * such output. */
inline kiln_bytes nvrtc_output(const program &of, kiln_nvrtc_output output)
{
    kiln_bytes bytes = kiln_bytes();
    detail::check(kiln_nvrtc_get_output(of.handle<const void *>(), output, &bytes));
    return bytes;
}

/* Returns the lowered name of an expression that the program's options named. The result is valid
 * as long as the program is. Returns null if the expression was not named or is not valid. */
inline const char *nvrtc_lowered_name(const program &of, const std::string &expression)
{
    const char *name = nullptr;
    detail::check(
        kiln_nvrtc_get_lowered_name(of.handle<const void *>(), expression.c_str(), &name));
    return name;
}

} // namespace kiln

#endif
