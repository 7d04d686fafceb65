/* SPDX-License-Identifier: Apache-2.0
 *
 * store.hpp, pack.hpp, config.hpp. Also compiled without exceptions: then failures are returned.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include <ftw.h>
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

using kiln::status;

static kiln::key key_of(const std::string &text)
{
    return kiln::key_builder().add("text", text).finish();
}

static kiln::entry entry_of(const std::string &text, const std::string &payload)
{
    return kiln::entry(key_of(text), payload.data(), payload.size());
}

static std::string text_of(const kiln::entry &entry)
{
    return std::string(static_cast<const char *>(entry.payload().data), entry.payload().size);
}

static void test_puts_are_found(const std::string &folder)
{
    const kiln::store store(folder + "/store");
    CHECK(store && store.put(entry_of("a", "payload")) == status::success);
    const kiln::entry found = store.get(key_of("a"));
    CHECK(found && text_of(found) == "payload" && found.key() == key_of("a"));
    CHECK(found.key().digest().size() == 32 && found.key().digest() == key_of("a").digest());
    status told = status::success;
    CHECK(!store.get(key_of("b"), &told) && told == status::miss);
    CHECK(store.contains(key_of("a")) && !store.contains(key_of("b")));
    const std::vector<kiln::entry> all = store.get_many({key_of("b"), key_of("a"), key_of("a")});
    CHECK(all.size() == 3 && !all[0] && text_of(all[1]) == "payload" && all[2]);
    CHECK(store.get_many({}).empty());
    CHECK(store.stat().entries == 1);
    CHECK(store.remove(key_of("a")) == status::success &&
          store.remove(key_of("a")) == status::miss);
}

static void test_empty_stores()
{
    const kiln::store store;
    CHECK(!store && !store.get(key_of("a")));
    CHECK(store.put(entry_of("a", "payload")) == status::success);
}

static void test_a_lease_excludes_other_builders(const std::string &folder)
{
    const kiln::store store(folder + "/store");
    const kiln::store other(folder + "/store");
    {
        const kiln::lease held = store.take_lease(key_of("a"), 0);
        CHECK(held && !other.take_lease(key_of("a"), 0));
    }
    CHECK(other.take_lease(key_of("a"), 0));
}

/* If a new lease is assigned to a variable, the variable's previous lease is released at once, and
 * not only when the new lease ends. */
static void test_assigning_to_a_lease_releases_it(const std::string &folder)
{
    const kiln::store store(folder + "/store");
    const kiln::store other(folder + "/store");
    kiln::lease a = store.take_lease(key_of("a"), 0);
    kiln::lease b = store.take_lease(key_of("b"), 0);
    CHECK(a && b);
    a = std::move(b);
    CHECK(a && !b && other.take_lease(key_of("a"), 0) && !other.take_lease(key_of("b"), 0));
    kiln::lease &itself = a;
    a = std::move(itself);
    CHECK(a && !other.take_lease(key_of("b"), 0));
}

static void test_other_threads_reads_are_counted(const std::string &folder)
{
    const kiln::store store(folder + "/counted");
    kiln_stats done = kiln_stats();
    done.hits_memory = 3;
    done.misses = 2;
    CHECK(store.add_stats(done) == status::success && store.add_stats(done) == status::success);
    const kiln_store_stat counted = store.stat();
    CHECK(counted.totals.hits_memory == 6 && counted.totals.misses == 4);
}

static void test_walks(const std::string &folder)
{
    const kiln::store store(folder + "/walked");
    store.put(entry_of("a", "1"));
    store.put(entry_of("b", "2"));
    int seen = 0;
    std::string bytes;
    CHECK(store.each([&](const kiln::item &item) {
        seen++;
        CHECK(item.info().state == KILN_OK && item.info().bytes == 1);
        bytes += text_of(item.read());
        return true;
    }) == status::success);
    CHECK(seen == 2 && (bytes == "12" || bytes == "21"));
    seen = 0;
    store.each([&](const kiln::item &item) { return ++seen < 1 && item.read(); });
    CHECK(seen == 1);
    kiln_verify_report report = kiln::params<kiln_verify_report>();
    CHECK(store.verify(&report) == status::success && report.ok == 2);
#ifndef KILN_NO_EXCEPTIONS
    bool is_thrown = false;
    try {
        store.each([](const kiln::item &) -> bool { throw std::runtime_error("enough"); });
    } catch (const std::runtime_error &) {
        is_thrown = true;
    }
    CHECK(is_thrown);
#endif
    CHECK(store.each([](const kiln::item &item) { return item.remove() == status::success; }) ==
          status::success);
    kiln_trim_params all = kiln::params<kiln_trim_params>();
    all.flags = KILN_TRIM_BY_SIZE;
    CHECK(store.stat().entries == 0 && store.trim(all) == status::success);
}

