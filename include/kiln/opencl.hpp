/* SPDX-License-Identifier: Apache-2.0
 *
 * OpenCL's device ops of kiln/opencl.h in C++11, for kiln::program_context:
 *
 *     const kiln::opencl_device device(context, id);
 *     kiln::program_context programs(device.context_params());
 *
 * This header includes none of OpenCL's headers.
 */
#ifndef KILN_OPENCL_HPP
#define KILN_OPENCL_HPP

#include <kiln/opencl.h>
#include <kiln/program.hpp>
#include <kiln/status.hpp>

namespace kiln
{

/* One device in one context. Contexts, programs and kernels that use the device must be destroyed
 * before it. */
class opencl_device
{
  public:
    /* Creates a device.
     *
     * @context  a cl_context; retained
     * @device   a cl_device_id of @context; retained */
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
        in.ops = kiln_opencl_ops(device_.get());
        in.devices = &handle_;
        in.device_count = 1;
        return in;
    }

    /* Returns the C handle, which still belongs to this object. */
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
