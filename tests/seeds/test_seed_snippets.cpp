/* SPDX-License-Identifier: Apache-2.0
 *
 * The C++ of the documents, as users of oneDNN or backends would write it, against kiln.hpp: the
 * calls of the persistent cache and the usage of blobs (000), and setting budgets and looking up
 * constants (002, 003). docs/seeds.md names each test beside its statement.
 */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ftw.h>
#include <unistd.h>

#include <kiln/kiln.hpp>

#include "support/sycl_device.hpp"
#include "support/text_device.hpp"

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

using kiln::engine;
using kiln::status;

/* ---- 000, option 1 ---- */

void seed_000_the_calls_of_option_1()
{
    status set = kiln::set_persistent_cache(0, engine::kind::gpu);
    CHECK(set == status::success && !kiln::get_persistent_cache(engine::kind::gpu));
    set = kiln::set_persistent_cache(1, engine::kind::gpu);
    CHECK(set == status::success);
    bool enabled = kiln::get_persistent_cache(engine::kind::gpu);
    CHECK(enabled);
    int capacity = kiln::get_persistent_cache_capacity();
    CHECK(capacity == 0);
    set = kiln::set_persistent_cache_capacity(512);
    CHECK(set == status::success && kiln::get_persistent_cache_capacity() == 512);
    set = kiln::set_persistent_cache_dir("/nowhere/persistent_cache");
    CHECK(set == status::success);
    CHECK(kiln::set_persistent_cache_capacity(0) == status::success);
}

/* ---- 000, option 2 ---- */

struct convolution_forward : kiln::primitive {
    struct primitive_desc : kiln::primitive_desc_base {
        primitive_desc(const std::string &desc, int attr, const kiln::program_context &engine)
            : primitive_desc(engine, desc + std::to_string(attr))
        {
        }

      private:
        primitive_desc(const kiln::program_context &engine, const std::string &code)
            : kiln::primitive_desc_base(engine, described(code))
        {
        }

        static kiln_program_desc_params described(const std::string &code)
        {
            kiln_program_desc_params params = kiln::params<kiln_program_desc_params>();
            params.form = KILN_SOURCE_TEXT;
            params.code = {code.data(), code.size()};
            return params;
        }
    };

    using kiln::primitive::primitive;
};

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

void seed_000_the_usage_example()
{
    const std::string desc = "convolution";
    const int attr = 3;
    text_device::builds = 0;
    {
        kiln::program_context engine(text_device::context_params());
        convolution_forward::primitive_desc conv_pd(desc, attr, engine);
        convolution_forward conv(conv_pd);
        std::vector<std::uint8_t> key = conv_pd.get_cache_blob_id();
        std::vector<std::uint8_t> value = conv.get_cache_blob();
        CHECK(!key.empty() && !value.empty() && text_device::builds == 1);
        store_cache_blob_on_disk(key, value);
    }
    {
        kiln::program_context engine(text_device::context_params());
        convolution_forward::primitive_desc conv_pd(desc, attr, engine);
        std::vector<std::uint8_t> key = conv_pd.get_cache_blob_id();
        std::vector<std::uint8_t> value = load_cache_blob_from_disk(key);
        convolution_forward conv_from_cache_blob(conv_pd, value);
        CHECK(conv_from_cache_blob.handle<text_device::program *>()->text == "built convolution3");
        CHECK(conv_from_cache_blob.get_cache_blob() == value && text_device::builds == 1);
        CHECK(conv_from_cache_blob.is_cacheable());
    }
}

/* Kiln's stores can keep blobs too, for users without a cache of their own. */
void seed_000_a_blob_in_a_store(const std::string &folder)
{
    const kiln::store store(folder);
    text_device::builds = 0;
    for (int i = 0; i < 2; i++) {
        kiln::program_context engine(text_device::context_params());
        const convolution_forward::primitive_desc conv_pd("convolution", 5, engine);
        const std::vector<std::uint8_t> id = conv_pd.get_cache_blob_id();
        const kiln::key key = kiln::key_builder().add("blob", id.data(), id.size()).finish();
        const kiln::entry found = store.get(key);
        CHECK(static_cast<bool>(found) == (i == 1));
        if (found) {
            const auto *bytes = static_cast<const std::uint8_t *>(found.payload().data);
            const std::vector<std::uint8_t> blob(bytes, bytes + found.payload().size);
            CHECK(convolution_forward(conv_pd, blob).get_cache_blob() == blob);
        } else {
            const std::vector<std::uint8_t> blob = convolution_forward(conv_pd).get_cache_blob();
            CHECK(store.put(kiln::entry(key, blob.data(), blob.size())) == status::success);
        }
    }
    CHECK(text_device::builds == 1);
}

/* ---- 001: kernels of programs, by name ---- */

void seed_001_a_kernel_is_its_programs()
{
    kiln::program_context context(text_device::context_params());
    const convolution_forward::primitive_desc desc("f", 1, context);
    const kiln::program program(desc);
    const kiln::kernel first = program.get_kernel("the_kernel");
    const kiln::kernel again{kiln::kernel_desc(desc, "the_kernel")};
    CHECK(first.handle<text_device::program *>()->text == "built f1: the_kernel");
    CHECK(again.handle<void *>() == first.handle<void *>());
    CHECK(desc.is_cacheable() && context.kernel_stats().entries == 1);
}

/* ---- 002 and 003, users ---- */

void seed_002_the_capacity_calls()
{
    kiln::set_constant_tensor_cache_capacity(engine::kind::cpu, 10240);
    std::size_t capacity = kiln::get_constant_tensor_cache_capacity(engine::kind::cpu);
    CHECK(capacity == 10240);
    kiln::set_constant_tensor_cache(0);
    CHECK(kiln::get_constant_tensor_cache() == 0);
    kiln::set_constant_tensor_cache(1);
    CHECK(kiln::get_constant_tensor_cache() == 1);
}

