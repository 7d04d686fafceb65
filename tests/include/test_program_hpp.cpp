/* SPDX-License-Identifier: Apache-2.0
 *
 * program.hpp: contexts, descriptions, programs, kernels and blobs. Also compiled without
 * exceptions: then a failure is returned, or yields an empty object.
 */
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <ftw.h>
#include <unistd.h>

#include <kiln/kiln.hpp>

#include "support/text_device.hpp"

#define CHECK(condition) check(static_cast<bool>(condition), #condition, __LINE__)

static void check(bool holds, const char *condition, int line)
{
    if (!holds) {
        std::fprintf(stderr, "line %d: %s\n", line, condition);
        std::exit(1);
    }
}

using kiln::status;

static kiln::program_desc describe(const kiln::program_context &context, const std::string &code,
                                   std::uint64_t image = 0)
{
    kiln_program_desc_params params = kiln::params<kiln_program_desc_params>();
    params.form = KILN_SOURCE_TEXT;
    params.code = {code.data(), code.size()};
    params.image = image;
    return kiln::program_desc(context, params);
}

static const std::string &text_of(const kiln::program &program)
{
    return program.handle<text_device::program *>()->text;
}

static void test_programs_are_built_once()
{
    text_device::builds = 0;
    kiln::program_context context(text_device::context_params());
    CHECK(context);
    const kiln::program_desc desc = describe(context, "f");
    kiln_program_result first = kiln::params<kiln_program_result>();
    kiln_program_result second = kiln::params<kiln_program_result>();
    const kiln::program program(desc, &first);
    const kiln::program again(describe(context, "f"), &second);
    CHECK(text_of(program) == "built f" && text_device::builds == 1);
    CHECK(program.handle<void *>() == again.handle<void *>());
    CHECK(first.from == KILN_PROGRAM_FROM_BUILD && second.from == KILN_PROGRAM_FROM_MEMORY);
    CHECK(context.program_stats().entries == 1);
    CHECK(desc.key() == describe(context, "f").key() && desc.key() != describe(context, "g").key());
    std::size_t size = 0;
    const std::uint8_t *id = nullptr;
    CHECK(kiln_program_desc_cache_blob_id(desc.get(), &size, &id) == KILN_OK);
    CHECK(desc.get_cache_blob_id() == std::vector<std::uint8_t>(id, id + size));
    const kiln::program copy = again;
    CHECK(copy.get() != nullptr && text_of(copy) == "built f");
}

static std::atomic<bool> is_building{false}, may_finish{false};

static kiln_status build_in_time(void *device, const kiln_program_source *source,
                                 void **ret_program, char **ret_log)
{
    is_building = true;
    while (!may_finish) {
        std::this_thread::yield();
    }
    return text_device::build(device, source, ret_program, ret_log);
}

static void test_a_program_that_another_thread_builds()
{
    kiln_device_ops ops = text_device::make_ops();
    ops.build = build_in_time;
    kiln_program_context_params params = text_device::context_params();
    params.ops = &ops;
    kiln::program_context context(params);
    const kiln::program_desc desc = describe(context, "f");
    kiln::pending_program pending;
    CHECK(!kiln::program::find(desc, pending) && !pending);
    std::thread builder([&desc] { CHECK(text_of(kiln::program(desc)) == "built f"); });
    while (!is_building) {
        std::this_thread::yield();
    }
    CHECK(!kiln::program::find(desc, pending) && pending);
    std::atomic<int> notices{0};
    CHECK(pending.notify([&notices] { notices++; }) == status::success && notices == 0);
    kiln_program_params at_once = kiln::params<kiln_program_params>();
    at_once.wait_ns = KILN_NO_WAIT;
    CHECK(!kiln::program(desc, at_once));
    status how = status::success;
    CHECK(!pending.wait(KILN_NO_WAIT, &how) && how == status::timeout);
    may_finish = true;
    const kiln::program built = pending.wait(0, &how);
    builder.join();
    CHECK(text_of(built) == "built f" && how == status::success && notices == 1);
    CHECK(kiln::program::find(desc, pending).get() == built.get() && !pending);
    kiln_program_result result = kiln::params<kiln_program_result>();
    CHECK(kiln::program(desc, at_once, &result).get() == built.get());
    CHECK(result.from == KILN_PROGRAM_FROM_MEMORY);
}

