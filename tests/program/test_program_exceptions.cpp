/* SPDX-License-Identifier: Apache-2.0
 *
 * Device ops that throw: the exception reaches the caller; no thread waits for ever, and nothing
 * leaks.
 */
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>

#include <kiln/program.h>
#include <kiln/store.h>

#include "support/text_device.hpp"

#define CHECK(condition) check(condition, #condition, __LINE__)

static void check(bool holds, const char *condition, int line)
{
    if (!holds) {
        fprintf(stderr, "%s:%d: %s\n", __FILE__, line, condition);
        exit(1);
    }
}

/* ---- a device with an op that throws once ---- */

enum op { NONE, BUILD, CAPTURE, LOAD, KERNEL, COMPILE, LINK, BYTES };

static op throwing;
static kiln_program_context *watched; /* a build throws once a thread waits here; NULL: at once */

static void fail_in(op here)
{
    if (throwing == here) {
        throwing = NONE;
        throw std::runtime_error("of the device");
    }
}

static bool has_waiters(kiln_program_context *context)
{
    kiln_cache_stats stats = kiln::params<kiln_cache_stats>();
    CHECK(kiln_program_context_get_program_stats(context, &stats) == KILN_OK);
    return stats.waits > 0;
}

static kiln_status build(void *device, const kiln_program_source *source, void **ret_program,
                         char **ret_log)
{
    while (throwing == BUILD && watched && !has_waiters(watched)) {
        std::this_thread::yield();
    }
    fail_in(BUILD);
    return text_device::build(device, source, ret_program, ret_log);
}

static kiln_status capture(void *device, void *made, kiln_capture *ret_capture)
{
    fail_in(CAPTURE);
    return text_device::capture(device, made, ret_capture);
}

static kiln_status load(void *device, const kiln_program_source *source, const kiln_entry *entry,
                        void **ret_program)
{
    fail_in(LOAD);
    return text_device::load(device, source, entry, ret_program);
}

static kiln_status make_kernel(void *device, void *made, const char *name, void **ret_kernel)
{
    fail_in(KERNEL);
    return text_device::make_kernel(device, made, name, ret_kernel);
}

/* Throws when the second input is compiled. */
static kiln_status compile(void *device, const kiln_program_source *source, void **ret_object,
                           char **ret_log)
{
    if (source->code.size > 1) {
        fail_in(COMPILE);
    }
    return text_device::build(device, source, ret_object, ret_log);
}

static kiln_status link_all(void *, void *const *, size_t, const char *, void **ret_program,
                            char **)
{
    fail_in(LINK);
    *ret_program = new text_device::program("linked");
    return KILN_OK;
}

static uint64_t count_bytes(void *, void *)
{
    fail_in(BYTES);
    return 100;
}

static kiln_device_ops make_throwing_ops()
{
    kiln_device_ops ops = text_device::make_ops();
    ops.build = build;
    ops.capture = capture;
    ops.load = load;
    ops.kernel = make_kernel;
    ops.compile = compile;
    ops.link = link_all;
    ops.program_bytes = count_bytes;
    return ops;
}

/* ---- a context of it ---- */

struct scene {
    explicit scene(kiln_store *store = nullptr, uint32_t rules = KILN_RULES_ALL)
    {
        static const kiln_device_ops ops = make_throwing_ops();
        kiln_program_context_params params = text_device::context_params();
        params.ops = &ops;
        params.store = store;
        params.rules = rules;
        CHECK(kiln_program_context_new(&params, &context) == KILN_OK);
        desc = describe("f");
    }

    ~scene()
    {
        kiln_program_desc_release(&desc);
        kiln_program_context_free(&context);
        CHECK(throwing == NONE);
        CHECK(text_device::live == 0);
    }

    kiln_program_desc *describe(const std::string &text) const
    {
        kiln_program_desc_params params = kiln::params<kiln_program_desc_params>();
        params.form = KILN_SOURCE_TEXT;
        params.code = {text.data(), text.size()};
        kiln_program_desc *made = nullptr;
        CHECK(kiln_program_desc_new(context, &params, &made, nullptr) == KILN_OK);
        return made;
    }

    kiln_program_context *context = nullptr;
    kiln_program_desc *desc = nullptr;
};

