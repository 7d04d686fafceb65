/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets capacities by `const sycl::device &`, with stand-ins for SYCL's devices, or with the devices
 * of a SYCL runtime if there are any.
 */
#include <cstdio>
#include <cstdlib>

#ifdef KILN_TEST_SYCL_RUNTIME
#include <sycl/sycl.hpp>
#else
#include "support/sycl_device.hpp"
#endif

#include <kiln/sycl.hpp>

#define CHECK(condition) check(condition, #condition, __LINE__)

static void check(bool holds, const char *condition, int line)
{
    if (!holds) {
        fprintf(stderr, "%s:%d: %s\n", __FILE__, line, condition);
        exit(1);
    }
}

using kiln::status;

static std::size_t capacity_of(const sycl::device &dev)
{
    std::size_t size = 0;
    CHECK(kiln::sycl_interop::get_constant_tensor_cache_capacity(dev, &size) == status::success);
    return size;
}

/* A user sets a device's capacity, and later a backend binds a copy of the device. */
static void check_device(const sycl::device &dev, std::uint32_t index)
{
    const sycl::device copy = dev;
    CHECK(copy == dev);
    CHECK(kiln::interop::device_handle(dev) != nullptr);
    CHECK(kiln::interop::device_handle(copy) == kiln::interop::device_handle(dev));
    CHECK(kiln::sycl_interop::set_constant_tensor_cache_capacity(dev, 4096) == status::success);
    CHECK(capacity_of(copy) == 4096);
    {
        const kiln::constant_device_binding_t binding(copy, kiln::engine::kind::gpu, index);
        CHECK(capacity_of(dev) == 4096);
        std::size_t size = 0;
        kiln::get_constant_tensor_cache_capacity(kiln::engine::kind::gpu, static_cast<int>(index),
                                                 &size);
        CHECK(size == 4096);
        kiln::constant_tensor_cache_policy policy = kiln::NO_EVICT;
        kiln::sycl_interop::set_constant_tensor_cache_capacity(copy, 5, kiln::COST);
        kiln::sycl_interop::get_constant_tensor_cache_capacity(dev, &size, &policy);
        CHECK(size == 5 && policy == kiln::COST);
    }
    std::size_t size = 0;
    CHECK(kiln::sycl_interop::get_constant_tensor_cache_capacity(dev, &size) == status::miss);
}

#ifdef KILN_TEST_SYCL_RUNTIME

static void test_devices()
{
    std::uint32_t checked = 0;
    for (const sycl::device &dev : sycl::device::get_devices()) {
        if (dev.get_backend() == sycl::backend::opencl) {
            check_device(dev, 100 + checked++);
        }
    }
    printf("%u devices\n", checked);
    if (checked == 0) {
        exit(77);
    }
}

#else

static void test_devices()
{
    const sycl::device first(sycl::backend::opencl), second(sycl::backend::opencl);
    check_device(first, 100);
    check_device(second, 101);
    CHECK(kiln::interop::device_handle(first) != kiln::interop::device_handle(second));
    const sycl::device zero(sycl::backend::ext_oneapi_cuda, 0);
    const sycl::device one(sycl::backend::ext_oneapi_cuda, 1);
    check_device(zero, 102);
    CHECK(kiln::interop::device_handle(zero) != kiln::interop::device_handle(one));
    const sycl::device unknown(sycl::backend::ext_oneapi_level_zero);
    CHECK(kiln::interop::device_handle(unknown) == nullptr);
    const sycl::device other(sycl::backend::other);
    CHECK(kiln::interop::device_handle(other) == nullptr);
}

#endif

int main()
{
    unsetenv("ONEDNN_GRAPH_CONSTANT_TENSOR_CACHE_CAPACITY");
    test_devices();
    return 0;
}
