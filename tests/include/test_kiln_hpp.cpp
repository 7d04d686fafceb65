/* SPDX-License-Identifier: Apache-2.0
 *
 * kiln.hpp as C++11. Also compiled without exceptions: then failures are returned.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include <kiln/kiln.hpp>

#define CHECK(condition) check(static_cast<bool>(condition), #condition, __LINE__)

static void check(bool holds, const char *condition, int line)
{
    if (!holds) {
        std::fprintf(stderr, "line %d: %s\n", line, condition);
        std::exit(1);
    }
}

using kiln::engine;
using kiln::persistent_cache_policy;
using kiln::status;

/* Returns whether a call fails with this status. */
template <typename Call> static bool fails(Call call, kiln_status expected)
{
#ifdef KILN_NO_EXCEPTIONS
    return call() == static_cast<status>(expected);
#else
    try {
        call();
    } catch (const kiln::error &error) {
        return error.status() == static_cast<status>(expected) && *error.what() != '\0';
    }
    return false;
#endif
}

static void test_defaults()
{
    CHECK(kiln::get_persistent_cache(engine::kind::cpu));
    CHECK(kiln::get_persistent_cache(engine::kind::gpu));
    CHECK(kiln::get_persistent_cache_capacity() == 0);
    CHECK(kiln::get_persistent_cache_dir() == KILN_PERSISTENT_DEFAULT_DIR);
    CHECK(kiln::get_persistent_cache_policy() == persistent_cache_policy::fifo);
    CHECK(kiln::open_persistent_cache(engine::kind::gpu) == status::miss);
}

static void test_settings(const std::string &folder)
{
    CHECK(kiln::set_persistent_cache(0, engine::kind::cpu) == status::success);
    CHECK(!kiln::get_persistent_cache(engine::kind::cpu));
    CHECK(kiln::get_persistent_cache(engine::kind::gpu));
    CHECK(kiln::set_persistent_cache_capacity(8) == status::success);
    CHECK(kiln::get_persistent_cache_capacity() == 8);
    CHECK(kiln::set_persistent_cache_policy(persistent_cache_policy::no_evict) == status::success);
    CHECK(kiln::get_persistent_cache_policy() == persistent_cache_policy::no_evict);
    CHECK(kiln::set_persistent_cache_policy(persistent_cache_policy::fifo) == status::success);
    CHECK(kiln::set_persistent_cache_dir(folder) == status::success);
    CHECK(kiln::get_persistent_cache_dir() == folder);
}

static void test_failures(const std::string &folder)
{
    const engine::kind none = static_cast<engine::kind>(7);
    CHECK(fails([] { return kiln::set_persistent_cache_capacity(-1); }, KILN_E_INVALID));
    CHECK(fails([] { return kiln::set_persistent_cache(2, engine::kind::gpu); }, KILN_E_INVALID));
    CHECK(fails([=] { return kiln::set_persistent_cache(1, none); }, KILN_E_INVALID));
    CHECK(fails([=] { return kiln::open_persistent_cache(none); }, KILN_E_INVALID));
    CHECK(fails([] { return kiln::set_persistent_cache_dir(std::string("/a\0b", 4)); },
                KILN_E_INVALID));
    CHECK(kiln::get_persistent_cache_capacity() == 8);
    CHECK(kiln::get_persistent_cache_dir() == folder);

    /* The directory is writable by others. */
    const std::string open_to_all = folder + "/open";
    CHECK(mkdir(open_to_all.c_str(), 0700) == 0 && chmod(open_to_all.c_str(), 0777) == 0);
    kiln::set_persistent_cache_dir(open_to_all);
    CHECK(fails([] { return kiln::open_persistent_cache(engine::kind::gpu); }, KILN_E_DENIED));
#ifndef KILN_NO_EXCEPTIONS
    try {
        kiln::open_persistent_cache(engine::kind::gpu);
        CHECK(!"it was opened");
    } catch (const kiln::error &error) {
        const kiln::error copy(error);
        CHECK(std::strstr(copy.what(), open_to_all.c_str()) != nullptr);
        CHECK(copy.system_error() == 0);
    }
#endif
    CHECK(rmdir(open_to_all.c_str()) == 0);
    kiln::set_persistent_cache_dir(folder);
}

static void test_names_of_statuses()
{
    CHECK(std::strcmp(kiln::status_name(status::unimplemented), "KILN_E_UNSUPPORTED") == 0);
    CHECK(std::strcmp(kiln::status_text(status::corrupt), "the bytes are damaged") == 0);
    CHECK(std::strcmp(kiln::status_name(static_cast<status>(77)), "KILN_E_UNKNOWN") == 0);
}

