/* SPDX-License-Identifier: Apache-2.0
 *
 * OpenCL's device ops of kiln/opencl.h in C++11, for kiln::program_context:
 *
 *     const kiln::opencl_device device(context, id);
 *     kiln::program_context programs(device.context_params());
 *
 * Nothing here needs OpenCL's headers.
 */
#ifndef KILN_OPENCL_HPP
#define KILN_OPENCL_HPP

#include <kiln/opencl.h>
#include <kiln/program.hpp>
#include <kiln/status.hpp>

namespace kiln
{

/* One device in one context. Contexts, programs and kernels that use it end before it does. */
class opencl_device
{
  public:
    /* @context, @device  a cl_context, and a cl_device_id of it; retained */
    opencl_device(void *context, void *device,
                  const kiln_opencl_device_params &chosen = params<kiln_opencl_device_params>())
        : handle_(nullptr)
    {
        kiln_error described = params<kiln_error>();
        const kiln_status code =
            kiln_opencl_device_new(context, device, &chosen, device_.address(), &described);
        detail::check(code, &described);
        handle_ = device_.get();
    }

    opencl_device(const opencl_device &) = delete;
    opencl_device &operator=(const opencl_device &) = delete;

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
        in.ops = kiln_opencl_ops(device_.get());
        in.devices = &handle_;
        in.device_count = 1;
        return in;
    }

    /* The C handle, which stays this object's. */
    kiln_opencl_device *get() const noexcept
    {
        return device_.get();
    }

  private:
    detail::owner<kiln_opencl_device, kiln_opencl_device_free> device_;
    void *handle_;
};

} // namespace kiln

#endif