/* Gets a program, and checks where it came from. */
static kiln_program *get(const kiln_program_desc *desc, uint32_t from)
{
    kiln_program *program = nullptr;
    kiln_program_result result = kiln::params<kiln_program_result>();
    CHECK(kiln_program_get(desc, &program, &result, nullptr) == KILN_OK);
    CHECK(result.from == from);
    CHECK(result.waited == 0);
    return program;
}

static void touch(const kiln_program_desc *desc, uint32_t from)
{
    kiln_program *program = get(desc, from);
    kiln_program_release(&program);
}

/* Returns whether an action throws the device's exception if this op throws it. */
template <typename Action> static void expect_throw(op which, Action action)
{
    throwing = which;
    std::string said;
    try {
        action();
    } catch (const std::runtime_error &error) {
        said = error.what();
    }
    CHECK(said == "of the device");
}

static void expect_throw_of_get(op which, const kiln_program_desc *desc)
{
    kiln_program *program = nullptr;
    expect_throw(which, [&] { kiln_program_get(desc, &program, nullptr, nullptr); });
    CHECK(program == nullptr);
}

/* ---- builds ---- */

static void test_build(uint32_t rules, uint32_t from)
{
    scene s(nullptr, rules);
    expect_throw_of_get(BUILD, s.desc);
    touch(s.desc, from);
}

static void test_build_that_others_wait_for()
{
    scene s;
    watched = s.context;
    throwing = BUILD;
    int thrown = 0;
    auto ask = [&] {
        kiln_program *program = nullptr;
        try {
            CHECK(kiln_program_get(s.desc, &program, nullptr, nullptr) == KILN_OK);
        } catch (const std::runtime_error &) {
            thrown++;
        }
        kiln_program_release(&program);
    };
    std::thread first(ask), second(ask);
    first.join();
    second.join();
    watched = nullptr;
    CHECK(thrown == 1);
    touch(s.desc, KILN_PROGRAM_FROM_MEMORY);
}

static void test_size(uint32_t rules, uint32_t from)
{
    scene s(nullptr, rules);
    expect_throw_of_get(BYTES, s.desc);
    touch(s.desc, from);
}

/* A handle that is not adopted still belongs to the caller. */
static void test_size_of_what_is_adopted()
{
    scene s;
    auto *own = new text_device::program("own");
    kiln_program *program = nullptr;
    auto adopt = [&] { return kiln_program_adopt(s.context, 0, own, &program); };
    expect_throw(BYTES, adopt);
    CHECK(program == nullptr);
    CHECK(own->text == "own");
    CHECK(text_device::live == 1);
    CHECK(adopt() == KILN_OK);
    kiln_program_release(&program);
}

static void test_links(uint32_t rules, uint32_t from)
{
    scene s(nullptr, rules);
    kiln_program_desc *inputs[] = {s.describe("1"), s.describe("22")};
    kiln_program_desc_params params = kiln::params<kiln_program_desc_params>();
    params.linked = inputs;
    params.linked_count = 2;
    kiln_program_desc *desc = nullptr;
    CHECK(kiln_program_desc_new(s.context, &params, &desc, nullptr) == KILN_OK);
    expect_throw_of_get(COMPILE, desc);
    CHECK(text_device::live == 0);
    expect_throw_of_get(LINK, desc);
    CHECK(text_device::live == 0);
    touch(desc, from);
    kiln_program_desc_release(&desc);
    kiln_program_desc_release(&inputs[0]);
    kiln_program_desc_release(&inputs[1]);
}

/* ---- with a store ---- */