static void test_programs_outlive_their_context()
{
    kiln::program kept;
    CHECK(!kept);
    {
        const kiln::program_context context(text_device::context_params());
        kept = kiln::program(describe(context, "f"));
    }
    CHECK(text_of(kept) == "built f" && text_device::live == 1);
    kept = kiln::program();
    CHECK(text_device::live == 0);
}

static void test_the_next_context_loads(const std::string &folder)
{
    text_device::builds = 0;
    const kiln::store store(folder);
    for (int i = 0; i < 2; i++) {
        kiln_program_context_params params = text_device::context_params();
        params.store = store.get();
        kiln::program_context context(params);
        CHECK(text_of(kiln::program(describe(context, "f"))) == "built f");
        CHECK(context.drain(UINT64_C(60000000000)) == status::success);
    }
    CHECK(text_device::builds == 1);
    kiln_program_context_params params = text_device::context_params();
    params.store = store.get();
    kiln::program_context context(params);
    const std::vector<kiln::program_desc> descs = {describe(context, "g"), describe(context, "f")};
    CHECK(kiln::program::prefetch(descs) == 1 && kiln::program::prefetch(descs) == 0);
    CHECK(kiln::program::prefetch({}) == 0);
    CHECK(text_of(kiln::program(descs[1])) == "built f" && text_device::builds == 1);
}

static void test_it_is_governed()
{
    kiln::program_context context(text_device::context_params());
    const kiln::program_desc desc = describe(context, "f", 7);
    CHECK(kiln::program(desc).is_cacheable() && desc.is_cacheable());
    CHECK(context.remove_image(7) == 1 && context.program_stats().entries == 0);
    kiln::program program(desc);
    CHECK(context.program_stats().entries == 1);
    context.clear();
    CHECK(context.program_stats().entries == 0);
    CHECK(context.set_capacity(0, 0) == status::success && !desc.is_cacheable());
    CHECK(desc.caching().memory == KILN_UNCACHED_OFF && *desc.caching().text != '\0');
    std::uint64_t bytes = 1, entries = 1;
    CHECK(context.get_capacity(&bytes, &entries) == status::success && bytes + entries == 0);
}

static void test_kernels()
{
    kiln::program_context context(text_device::context_params());
    const kiln::program_desc desc = describe(context, "f");
    const kiln::kernel_desc name(desc, "k");
    {
        const kiln::kernel_section section(context);
        CHECK(section.peek<void *>(name) == nullptr);
    }
    const kiln::kernel kernel(name);
    CHECK(kernel.handle<text_device::program *>()->text == "built f: k");
    CHECK(kernel.program_handle<text_device::program *>()->text == "built f");
    {
        const kiln::kernel_section section(context);
        CHECK(section.peek<void *>(name) == kernel.handle<void *>());
    }
    const std::lock_guard<const kiln::kernel> alone(kernel);
    const kiln::kernel same = kiln::program(desc).get_kernel("k");
    CHECK(same.handle<void *>() == kernel.handle<void *>() && context.kernel_stats().entries == 1);
}

static void test_listeners()
{
    std::string told;
    kiln::program_context context(text_device::context_params());
    const kiln::program_desc desc = describe(context, "f");
    {
        const kiln::program_listener programs(
            context, KILN_EVENT_INSERTED, [&](const kiln_program_event &event) {
                CHECK(kiln_key_equals(event.key, desc.key().get()));
                told += static_cast<text_device::program *>(event.handle)->text + '.';
            });
        const kiln::kernel_listener kernels(
            context, KILN_EVENT_INSERTED | KILN_EVENT_CLEARED,
            [&](const kiln_program_event &event) { told += event.name ? event.name : "cleared"; });
        CHECK(kiln::kernel(kiln::kernel_desc(desc, "k")));
        context.clear();
    }
    CHECK(kiln::program(desc));
    CHECK(told == "built f.kcleared");
}