/* Also compiled with inherited constructors as in the first C++11. */
static void test_empty_value_means_none()
{
    CHECK(!kiln::entry() && !kiln::key() && !kiln::program_desc() && !kiln::kernel_desc());
    CHECK(!kiln::kernel() && !kiln::program());
    static_assert(std::is_nothrow_default_constructible<kiln::program>::value, "nothing to do");
}

static kiln::key make_key(const std::string &text)
{
    return kiln::key_builder().add("text", text).add_number("number", 7).finish();
}

static void test_keys()
{
    const kiln::key nothing;
    CHECK(!nothing && nothing.get() == nullptr);
    kiln::key one = make_key(std::string("a\0b", 3));
    const kiln::key same = make_key(std::string("a\0b", 3));
    const kiln::key other = make_key("a");
    CHECK(one && one == same && one != other && one != nothing && nothing == kiln::key());
    kiln::key copy = one;
    CHECK(copy.get() == one.get());
    const kiln::key moved = std::move(one);
    CHECK(!one && moved == same);
    copy = other;
    CHECK(copy == other);
    const kiln::key &itself = copy;
    copy = itself;
    CHECK(copy == other);
    kiln_key_part part;
    CHECK(kiln_key_part_at(same.get(), 0, &part) == KILN_OK && part.size == 3);
    static_assert(std::is_nothrow_move_constructible<kiln::key>::value, "moves don't throw");
    static_assert(std::is_nothrow_copy_constructible<kiln::error>::value, "it is thrown");

#ifdef KILN_NO_EXCEPTIONS
    CHECK(!kiln::key_builder().add("", "x").add("text", "y").finish());
#else
    CHECK(fails([] { kiln::key_builder().add("", "x"); }, KILN_E_INVALID));
    /* A caller that catches the exception can't obtain a key that lacks the part. */
    kiln::key_builder builder;
    builder.add("text", "y");
    CHECK(fails([&] { builder.add("", "x"); }, KILN_E_INVALID));
    CHECK(fails([&] { builder.finish(); }, KILN_E_INVALID));
#endif
}

static kiln::entry make_entry(const kiln::key &key, const std::string &payload)
{
    kiln_entry_params params = kiln_entry_params();
    params.struct_size = sizeof params;
    params.key = key.get();
    params.kind = KILN_ENTRY_BLOB;
    params.provenance.struct_size = sizeof params.provenance;
    params.payload.data = payload.data();
    params.payload.size = payload.size();
    return kiln::entry(params);
}

static void test_kept_entries_are_found()
{
    const kiln::key key = make_key("kept");
    CHECK(!kiln::find_persistent(engine::kind::gpu, key));
    CHECK(kiln::keep_persistent(engine::kind::gpu, make_entry(key, "payload")));
    const kiln::entry found = kiln::find_persistent(engine::kind::gpu, key);
    CHECK(!kiln::entry() && kiln::entry().payload().size == 0);
    CHECK(found && found.payload().size == 7);
    CHECK(std::memcmp(found.payload().data, "payload", 7) == 0);
    /* The persistent cache is off for the CPU. */
    CHECK(!kiln::find_persistent(engine::kind::cpu, key));
    CHECK(!kiln::keep_persistent(engine::kind::cpu, found));
    CHECK(!kiln::find_persistent(engine::kind::gpu, make_key("another")));
    kiln::set_persistent_cache_capacity(0);
    CHECK(!kiln::find_persistent(engine::kind::gpu, key));
    kiln::set_persistent_cache_capacity(8);
    CHECK(kiln::find_persistent(engine::kind::gpu, key));
#ifndef KILN_NO_EXCEPTIONS
    CHECK(fails([] { kiln::find_persistent(engine::kind::gpu, kiln::key()); }, KILN_E_INVALID));
    CHECK(fails([] { kiln::keep_persistent(engine::kind::gpu, kiln::entry()); }, KILN_E_INVALID));
    CHECK(fails([] { make_entry(kiln::key(), ""); }, KILN_E_INVALID));
#endif
}

/* A new directory below $TMPDIR or /tmp. */
static std::string make_scratch()
{
    const char *parent = std::getenv("TMPDIR");
    std::string path = std::string(parent && *parent ? parent : "/tmp") + "/kiln-test-XXXXXX";
    CHECK(mkdtemp(&path[0]) != nullptr);
    return path;
}

static int remove_one(const char *path, const struct stat *, int, struct FTW *)
{
    return std::remove(path);
}

int main()
{
    const std::string folder = make_scratch();
    test_defaults();
    test_settings(folder);
    test_failures(folder);
    test_names_of_statuses();
    test_empty_value_means_none();
    test_keys();
    test_kept_entries_are_found();
    kiln::set_persistent_cache_capacity(0);
    return nftw(folder.c_str(), remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0 ? 0 : 1;
}