static void test_with_a_store()
{
    char directory[] = "/tmp/kiln-test-XXXXXX";
    CHECK(mkdtemp(directory) != nullptr);
    const std::string path = std::string(directory) + "/store";
    kiln_store *store = nullptr;
    CHECK(kiln_store_open(path.c_str(), nullptr, &store, nullptr) == KILN_OK);
    {
        scene s(store);
        expect_throw_of_get(BUILD, s.desc);
        kiln_lease *lease = nullptr;
        CHECK(kiln_store_lease(store, kiln_program_desc_key(s.desc), 0, &lease) == KILN_OK);
        kiln_lease_release(&lease);
        /* The program is shared before it is captured. */
        expect_throw_of_get(CAPTURE, s.desc);
        CHECK(kiln_store_lease(store, kiln_program_desc_key(s.desc), 0, &lease) == KILN_OK);
        kiln_lease_release(&lease);
        touch(s.desc, KILN_PROGRAM_FROM_MEMORY);
        kiln_program_context_clear(s.context);
        touch(s.desc, KILN_PROGRAM_FROM_BUILD);
    }
    {
        scene s(store);
        expect_throw_of_get(LOAD, s.desc);
        touch(s.desc, KILN_PROGRAM_FROM_STORE);
    }
    for (op which : {LOAD, BYTES}) {
        scene s(store);
        std::size_t loaded = 0;
        expect_throw(which, [&] { kiln_program_prefetch(&s.desc, 1, &loaded); });
        CHECK(loaded == 0);
        CHECK(kiln_program_prefetch(&s.desc, 1, &loaded) == KILN_OK && loaded == 1);
        touch(s.desc, KILN_PROGRAM_FROM_MEMORY);
    }
    kiln_store_close(&store);
    CHECK(system(("rm -r " + std::string(directory)).c_str()) == 0);
}

/* ---- kernels ---- */

static void test_kernels()
{
    scene s;
    kiln_kernel_desc *described = nullptr;
    CHECK(kiln_kernel_desc_new(s.desc, "k", &described) == KILN_OK);
    kiln_kernel *kernel = nullptr;
    expect_throw(KERNEL, [&] { kiln_kernel_get(described, &kernel, nullptr); });
    CHECK(kiln_kernel_get(described, &kernel, nullptr) == KILN_OK);
    kiln_kernel_release(&kernel);

    kiln_program *program = get(s.desc, KILN_PROGRAM_FROM_MEMORY);
    for (int is_alone = 0; is_alone < 2; is_alone++) {
        auto ask = [&] { return kiln_program_get_kernel(program, "other", 0, &kernel, nullptr); };
        expect_throw(KERNEL, ask);
        CHECK(ask() == KILN_OK);
        kiln_kernel_release(&kernel);
        kiln_program_context_clear(s.context);
    }
    kiln_program_release(&program);
    kiln_kernel_desc_release(&described);
}

/* ---- blobs ---- */

static void test_blobs(uint32_t rules, uint32_t from)
{
    scene s(nullptr, rules);
    kiln_program *program = get(s.desc, from);
    uint8_t blob[8192];
    size_t size = sizeof blob;
    expect_throw(CAPTURE, [&] { kiln_program_get_cache_blob(program, &size, blob); });
    CHECK(kiln_program_get_cache_blob(program, &size, blob) == KILN_OK);
    kiln_program_release(&program);
    kiln_program_context_clear(s.context);

    auto load_it = [&] {
        return kiln_program_create_from_cache_blob(s.desc, size, blob, &program, nullptr, nullptr);
    };
    for (op which : {LOAD, BYTES}) {
        expect_throw(which, load_it);
        CHECK(program == nullptr);
        CHECK(text_device::live == 0);
    }
    CHECK(load_it() == KILN_OK);
    kiln_program_release(&program);
}

int main()
{
    test_build(KILN_RULES_ALL, KILN_PROGRAM_FROM_BUILD);
    test_build(KILN_RULES_IMAGES, KILN_PROGRAM_FROM_PRIVATE_BUILD);
    test_build_that_others_wait_for();
    test_size(KILN_RULES_ALL, KILN_PROGRAM_FROM_BUILD);
    test_size(KILN_RULES_IMAGES, KILN_PROGRAM_FROM_PRIVATE_BUILD);
    test_size_of_what_is_adopted();
    test_links(KILN_RULES_ALL, KILN_PROGRAM_FROM_BUILD);
    test_links(KILN_RULES_IMAGES, KILN_PROGRAM_FROM_PRIVATE_BUILD);
    test_with_a_store();
    test_kernels();
    test_blobs(KILN_RULES_ALL, KILN_PROGRAM_FROM_BUILD);
    test_blobs(KILN_RULES_IMAGES, KILN_PROGRAM_FROM_PRIVATE_BUILD);
    return 0;
}