static void test_unopenable_file()
{
    kiln::store store;
    kiln_error why = kiln::params<kiln_error>();
#ifdef KILN_NO_EXCEPTIONS
    CHECK(store.open("nowhere://at/all", kiln::params<kiln_store_params>(), &why) ==
          status::unimplemented);
    CHECK(!kiln::store("nowhere://at/all"));
#else
    bool is_thrown = false;
    try {
        store.open("nowhere://at/all", kiln::params<kiln_store_params>(), &why);
    } catch (const kiln::error &failed) {
        is_thrown = failed.status() == status::unimplemented && *failed.what() != '\0';
    }
    CHECK(is_thrown);
#endif
    CHECK(!store && why.status == KILN_E_UNSUPPORTED && *why.text != '\0');
}

static void test_packs(const std::string &folder)
{
    const std::string path = folder + "/two.kpack";
    kiln::pack_writer writer(path);
    CHECK(writer && writer.add(entry_of("a", "1")) == status::success);
    CHECK(writer.add(entry_of("b", "2")) == status::success);
    kiln_pack_report report = kiln::params<kiln_pack_report>();
    CHECK(writer.finish(&report) == status::success && report.entries == 2 && !writer);
    const kiln::store pack("pack:" + path);
    CHECK(text_of(pack.get(key_of("b"))) == "2");
    const kiln::store into(folder + "/unpacked");
    kiln_copy_params trusting = kiln::params<kiln_copy_params>();
    kiln_copy_report taken = kiln::params<kiln_copy_report>();
    CHECK(pack.copy(into, trusting, &taken) == status::unauthenticated && taken.taken == 0);
    trusting.flags = KILN_COPY_TRUST;
    CHECK(pack.copy(into, trusting, &taken) == status::success && taken.taken == 2);
    CHECK(text_of(into.get(key_of("a"))) == "1");
}

/* A path with a zero byte inside must not be treated as if it ended there. */
static void test_paths_are_whole(const std::string &folder)
{
    const std::string path = folder + "/whole.kpack", longer = path + '\0' + "x";
    CHECK(kiln::pack_writer(path).finish() == status::success);
    int refused = 0;
#ifdef KILN_NO_EXCEPTIONS
    refused += !kiln::pack_writer(longer);
#else
    try {
        kiln::pack_writer writer(longer);
    } catch (const kiln::error &failed) {
        refused += failed.status() == status::invalid_arguments;
    }
#endif
    CHECK(refused == 1);
}

static const char *look_up(void *user, const char *name)
{
    if (std::strcmp(name, "KILN_DIR") == 0) {
        return static_cast<const std::string *>(user)->c_str();
    }
    return std::strcmp(name, "KILN_MAX_SIZE") == 0 ? "3X" : nullptr;
}

static void test_configuration(const std::string &folder)
{
    std::string place = folder + "/configured";
    const kiln::config config(kiln::profile::kiln, look_up, &place);
    CHECK(config.location() == place && config.warnings().size() == 1);
    CHECK(config.warnings()[0].find("KILN_MAX_SIZE=3X") == 0);
    const kiln::store store = config.open_store();
    CHECK(store && store.put(entry_of("a", "1")) == status::success);
    const kiln::cache<int> numbers(config.memory());
    CHECK(numbers.stats().max_bytes > 0 && numbers.stats().policy == config.memory().policy);
    const kiln::config sycl(kiln::profile::sycl,
                            [](void *, const char *) -> const char * { return nullptr; });
    CHECK(sycl.location().empty() && !sycl.open_store());
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
    test_puts_are_found(folder);
    test_empty_stores();
    test_a_lease_excludes_other_builders(folder);
    test_assigning_to_a_lease_releases_it(folder);
    test_other_threads_reads_are_counted(folder);
    test_walks(folder);
    test_unopenable_file();
    test_packs(folder);
    test_paths_are_whole(folder);
    test_configuration(folder);
    CHECK(nftw(folder.c_str(), remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0);
    return 0;
}
