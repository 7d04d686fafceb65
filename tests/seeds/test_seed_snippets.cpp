/* SPDX-License-Identifier: Apache-2.0
 *
 * The C++ of the documents, as a user of oneDNN or a backend would write it, against kiln.hpp: the
 * calls of the persistent cache and the usage of blobs (000), governing and looking up constants
 * (002, 003). docs/seeds.md names each test beside the statement that it is of.
 */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

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

using kiln::engine;
using kiln::status;

/* ---- a device runtime: programs are texts, and what is built of "f" is "built f" ---- */

int builds;

struct built_text {
    std::string text;
};

kiln_status identify(void *, kiln_key_builder *key)
{
    return kiln_key_builder_add_text(key, "device", "a device of texts");
}

kiln_status describe(void *, const kiln_program_source *source, kiln_key_builder *key, kiln_error *)
{
    return kiln_key_builder_add(key, "source", source->code.data, source->code.size);
}

kiln_status build(void *, const kiln_program_source *source, void **ret_program, char **)
{
    builds++;
    const std::string code(static_cast<const char *>(source->code.data), source->code.size);
    *ret_program = new built_text{"built " + code};
    return KILN_OK;
}

kiln_status capture(void *, void *program, kiln_capture *ret_capture)
{
    const std::string &text = static_cast<built_text *>(program)->text;
    void *copy = std::malloc(text.size());
    if (!copy) {
        return KILN_E_NO_MEMORY;
    }
    *ret_capture = kiln_capture();
    ret_capture->payload = std::memcpy(copy, text.data(), text.size());
    ret_capture->payload_size = text.size();
    return KILN_OK;
}

kiln_status load(void *, const kiln_program_source *, const kiln_entry *entry, void **ret_program)
{
    const kiln_bytes payload = kiln_entry_payload(entry);
    *ret_program =
        new built_text{std::string(static_cast<const char *>(payload.data), payload.size)};
    return KILN_OK;
}

kiln_status make_kernel(void *, void *program, const char *name, void **ret_kernel)
{
    *ret_kernel = new built_text{static_cast<built_text *>(program)->text + ": " + name};
    return KILN_OK;
}

void release(void *, void *text)
{
    delete static_cast<built_text *>(text);
}

kiln_device_ops make_ops()
{
    kiln_device_ops ops = kiln::params<kiln_device_ops>();
    ops.name = "texts";
    ops.capture_cost = KILN_CAPTURE_CHEAP;
    ops.identity = identify;
    ops.describe = describe;
    ops.build = build;
    ops.capture = capture;
    ops.load = load;
    ops.kernel = make_kernel;
    ops.release_program = release;
    ops.release_kernel = release;
    return ops;
}

const kiln_device_ops ops = make_ops();
void *the_device = &builds;

kiln_program_context_params context_params()
{
    kiln_program_context_params params = kiln::params<kiln_program_context_params>();
    params.ops = &ops;
    params.devices = &the_device;
    params.device_count = 1;
    return params;
}

/* ---- 000, option 1 ---- */

void seed_000_the_calls_of_option_1()
{
    status set = kiln::set_persistent_cache(1, engine::kind::gpu);
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
    builds = 0;
    {
        kiln::program_context engine(context_params());
        convolution_forward::primitive_desc conv_pd(desc, attr, engine);
        convolution_forward conv(conv_pd);
        std::vector<std::uint8_t> key = conv_pd.get_cache_blob_id();
        std::vector<std::uint8_t> value = conv.get_cache_blob();
        CHECK(!key.empty() && !value.empty() && builds == 1);
        store_cache_blob_on_disk(key, value);
    }
    {
        kiln::program_context engine(context_params());
        convolution_forward::primitive_desc conv_pd(desc, attr, engine);
        std::vector<std::uint8_t> key = conv_pd.get_cache_blob_id();
        std::vector<std::uint8_t> value = load_cache_blob_from_disk(key);
        convolution_forward conv_from_cache_blob(conv_pd, value);
        CHECK(conv_from_cache_blob.handle<built_text *>()->text == "built convolution3");
        CHECK(conv_from_cache_blob.get_cache_blob() == value && builds == 1);
        CHECK(conv_from_cache_blob.is_cacheable());
    }
}

/* ---- 001: kernels of programs, by name ---- */

void seed_001_a_kernel_is_its_programs()
{
    kiln::program_context context(context_params());
    const convolution_forward::primitive_desc desc("f", 1, context);
    const kiln::program program(desc);
    const kiln::kernel first = program.get_kernel("the_kernel");
    const kiln::kernel again{kiln::kernel_desc(desc, "the_kernel")};
    CHECK(first.handle<built_text *>()->text == "built f1: the_kernel");
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

void seed_003_the_calls_for_one_device()
{
    std::size_t size = 0;
    kiln::set_constant_tensor_cache_capacity(engine::kind::gpu, 1, 2048);
    kiln::get_constant_tensor_cache_capacity(engine::kind::gpu, 1, &size);
    CHECK(size == 2048);
    kiln::get_constant_tensor_cache_capacity(engine::kind::gpu, 0, &size);
    CHECK(size != 2048);
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

void *allocate(std::size_t size, const dnnl_engine &, const dnnl_allocator *)
{
    return std::malloc(size);
}

void deallocate(void *data, const dnnl_engine &, const dnnl_allocator *)
{
    std::free(data);
}

struct dnnl_constant_buffer_t : kiln::device_constant_buffer_t<dnnl_engine, dnnl_allocator> {
    dnnl_constant_buffer_t(std::size_t size, const dnnl_engine &engine,
                           const dnnl_allocator *allocator)
        : device_constant_buffer_t(size, engine, allocator, allocate, deallocate)
    {
    }
};

using cache_t = kiln::constant_tensor_cache_t;

/* One execution: what the tensor holds, and whether it was found. */
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
    const dnnl_engine engine_of_cpu = {0};
    dnnl_allocator allocator = {0};
    const cache_t cache(engine::kind::cpu);
    bool is_from_cache = true;
    CHECK(execute(cache, engine_of_cpu, &allocator, &is_from_cache) == 42 && !is_from_cache);
    CHECK(execute(cache, engine_of_cpu, &allocator, &is_from_cache) == 42 && is_from_cache);
    CHECK(cache.get_size() == sizeof(int) && allocator.users == 1);
    cache.remove_if_exist(1, std::size_t(2));
    CHECK(cache.get_size() == 0 && allocator.users == 0);
    CHECK(execute(cache, engine_of_cpu, &allocator, &is_from_cache) == 42 && !is_from_cache);
    kiln::set_constant_tensor_cache(1); /* which empties it */
    CHECK(allocator.users == 0);
}

} // namespace

int main()
{
    seed_000_the_calls_of_option_1();
    seed_000_the_usage_example();
    seed_001_a_kernel_is_its_programs();
    seed_002_the_capacity_calls();
    seed_003_the_calls_for_one_device();
    seed_002_the_lookup_example();
    return 0;
}
