/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the usage example for blobs of oneDNN's document (000) on a real OpenCL runtime. A
 * convolution kernel takes the place of convolution_forward. docs/seeds.md names it beside the
 * statements.
 */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <kiln/kiln.hpp>

#define CHECK(condition) check(static_cast<bool>(condition), #condition, __LINE__)

static void check(bool holds, const char *condition, int line)
{
    if (!holds) {
        std::fprintf(stderr, "line %d: %s\n", line, condition);
        std::exit(1);
    }
}

namespace
{

/* ---- a device, and computations on it ---- */

struct opencl {
    opencl()
    {
        cl_platform_id platform;
        cl_int code = CL_SUCCESS;
        CHECK(clGetPlatformIDs(1, &platform, nullptr) == CL_SUCCESS);
        CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &id, nullptr) == CL_SUCCESS);
        context = clCreateContext(nullptr, 1, &id, nullptr, nullptr, &code);
        CHECK(code == CL_SUCCESS);
        queue = clCreateCommandQueue(context, id, 0, &code);
        CHECK(code == CL_SUCCESS);
    }

    ~opencl()
    {
        clReleaseCommandQueue(queue);
        clReleaseContext(context);
    }

    opencl(const opencl &) = delete;
    opencl &operator=(const opencl &) = delete;

    cl_device_id id;
    cl_context context;
    cl_command_queue queue;
};

const char source[] = "kernel void convolve(global const float *x, global float *y)\n"
                      "{\n"
                      "    size_t i = get_global_id(0);\n"
                      "    y[i] = WEIGHT * x[i] + 2 * x[i + 1] + 3 * x[i + 2];\n"
                      "}\n";

enum { ITEMS = 64 };

/* An engine: a device with a Kiln context. */
struct engine {
    explicit engine(const opencl &on)
        : cl(on), device(on.context, on.id), programs(device.context_params())
    {
    }

    const opencl &cl;
    kiln::opencl_device device;
    kiln::program_context programs;
};

struct convolution_forward : kiln::primitive {
    struct primitive_desc : kiln::primitive_desc_base {
        primitive_desc(const std::string &desc, const std::string &attr, const engine &eng)
            : kiln::primitive_desc_base(eng.programs, described(desc, attr))
        {
        }

      private:
        static kiln_program_desc_params described(const std::string &desc, const std::string &attr)
        {
            kiln_program_desc_params params = kiln::params<kiln_program_desc_params>();
            params.form = KILN_SOURCE_TEXT;
            params.code = {desc.data(), desc.size()};
            params.options.compile = attr.c_str();
            params.name = "convolution";
            return params;
        }
    };

    using kiln::primitive::primitive;

    /* Returns whether the result for this weight is right. */
    bool execute(const engine &eng, float weight) const
    {
        std::vector<float> x(ITEMS + 2), y(ITEMS);
        for (std::size_t i = 0; i < x.size(); i++) {
            x[i] = static_cast<float>(i % 7);
        }
        cl_int code = CL_SUCCESS;
        cl_mem in = clCreateBuffer(eng.cl.context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                                   x.size() * sizeof x[0], x.data(), &code);
        CHECK(code == CL_SUCCESS);
        cl_mem out = clCreateBuffer(eng.cl.context, CL_MEM_WRITE_ONLY, y.size() * sizeof y[0],
                                    nullptr, &code);
        CHECK(code == CL_SUCCESS);
        const kiln::kernel held = get_kernel("convolve");
        cl_kernel kernel = held.handle<cl_kernel>();
        const std::size_t items = ITEMS;
        CHECK(clSetKernelArg(kernel, 0, sizeof in, &in) == CL_SUCCESS);
        CHECK(clSetKernelArg(kernel, 1, sizeof out, &out) == CL_SUCCESS);
        CHECK(clEnqueueNDRangeKernel(eng.cl.queue, kernel, 1, nullptr, &items, nullptr, 0, nullptr,
                                     nullptr) == CL_SUCCESS);
        CHECK(clEnqueueReadBuffer(eng.cl.queue, out, CL_TRUE, 0, y.size() * sizeof y[0], y.data(),
                                  0, nullptr, nullptr) == CL_SUCCESS);
        clReleaseMemObject(in);
        clReleaseMemObject(out);
        for (std::size_t i = 0; i < y.size(); i++) {
            if (y[i] != weight * x[i] + 2 * x[i + 1] + 3 * x[i + 2]) {
                return false;
            }
        }
        return true;
    }
};

/* ---- the application's disk ---- */

std::map<std::vector<std::uint8_t>, std::vector<std::uint8_t>> disk;

void store_cache_blob_on_disk(const std::vector<std::uint8_t> &key,
                              const std::vector<std::uint8_t> &value)
{
    disk[key] = value;
}

std::vector<std::uint8_t> load_cache_blob_from_disk(const std::vector<std::uint8_t> &key)
{
    return disk[key];
}

void seed_000_the_usage_example(const opencl &on)
{
    {
        const engine eng(on);
        convolution_forward::primitive_desc conv_pd(source, "-DWEIGHT=1", eng);
        convolution_forward conv(conv_pd);
        CHECK(conv.execute(eng, 1));
        std::vector<std::uint8_t> key = conv_pd.get_cache_blob_id();
        std::vector<std::uint8_t> value = conv.get_cache_blob();
        CHECK(!key.empty() && key == conv_pd.get_cache_blob_id() && !value.empty());
        CHECK(conv.get_cache_blob() == value);
        store_cache_blob_on_disk(key, value);
    }
    {
        const engine eng(on);
        convolution_forward::primitive_desc conv_pd(source, "-DWEIGHT=1", eng);
        std::vector<std::uint8_t> key = conv_pd.get_cache_blob_id();
        std::vector<std::uint8_t> value = load_cache_blob_from_disk(key);
        CHECK(!value.empty());
        kiln_program_result result = kiln::params<kiln_program_result>();
        convolution_forward conv_from_cache_blob(conv_pd, value, &result);
        CHECK(result.from == KILN_PROGRAM_FROM_BLOB);
        CHECK(conv_from_cache_blob.execute(eng, 1));
        CHECK(conv_from_cache_blob.get_cache_blob() == value);

        convolution_forward::primitive_desc other(source, "-DWEIGHT=5", eng);
        CHECK(load_cache_blob_from_disk(other.get_cache_blob_id()).empty());
        CHECK(convolution_forward(other).execute(eng, 5));
    }
}

} // namespace

int main()
{
    const opencl on;
    seed_000_the_usage_example(on);
    return 0;
}