/* The second thread gets the lock once the first has released it. */
static void test_the_lock_of_a_kernel()
{
    kiln::program_context context(text_device::context_params());
    const kiln::kernel kernel(kiln::kernel_desc(describe(context, "f"), "k"));
    std::atomic<bool> is_coming{false}, is_in{false};
    kernel.lock();
    std::thread second([&] {
        is_coming = true;
        const std::lock_guard<const kiln::kernel> alone(kernel);
        is_in = true;
    });
    while (!is_coming) {
        std::this_thread::yield();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(!is_in);
    kernel.unlock();
    second.join();
    CHECK(is_in);
}

/* The error of the second device is not that of the first. */
static void test_devices()
{
    kiln_program_context_params params = text_device::context_params();
    void *devices[] = {&params, &devices};
    params.devices = devices;
    params.device_count = 2;
    kiln::program_context context(params);
    const kiln::program own =
        kiln::program::adopt(context, 1, new text_device::program("the user's"));
    const kiln::kernel one = own.get_kernel("k", 1), two = own.get_kernel("l", 1);
    CHECK(one && two);
    const kiln::program built(describe(context, "f"));
    const kiln::kernel kernels[] = {built.get_kernel("k"), built.get_kernel("l")};
    CHECK(kernels[0] && kernels[1]);
    CHECK(context.kernel_stats().entries == 2 && context.program_stats().entries == 1);
}

static void test_empty_kernels()
{
    kiln::program_context context(text_device::context_params());
    const kiln::kernel_section section(context);
    CHECK(section.peek<void *>(kiln::kernel_desc()) == nullptr);
#ifdef KILN_NO_EXCEPTIONS
    const kiln::kernel_desc name(describe(context, "f"), "k");
    CHECK(kiln::kernel(name));
    const kiln::program_context none(kiln::params<kiln_program_context_params>());
    CHECK(!none);
    const kiln::kernel_section of_none(none);
    CHECK(of_none.peek<void *>(name) == nullptr);
#endif
}

/* If a new context is assigned to a variable, the variable's previous context is freed at once. */
static void test_assigning_to_a_context_ends_it()
{
    kiln::program_context a(text_device::context_params());
    kiln::program_context b(text_device::context_params());
    CHECK(kiln::program(describe(a, "f")) && text_device::live == 1);
    a = std::move(b);
    CHECK(text_device::live == 0 && a);
}

static void test_adopted_programs()
{
    kiln::program_context context(text_device::context_params());
    {
        const kiln::program own =
            kiln::program::adopt(context, 0, new text_device::program("the user's"));
        CHECK(text_of(own) == "the user's" && !own.is_cacheable());
        CHECK(own.caching().memory == KILN_UNCACHED_INTEROP);
        CHECK(own.get_kernel("k").handle<text_device::program *>()->text == "the user's: k");
    }
    CHECK(text_device::live == 0);
}

/* Returns whether @make fails to make a program, with this status. */
template <typename Make> static bool fails(Make make, status expected)
{
#ifdef KILN_NO_EXCEPTIONS
    (void)expected;
    return !make();
#else
    try {
        make();
    } catch (const kiln::error &failed) {
        return failed.status() == expected && *failed.what() != '\0';
    }
    return false;
#endif
}

/* The failure has its own message. */
static void test_a_description_that_fails()
{
    kiln::program_context context(text_device::context_params());
    kiln_spec_constant constants[2] = {};
    kiln_program_desc_params params = kiln::params<kiln_program_desc_params>();
    params.form = KILN_SOURCE_TEXT;
    params.constants = constants;
    params.constant_count = 2;
    CHECK(fails([&] { return kiln::program_desc(context, params); }, status::invalid_arguments));
#ifndef KILN_NO_EXCEPTIONS
    try {
        kiln::program_desc desc(context, params);
    } catch (const kiln::error &failed) {
        CHECK(std::strcmp(failed.what(), kiln_status_text(KILN_E_INVALID)) != 0);
    }
#endif
}

static void test_failing_calls()
{
    kiln::program_context context(text_device::context_params());
    const kiln::program_desc wrong = describe(context, "wrong");
    CHECK(fails([&] { return kiln::program(wrong); }, status::build_failed));
    const kiln::program_desc f = describe(context, "f");
    const std::vector<std::uint8_t> blob = kiln::program(f).get_cache_blob();
    CHECK(!blob.empty());
    context.clear();
    CHECK(fails([&] { return kiln::program(describe(context, "g"), blob); }, status::refused));
    const std::vector<std::uint8_t> half(blob.begin(), blob.begin() + 20);
    CHECK(fails([&] { return kiln::program(f, half); }, status::corrupt));
    kiln_program_result result = kiln::params<kiln_program_result>();
    CHECK(text_of(kiln::program(f, blob, &result)) == "built f");
    CHECK(result.from == KILN_PROGRAM_FROM_BLOB);
    /* A text with a zero byte inside must not be treated as if it ended there. */
    const std::string two("k\0l", 3);
    CHECK(fails([&] { return kiln::kernel_desc(f, two); }, status::invalid_arguments));
    CHECK(fails([&] { return kiln::program(f).get_kernel(two); }, status::invalid_arguments));
    context.clear();
    CHECK(text_of(kiln::program(f, std::vector<std::uint8_t>())) == "built f");
}

static void test_a_device_without_binaries_is_served()
{
    kiln_device_ops ops = text_device::make_ops();
    ops.capture_cost = KILN_CAPTURE_NEVER;
    kiln_program_context_params params = text_device::context_params();
    params.ops = &ops;
    kiln::program_context context(params);
    const kiln::program_desc desc = describe(context, "f");
    CHECK(desc.get_cache_blob_id().empty());
    const std::vector<std::uint8_t> blob = kiln::program(desc).get_cache_blob();
    CHECK(blob.empty());
    CHECK(text_of(kiln::program(desc, blob)) == "built f");
}

static void test_the_environment()
{
    const kiln::config config = kiln::sycl_config([](void *, const char *name) -> const char * {
        return std::strcmp(name, "SYCL_PROGRAM_APPEND_COMPILE_OPTIONS") == 0 ? "-O1" : nullptr;
    });
    const kiln_program_context_params params = kiln::program_params(config);
    CHECK(params.rules == KILN_RULES_IMAGES && std::strcmp(params.appended.compile, "-O1") == 0);
}

static int remove_one(const char *path, const struct stat *, int, struct FTW *)
{
    return remove(path);
}

int main()
{
    const char *temporary = std::getenv("TMPDIR");
    std::string folder = std::string(temporary ? temporary : "/tmp") + "/kiln-test-XXXXXX";
    CHECK(mkdtemp(&folder[0]) != nullptr);
    test_programs_are_built_once();
    test_a_program_that_another_thread_builds();
    test_programs_outlive_their_context();
    test_the_next_context_loads(folder + "/store");
    test_it_is_governed();
    test_kernels();
    test_listeners();
    test_the_lock_of_a_kernel();
    test_devices();
    test_empty_kernels();
    test_assigning_to_a_context_ends_it();
    test_adopted_programs();
    test_a_description_that_fails();
    test_failing_calls();
    test_a_device_without_binaries_is_served();
    test_the_environment();
    CHECK(text_device::live == 0);
    CHECK(nftw(folder.c_str(), remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0);
    return 0;
}