void seed_003_the_calls_with_a_policy()
{
    std::size_t size = 0;
    kiln::policy_t policy = kiln::NO_EVICT;
    kiln::set_constant_tensor_cache_capacity(engine::kind::cpu, 64, kiln::COST);
    kiln::get_constant_tensor_cache_capacity(engine::kind::cpu, &size, &policy);
    CHECK(size == 64 && policy == kiln::COST);
    kiln::set_constant_tensor_cache_capacity(engine::kind::cpu, 64, kiln::NO_EVICT);
    kiln::get_constant_tensor_cache_capacity(engine::kind::cpu, &size, &policy);
    CHECK(size == 64 && policy == kiln::NO_EVICT);
    kiln::set_constant_tensor_cache(1);
}

void seed_003_the_calls_for_one_device()
{
    std::size_t size = 0;
    kiln::set_constant_tensor_cache_capacity(engine::kind::gpu, 1, 2048);
    kiln::get_constant_tensor_cache_capacity(engine::kind::gpu, 1, &size);
    CHECK(size == 2048);
    kiln::get_constant_tensor_cache_capacity(engine::kind::gpu, 0, &size);
    CHECK(size != 2048);

    const sycl::device dev(sycl::backend::opencl);
    kiln::sycl_interop::set_constant_tensor_cache_capacity(dev, 4096);
    kiln::sycl_interop::get_constant_tensor_cache_capacity(dev, &size);
    CHECK(size == 4096);
    kiln::set_constant_tensor_cache(1);
}

/* ---- 002 and 003, a backend ---- */

struct dnnl_engine {
    int index;
};

struct dnnl_allocator {
    void retain()
    {
        users++;
    }

    void release()
    {
        users--;
    }

    int users;
};

/* Both functions get the engine and the allocator of the buffer. The buffer has retained the
 * allocator. */
void *allocate(std::size_t size, const dnnl_engine &engine, const dnnl_allocator *allocator)
{
    CHECK(engine.index == 3 && allocator->users == 1);
    return std::malloc(size);
}

void deallocate(void *data, const dnnl_engine &engine, const dnnl_allocator *allocator)
{
    CHECK(engine.index == 3 && allocator->users == 1);
    std::free(data);
}

struct dnnl_constant_buffer_t : kiln::device_constant_buffer_t<dnnl_engine, dnnl_allocator> {
    dnnl_constant_buffer_t(std::size_t size, const dnnl_engine &engine,
                           const dnnl_allocator *allocator)
        : device_constant_buffer_t(size, engine, allocator, allocate, deallocate)
    {
    }
};

using cache_t = kiln::unified_constant_tensor_cache_t;

/* Executes once. Returns the content of the tensor, and whether it was found in the cache. */
int execute(const cache_t &cache, const dnnl_engine &p_engine_, const dnnl_allocator *g_alloc_,
            bool *ret_is_from_cache)
{
    const std::size_t bkd_id = 1, spec_key = 2, size = sizeof(int);
    cache_t::promise_t c_promise;
    cache_t::value_t cached_value =
        cache.get_or_add(bkd_id, spec_key, size, c_promise.get_future());
    bool is_from_cache = cached_value.valid();
    *ret_is_from_cache = is_from_cache;
    if (is_from_cache) {
        cache_t::cached_t c_buffer = cached_value.get();
        return *c_buffer->data<int>();
    }
    cache_t::cached_t c_buffer =
        std::make_shared<dnnl_constant_buffer_t>(size, p_engine_, g_alloc_);
    *c_buffer->data<int>() = 42;
    c_promise.set_value(c_buffer);
    return *c_buffer->data<int>();
}

void seed_002_the_lookup_example()
{
    const dnnl_engine engine_of_cpu = {3};
    dnnl_allocator allocator = {0};
    const cache_t cache(engine::kind::cpu);
    bool is_from_cache = true;
    CHECK(execute(cache, engine_of_cpu, &allocator, &is_from_cache) == 42 && !is_from_cache);
    CHECK(execute(cache, engine_of_cpu, &allocator, &is_from_cache) == 42 && is_from_cache);
    CHECK(cache.get_size() == sizeof(int) && allocator.users == 1);
    CHECK(kiln::get_unified_constant_tensor_cache_t<engine::kind::cpu>().get() == cache.get());
    CHECK(kiln::get_unified_constant_tensor_cache_t<engine::kind::gpu>().get_size() == 0);
    cache.remove_if_exist(1, std::size_t(2));
    CHECK(cache.get_size() == 0 && allocator.users == 0);
    CHECK(execute(cache, engine_of_cpu, &allocator, &is_from_cache) == 42 && !is_from_cache);
    kiln::set_constant_tensor_cache(1); /* setting the flag empties the cache */
    CHECK(allocator.users == 0);
}

} // namespace

static int remove_one(const char *path, const struct stat *, int, struct FTW *)
{
    return remove(path);
}

int main()
{
    const char *temporary = std::getenv("TMPDIR");
    std::string folder = std::string(temporary ? temporary : "/tmp") + "/kiln-test-XXXXXX";
    CHECK(mkdtemp(&folder[0]) != nullptr);
    seed_000_a_blob_in_a_store(folder + "/store");
    CHECK(nftw(folder.c_str(), remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0);
    seed_000_the_calls_of_option_1();
    seed_000_the_usage_example();
    seed_001_a_kernel_is_its_programs();
    seed_002_the_capacity_calls();
    seed_003_the_calls_with_a_policy();
    seed_003_the_calls_for_one_device();
    seed_002_the_lookup_example();
    return 0;
}
