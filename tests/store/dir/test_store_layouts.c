/* SPDX-License-Identifier: Apache-2.0
 *
 * The layouts that keep an entry in two files: the names of these files, byte for byte; hash
 * collisions; a pair with a missing or damaged file; and several writers and evictions at once.
 * test_store.c tests the guarantees of every store.
 */
#include "support/cache_scene.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "entry/structure.h"
#include "os/os.h"
#include "store/dir/file_pair.h"
#include "store/totals.h"
#include "support/child.h"
#include "support/golden.h"

#define FOLDER_SIZE 512

static kiln_store *store;

static void open_at(const char *options)
{
    char url[SCRATCH_PATH_SIZE];
    kiln_store_close(&store);
    snprintf(url, sizeof url, "file://%s?layout=%s%s", cache, scratch_layout, options);
    assert_int_equal(kiln_store_open(url, NULL, &store, NULL), KILN_OK);
}

static int set_up(void **state)
{
    cache_set_up(state);
    open_at("");
    return 0;
}

static int tear_down(void **state)
{
    kilni_os_replace(NULL);
    kiln_store_close(&store);
    return cache_tear_down(state);
}

static bool is_sycl(void)
{
    return strcmp(scratch_layout, "sycl") == 0;
}

/* Truncates the hashes to @bits bits, so that keys collide; 0: all keys collide. */
static void cut_hashes(unsigned bits)
{
    ((kilni_dir *)store)->hash_bits = bits;
}

/* ---- files ---- */

static bool exists(const char *path)
{
    struct stat stat;
    return lstat(path, &stat) == 0;
}

static void write_whole(const char *path, const void *bytes, size_t size)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, size), (ssize_t)size);
    close(file);
}

static size_t read_whole(const char *path, unsigned char **ret_bytes)
{
    struct stat found;
    assert_int_equal(stat(path, &found), 0);
    *ret_bytes = malloc((size_t)found.st_size + 1);
    assert_non_null(*ret_bytes);
    int file = open(path, O_RDONLY);
    assert_int_equal(read(file, *ret_bytes, (size_t)found.st_size), found.st_size);
    close(file);
    return (size_t)found.st_size;
}

static void expect_bytes(const char *path, const void *bytes, size_t size)
{
    unsigned char *found;
    assert_int_equal(read_whole(path, &found), size);
    assert_memory_equal(found, bytes, size);
    free(found);
}

static void copy_file(const char *from, const char *to)
{
    unsigned char *bytes;
    size_t size = read_whole(from, &bytes);
    write_whole(to, bytes, size);
    free(bytes);
}

static void make_directories(const char *path)
{
    char part[SCRATCH_PATH_SIZE];
    snprintf(part, sizeof part, "%s", path);
    for (char *at = strchr(part + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        mkdir(part, 0700);
        *at = '/';
    }
}

/* Returns the folder that contains the pair of files of a number's entry, with the hashes truncated
 * as at present. */
static const char *folder_of(uint64_t number)
{
    static char path[FOLDER_SIZE];
    kiln_key *key = scratch_key(number);
    char folder[KILNI_PAIR_FOLDER_SIZE];
    assert_int_equal(kilni_pair_folder_of((kilni_dir *)store, key, folder), KILN_OK);
    snprintf(path, sizeof path, "%s/%s", cache, folder);
    kiln_key_release(&key);
    return path;
}

static const char *file_at(const char *folder, unsigned n, bool is_key)
{
    static char paths[4][SCRATCH_PATH_SIZE];
    static unsigned next;
    char *path = paths[next++ % 4];
    const char *suffix =
        is_sycl() ? (is_key ? ".src" : ".bin") : (is_key ? "/key.bin" : "/kernel.bin");
    snprintf(path, SCRATCH_PATH_SIZE, "%s/%u%s", folder, n, suffix);
    return path;
}

static const char *key_file(uint64_t number, unsigned n)
{
    return file_at(folder_of(number), n, true);
}

static const char *payload_file(uint64_t number, unsigned n)
{
    return file_at(folder_of(number), n, false);
}

/* Returns whether a file is one of those that every layout has. They are not counted. */
static bool is_in_v1(const char *path)
{
    return strncmp(path + strlen(cache), "/v1", 3) == 0;
}

static unsigned count_files;
static const char *counted_suffix;

static int count_one(const char *path, const struct stat *stat, int kind, struct FTW *walk)
{
    (void)stat, (void)walk;
    const size_t length = strlen(path), suffix = strlen(counted_suffix);
    count_files += kind == FTW_F && !is_in_v1(path) && length >= suffix &&
                   strcmp(path + length - suffix, counted_suffix) == 0;
    return 0;
}

static unsigned count_with_suffix(const char *suffix)
{
    count_files = 0;
    counted_suffix = suffix;
    nftw(cache, count_one, 16, FTW_PHYS);
    return count_files;
}

static unsigned count_keys(void)
{
    return count_with_suffix(is_sycl() ? ".src" : "/key.bin");
}

static unsigned count_payloads(void)
{
    return count_with_suffix(is_sycl() ? ".bin" : "/kernel.bin");
}

static unsigned folders;

static int count_folder(const char *path, const struct stat *stat, int kind, struct FTW *walk)
{
    (void)stat;
    folders += kind == FTW_D && walk->level > 0 && !is_in_v1(path);
    return 0;
}

static unsigned count_folders(void)
{
    folders = 0;
    nftw(cache, count_folder, 16, FTW_PHYS);
    return folders;
}

/* ---- calls ---- */

static void put(uint64_t number)
{
    assert_int_equal(scratch_put(store, number, 1000), KILN_OK);
}

static void expect_get(uint64_t number, kiln_status status)
{
    assert_int_equal(scratch_get(store, number), status);
}

static kiln_status remove_key(uint64_t number)
{
    kiln_key *key = scratch_key(number);
    kiln_status status = kiln_store_remove(store, key);
    kiln_key_release(&key);
    return status;
}

static kiln_store_stat get_stat(void)
{
    kiln_store_stat stat = {.struct_size = sizeof stat};
    assert_int_equal(kiln_store_get_stat(store, 0, &stat), KILN_OK);
    return stat;
}

static kiln_verify_report verify(void)
{
    kiln_verify_report report = {.struct_size = sizeof report};
    assert_int_equal(kiln_store_verify(store, NULL, NULL, &report), KILN_OK);
    return report;
}

/* On a busy machine, a put that waits too long for the lock of the totals leaves its change to a
 * later one. */
static void expect_size_known(void)
{
    kilni_totals totals;
    kilni_dir_flush_pending(store);
    kiln_store_stat stat = get_stat();
    assert_int_equal(kilni_totals_read_file(AT_FDCWD, scratch_path(cache, "stats"), &totals),
                     KILN_OK);
    assert_int_equal(totals.entries, stat.entries);
    assert_int_equal(totals.bytes, stat.bytes);
}

static void set_time(const char *path, time_t time_s)
{
    const struct timespec times[2] = {{.tv_sec = time_s}, {.tv_sec = time_s}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* ---- which layout ---- */

static kiln_status open_with(const char *location, const char *layout, kiln_error *error)
{
    const kiln_store_params params = {.struct_size = sizeof params, .layout = layout};
    kiln_store_close(&store);
    return kiln_store_open(location, &params, &store, error);
}

static void test_the_layout_is_a_parameter(void **state)
{
    (void)state;
    kiln_error error = {.struct_size = sizeof error};
    assert_int_equal(open_with(cache, "maple", &error), KILN_E_UNSUPPORTED);
    assert_non_null(strstr(error.text, "\"maple\": expected kiln, sycl or onednn"));
    assert_int_equal(open_with(cache, scratch_layout, NULL), KILN_OK);
    put(1);
    assert_int_equal(count_keys(), 1);
    char url[SCRATCH_PATH_SIZE];
    snprintf(url, sizeof url, "file://%s?layout=kiln", cache);
    assert_int_equal(open_with(url, scratch_layout, NULL), KILN_OK); /* the URL takes precedence */
    expect_get(1, KILN_MISS);
    put(2);
    assert_int_equal(get_stat().entries, 1); /* each layout sees its own entries */
    assert_int_equal(open_with(cache, NULL, NULL), KILN_OK);
    expect_get(2, KILN_OK);
}

/* ---- the names of files, compared with names that were computed by hand ---- */

#define CPU "7aa0d97ea6fac5b2ef1ad8df164fa787"
#define NOTHING "99aa06d3014798d86001c324468d497f"

/* Returns the folder that must contain golden_entry. */
static const char *golden_folder(void)
{
    return is_sycl() ? CPU "/1a36daf26bb5c4eac17960bb8a160c19/" NOTHING "/" NOTHING
                     : "26817279a3bd628b936a173372dbf51d";
}

static void test_names_and_bytes(void **state)
{
    (void)state;
    kiln_entry *entry = NULL;
    assert_int_equal(kiln_entry_decode(golden_entry, sizeof golden_entry, &entry), KILN_OK);
    assert_int_equal(kiln_store_put(store, entry), KILN_OK);
    kiln_entry_release(&entry);
    const char *folder = scratch_path(cache, golden_folder());
    expect_bytes(file_at(folder, 0, true), golden_key, sizeof golden_key);
    expect_bytes(file_at(folder, 0, false), golden_entry, sizeof golden_entry);
    struct stat found;
    assert_int_equal(stat(file_at(folder, 0, true), &found), 0);
    assert_int_equal(found.st_mode & 07777, 0600);
    assert_int_equal(found.st_nlink, 1);
    assert_int_equal(stat(folder, &found), 0);
    assert_int_equal(found.st_mode & 07777, 0700);
    assert_int_equal(count_with_suffix(""), is_sycl() ? 5 : 6); /* tag, stats, lease, size.txt */
}

/* Reads a pair of files that a different program could have written by the specification. The
 * pair's number leaves a gap. */
static void test_files_of_another_writer(void **state)
{
    (void)state;
    const char *folder = scratch_path(cache, golden_folder());
    make_directories(file_at(folder, 7, true));
    write_whole(file_at(folder, 7, true), golden_key, sizeof golden_key);
    write_whole(file_at(folder, 7, false), golden_entry, sizeof golden_entry);
    kiln_key *key = NULL;
    kiln_entry *entry = NULL;
    assert_int_equal(kiln_key_decode(golden_key, sizeof golden_key, &key), KILN_OK);
    assert_int_equal(kiln_store_contains(store, key), KILN_OK);
    assert_int_equal(kiln_store_get(store, key, &entry), KILN_OK);
    assert_memory_equal(kiln_entry_payload(entry).data,
                        "\x7f"
                        "CODE",
                        5);
    assert_int_equal(verify().ok, 1);
    kiln_entry_release(&entry);
    assert_int_equal(kiln_store_remove(store, key), KILN_OK);
    assert_int_equal(count_folders(), 0);
    kiln_key_release(&key);
}

static kiln_entry *entry_of_parts(const char *const *parts, size_t count, const char *payload)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    kiln_entry *entry = NULL;
    assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(kiln_key_builder_add_text(builder, parts[2 * i], parts[2 * i + 1]),
                         KILN_OK);
    }
    assert_int_equal(kiln_key_builder_finish(builder, &key), KILN_OK);
    kiln_key_builder_free(&builder);
    const kiln_entry_params params = {
        .struct_size = sizeof params,
        .key = key,
        .kind = strcmp(parts[0], KILN_REQUEST_PART) == 0 ? KILN_ENTRY_REQUEST : KILN_ENTRY_PROGRAM,
        .provenance.struct_size = sizeof params.provenance,
        .payload = {payload, strlen(payload)},
    };
    assert_int_equal(kiln_entry_new(&params, &entry), KILN_OK);
    kiln_key_release(&key);
    return entry;
}

static void put_parts(const char *const *parts, size_t count)
{
    kiln_entry *entry = entry_of_parts(parts, count, "code");
    assert_int_equal(kiln_store_put(store, entry), KILN_OK);
    kiln_entry_release(&entry);
}

static void test_a_level_for_each_kind_of_part(void **state)
{
    (void)state;
    if (!is_sycl()) {
        return;
    }
    const char *const whole[] = {"device", "cpu",  "image",         "IL",
                                 "spec",   "\x07", "build options", "-O2"};
    put_parts(whole, 4);
    assert_true(exists(scratch_path(
        cache, CPU "/5551f1df1280d6757d588fc75fa872a7/0f0cddd7ed06b87d7792df65af1da299/"
                   "1160b6b21b4fecad44bde9a2dd66c384/0.src")));
}

/* Parts go to their levels by the first word of their names, in any order. */
static void test_first_words_of_part_names_decide_the_level(void **state)
{
    (void)state;
    if (!is_sycl()) {
        return;
    }
    const struct {
        const char *name;
        unsigned level;
    } names[] = {
        {"device", 0},
        {"device.name", 0},
        {"platform.version", 0},
        {"driver.file", 0},
        {"cpu", 0},
        {"env.IGC_X", 0},
        {"backend", 0},
        {"runtime.version", 0},
        {"image", 1},
        {"source", 1},
        {"il", 1},
        {"include.content", 1},
        {"devices", 1},
        {"deviceless.x", 1},
        {"constant", 2},
        {"constant.value", 2},
        {"spec", 2},
        {"spec constants", 2},
        {"spec_constants", 2},
        {"options", 3},
        {"build options", 3},
        {"build_options", 3},
        {"compile options", 3},
        {"compile_options", 3},
        {"link options.x", 3},
        {"link_options", 3},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *const parts[] = {names[i].name, "x"};
        kiln_entry *entry = entry_of_parts(parts, 1, "code");
        char folder[KILNI_PAIR_FOLDER_SIZE];
        assert_int_equal(kilni_pair_folder_of((kilni_dir *)store, kiln_entry_key(entry), folder),
                         KILN_OK);
        for (unsigned level = 0; level < 4; level++) {
            const bool is_nothing = strncmp(folder + 33 * level, NOTHING, 32) == 0;
            assert_int_equal(is_nothing, level != names[i].level);
        }
        kiln_entry_release(&entry);
    }
}

static void test_parts_of_a_level_count_together(void **state)
{
    (void)state;
    if (!is_sycl()) {
        return;
    }
    const char *const parts[] = {"device", "a", "source", "s", "device.name", "b", "include", "i"};
    kiln_entry *entry = entry_of_parts(parts, 4, "code");
    char folder[KILNI_PAIR_FOLDER_SIZE], text[KILN_DIGEST_TEXT_SIZE];
    assert_int_equal(kilni_pair_folder_of((kilni_dir *)store, kiln_entry_key(entry), folder),
                     KILN_OK);
    static const char device[] = "\x06"
                                 "device\0\0\1\0\0\0\0\0\0\0a"
                                 "\x0b"
                                 "device.name\0\0\1\0\0\0\0\0\0\0b";
    static const char image[] = "\x06"
                                "source\0\0\1\0\0\0\0\0\0\0s"
                                "\x07"
                                "include\0\0\1\0\0\0\0\0\0\0i";
    kiln_digest digest = kilni_hash(device, sizeof device - 1);
    kiln_digest_format(&digest, text);
    assert_memory_equal(folder, text, 32);
    digest = kilni_hash(image, sizeof image - 1);
    kiln_digest_format(&digest, text);
    assert_memory_equal(folder + 33, text, 32);
    kiln_entry_release(&entry);
}

static void test_requests_have_the_same_place_in_each_layout(void **state)
{
    (void)state;
    const char *const parts[] = {KILN_REQUEST_PART, "1", "device", "cpu"};
    put_parts(parts, 2);
    assert_true(exists(scratch_path(cache, "v1/requests")));
    assert_int_equal(count_keys(), 0);
    assert_int_equal(verify().ok, 1);
    assert_int_equal(get_stat().entries, 0);
}

static void test_stripped_keys(void **state)
{
    (void)state;
    kiln_entry *entry = scratch_entry(1, 100), *found = NULL;
    kiln_key *stripped = NULL;
    assert_int_equal(kiln_key_strip(kiln_entry_key(entry), 8, &stripped), KILN_OK);
    const kiln_entry_params params = {
        .struct_size = sizeof params,
        .key = stripped,
        .kind = KILN_ENTRY_PROGRAM,
        .provenance.struct_size = sizeof params.provenance,
        .payload = kiln_entry_payload(entry),
    };
    assert_int_equal(kiln_entry_new(&params, &found), KILN_OK);
    kiln_status sent = kiln_store_put(store, found);
    kiln_entry_release(&found);
    if (is_sycl()) {
        assert_int_equal(sent, KILN_E_UNSUPPORTED);
        assert_int_equal(kiln_store_get(store, stripped, &found), KILN_MISS);
        assert_int_equal(kiln_store_contains(store, stripped), KILN_MISS);
        assert_int_equal(kiln_store_remove(store, stripped), KILN_MISS);
    } else {
        assert_int_equal(sent, KILN_OK);
        expect_get(1, KILN_OK);
        put(1);
        assert_int_equal(count_keys(), 1);
        assert_int_equal(kiln_store_get(store, stripped, &found), KILN_OK);
        kiln_entry_release(&found);
    }
    kiln_key_release(&stripped);
    kiln_entry_release(&entry);
}

/* ---- collisions and gaps ---- */

static void test_collisions(void **state)
{
    (void)state;
    cut_hashes(4);
    for (uint64_t i = 0; i < 64; i++) {
        put(i);
    }
    assert_int_equal(count_keys(), 64);
    assert_true(count_folders() <= (is_sycl() ? 1 + 16 + 16 + 16 : 16 + 64));
    for (uint64_t i = 0; i < 64; i++) {
        expect_get(i, KILN_OK);
    }
    expect_get(64, KILN_MISS);
    kiln_verify_report report = verify();
    assert_int_equal(report.ok, 64);
    assert_int_equal(report.corrupt, 0);
    for (uint64_t i = 0; i < 64; i += 3) {
        assert_int_equal(remove_key(i), KILN_OK);
    }
    for (uint64_t i = 0; i < 64; i++) {
        expect_get(i, i % 3 == 0 ? KILN_MISS : KILN_OK);
    }
    for (uint64_t i = 0; i < 64; i++) {
        put(i);
    }
    assert_int_equal(count_keys(), 64);
    expect_size_known();
}

static void test_entries_after_a_gap_are_found(void **state)
{
    (void)state;
    cut_hashes(0);
    for (uint64_t i = 0; i < 5; i++) {
        put(i);
        assert_true(exists(payload_file(i, (unsigned)i)));
    }
    assert_int_equal(remove_key(0), KILN_OK);
    assert_int_equal(remove_key(2), KILN_OK);
    expect_get(1, KILN_OK);
    expect_get(3, KILN_OK);
    expect_get(4, KILN_OK);
    put(4);
    assert_int_equal(count_keys(), 3);
    put(7);
    assert_true(exists(payload_file(7, 0))); /* the lowest free number */
    put(8);
    assert_true(exists(payload_file(8, 2)));
    put(9);
    assert_true(exists(payload_file(9, 5)));
    const uint64_t there[] = {7, 1, 8, 3, 4, 9};
    for (size_t i = 0; i < 6; i++) {
        expect_get(there[i], KILN_OK);
    }
}

static void test_evictions_make_gaps(void **state)
{
    (void)state;
    cut_hashes(0);
    for (uint64_t i = 0; i < 10; i++) {
        put(i);
        set_time(payload_file(i, (unsigned)i), 1000000 + (time_t)(i * 7 % 10));
    }
    const uint64_t bytes = get_stat().bytes;
    kiln_trim_report report = {.struct_size = sizeof report};
    assert_int_equal(trim_to(store, bytes / 2, &report), KILN_OK);
    assert_int_equal(report.removed, 5);
    assert_int_equal(report.removed_bytes, bytes / 2);
    for (uint64_t i = 0; i < 10; i++) {
        expect_get(i, i * 7 % 10 < 5 ? KILN_MISS : KILN_OK);
    }
    assert_int_equal(count_keys(), 5);
    assert_int_equal(count_payloads(), 5);
    expect_size_known();
}

static void test_copies_of_the_same_key(void **state)
{
    (void)state;
    put(1);
    if (!is_sycl()) {
        make_directories(key_file(1, 3));
    }
    copy_file(key_file(1, 0), key_file(1, 3));
    copy_file(payload_file(1, 0), payload_file(1, 3));
    write_whole(payload_file(1, 0), "short", 5);
    expect_get(1, KILN_OK); /* the copy that is not damaged */
    put(1);
    assert_int_equal(count_keys(), 1);
    assert_true(exists(payload_file(1, 0)));
    expect_get(1, KILN_OK);
    assert_int_equal(verify().ok, 1);
}

/* ---- a newer format ---- */

static void make_newer(const char *path)
{
    unsigned char *bytes;
    size_t size = read_whole(path, &bytes);
    bytes[KILNI_ENTRY_VERSION_OFFSET]++;
    write_whole(path, bytes, size);
    free(bytes);
}

static void test_a_newer_entry_keeps_its_number(void **state)
{
    (void)state;
    unsigned char *before;
    put(1);
    make_newer(payload_file(1, 0));
    size_t size = read_whole(payload_file(1, 0), &before);
    expect_get(1, KILN_E_VERSION);
    put(1);
    expect_get(1, KILN_OK);
    assert_true(exists(payload_file(1, 1)));
    put(1);
    assert_int_equal(count_payloads(), 2);
    assert_int_equal(remove_key(1), KILN_EXISTS); /* the entry of the newer format stays */
    expect_get(1, KILN_E_VERSION);
    assert_int_equal(trim_to(store, 0, NULL), KILN_OK);
    expect_bytes(payload_file(1, 0), before, size);
    assert_true(exists(key_file(1, 0)));
    assert_int_equal(verify().newer, 1);

    assert_int_equal(unlink(key_file(1, 0)), 0);
    set_time(payload_file(1, 0), 1000000);
    put(1);
    assert_true(exists(payload_file(1, 1)));
    assert_int_equal(trim_to(store, 0, NULL), KILN_OK);
    expect_bytes(payload_file(1, 0), before, size);
    free(before);
}

/* ---- halves ---- */

static void test_incomplete_pair_is_a_miss(void **state)
{
    (void)state;
    put(1);
    assert_int_equal(unlink(key_file(1, 0)), 0);
    expect_get(1, KILN_MISS);
    assert_int_equal(verify().checked, 0);
    put(1);
    expect_get(1, KILN_OK);
    assert_true(exists(payload_file(
        1, 1))); /* payload 0 may be of a newer format, so number 0 is not used again */
    assert_int_equal(unlink(payload_file(1, 1)), 0);
    expect_get(1, KILN_MISS);
    kiln_key *key = scratch_key(1);
    assert_int_equal(kiln_store_contains(store, key), KILN_MISS);
    assert_int_equal(kiln_store_remove(store, key), KILN_MISS);
    kiln_key_release(&key);
    put(1);
    expect_get(1, KILN_OK);
    assert_int_equal(count_keys(), 1);
}

static void test_old_incomplete_pairs_are_leftovers(void **state)
{
    (void)state;
    cut_hashes(0);
    for (uint64_t i = 0; i < 4; i++) {
        put(i);
    }
    assert_int_equal(unlink(key_file(0, 0)), 0);
    assert_int_equal(unlink(payload_file(1, 1)), 0);
    assert_int_equal(unlink(payload_file(2, 2)), 0);
    set_time(payload_file(0, 0), 1000000);
    set_time(key_file(1, 1), 1000000);
    assert_int_equal(trim_to(store, KILN_UNLIMITED, NULL), KILN_OK);
    assert_false(exists(payload_file(0, 0)));
    assert_false(exists(key_file(1, 1)));
    assert_true(exists(key_file(2, 2))); /* its writer may still be running */
    expect_get(3, KILN_OK);
    expect_size_known();
}

static void test_every_truncation_of_a_key_file(void **state)
{
    (void)state;
    unsigned char *bytes;
    put(1);
    size_t size = read_whole(key_file(1, 0), &bytes);
    for (size_t length = 0; length < size; length++) {
        write_whole(key_file(1, 0), bytes, length);
        expect_get(1, KILN_MISS);
    }
    assert_int_equal(verify().corrupt, 1);
    write_whole(key_file(1, 0), bytes, size);
    expect_get(1, KILN_OK);
    free(bytes);
}

static void test_every_flip_in_a_key_file(void **state)
{
    (void)state;
    unsigned char *bytes;
    put(1);
    size_t size = read_whole(key_file(1, 0), &bytes);
    for (size_t i = 0; i < size * 8; i++) {
        bytes[i / 8] ^= (unsigned char)(1u << i % 8);
        write_whole(key_file(1, 0), bytes, size);
        bytes[i / 8] ^= (unsigned char)(1u << i % 8);
        expect_get(1, KILN_MISS);
    }
    put(1);
    expect_get(1, KILN_OK);
    put(1);
    assert_int_equal(count_keys(),
                     2); /* the damaged file is removed when it is one of the oldest */
    free(bytes);
}

static void test_lengths_in_a_key_file_are_not_trusted(void **state)
{
    (void)state;
    unsigned char *bytes;
    put(1);
    size_t size = read_whole(key_file(1, 0), &bytes);
    memset(bytes + 16 + 1 + 6 + 1 + 1, 0xff, 8); /* the size of the first part */
    bytes[8] = 1;                                /* and its key is stripped, so it is decoded */
    write_whole(key_file(1, 0), bytes, size);
    expect_get(1, KILN_MISS);
    put(1);
    expect_get(1, KILN_OK);
    free(bytes);
}

static void test_key_file_beside_the_payload_of_another_entry(void **state)
{
    (void)state;
    cut_hashes(0);
    put(1);
    put(2);
    copy_file(payload_file(2, 1), payload_file(1, 0));
    expect_get(1, KILN_MISS);
    expect_get(2, KILN_OK);
    kiln_verify_report report = verify();
    assert_int_equal(report.checked, 2);
    assert_int_equal(report.corrupt, 1);
    put(1);
    expect_get(1, KILN_OK);
    assert_int_equal(count_keys(), 2);
    assert_int_equal(verify().ok, 2);
}

static int note_digest(void *user, kiln_item *item)
{
    kiln_item_info info = {.struct_size = sizeof info};
    assert_int_equal(kiln_item_get_info(item, &info), KILN_OK);
    *(kiln_item_info *)user = info;
    return 0;
}

static void test_a_damaged_item_has_its_keys_digest(void **state)
{
    (void)state;
    kiln_key *key = scratch_key(1);
    const kiln_digest digest = kiln_key_digest(key);
    kiln_item_info info = {0};
    put(1);
    write_whole(payload_file(1, 0), "damaged", 7);
    assert_int_equal(kiln_store_each(store, note_digest, &info), KILN_OK);
    assert_int_equal(info.state, KILN_E_CORRUPT);
    assert_memory_equal(&info.digest, &digest, sizeof digest);
    kiln_key_release(&key);
}

static int expect_path(void *user, kiln_item *item)
{
    kiln_item_info info = {.struct_size = sizeof info};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kiln_item_get_info(item, &info), KILN_OK);
        assert_string_equal(info.path, user);
    }
    return 0;
}

static void test_an_item_has_its_payloads_path(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_SIZE];
    put(1);
    snprintf(path, sizeof path, "%s", payload_file(1, 0));
    assert_int_equal(kiln_store_each(store, expect_path, path), KILN_OK);
    write_whole(payload_file(1, 0), "damaged", 7);
    write_whole(key_file(1, 0), "", 0);
    assert_int_equal(kiln_store_each(store, expect_path, path), KILN_OK);
}

static void test_a_pair_in_a_wrong_folder(void **state)
{
    (void)state;
    char elsewhere[FOLDER_SIZE];
    put(1);
    put(2);
    snprintf(elsewhere, sizeof elsewhere, "%s", folder_of(2));
    copy_file(key_file(1, 0), file_at(elsewhere, 0, true));
    copy_file(payload_file(1, 0), file_at(elsewhere, 0, false));
    expect_get(2, KILN_MISS);
    kiln_verify_report report = verify();
    assert_int_equal(report.corrupt, 1);
    assert_int_equal(report.ok, 1);
}

/* ---- files of others ---- */

static void test_files_with_foreign_names_stay(void **state)
{
    (void)state;
    put(1);
    char folder[FOLDER_SIZE];
    snprintf(folder, sizeof folder, "%s", folder_of(1));
    const char *const names[] = {"notes",  "00.src",         "00.bin",
                                 "1.txt",  "x.bin",          "0.lock",
                                 "-1.src", "1000000000.bin", "0_access_time.txt",
                                 ".tmp-x"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        write_whole(scratch_path(folder, names[i]), "mine", 4);
    }
    write_whole(scratch_path(cache, "notes"), "mine", 4);
    assert_int_equal(mkdir(scratch_path(cache, "empty"), 0700), 0);
    assert_int_equal(mkdir(scratch_path(cache, "ABCDEFABCDEFABCDEFABCDEFABCDEFAB"), 0700), 0);
    assert_int_equal(mkdir(scratch_path(scratch, "elsewhere"), 0700), 0);
    assert_int_equal(
        symlink("../elsewhere", scratch_path(cache, "abcdefabcdefabcdefabcdefabcdefab")), 0);
    assert_int_equal(trim_to(store, 0, NULL), KILN_OK);
    expect_get(1, KILN_MISS);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_true(exists(scratch_path(folder, names[i])));
    }
    assert_true(exists(scratch_path(cache, "notes")));
    assert_true(exists(scratch_path(cache, "empty")));
    assert_true(exists(scratch_path(cache, "ABCDEFABCDEFABCDEFABCDEFABCDEFAB")));
    assert_true(exists(scratch_path(cache, "abcdefabcdefabcdefabcdefabcdefab")));
    assert_int_equal(verify().checked, 0);
    put(1);
    expect_get(1, KILN_OK);
}

static void test_non_files_in_a_payloads_place(void **state)
{
    (void)state;
    put(1);
    assert_int_equal(unlink(payload_file(1, 0)), 0);
    assert_int_equal(mkfifo(payload_file(1, 0), 0600), 0);
    expect_get(1, KILN_E_DENIED);
    put(1);
    expect_get(1, KILN_OK);
    assert_int_equal(count_keys(), 1);

    assert_int_equal(unlink(payload_file(1, 0)), 0);
    assert_int_equal(symlink("elsewhere", payload_file(1, 0)), 0);
    expect_get(1, KILN_E_DENIED);
    put(1);
    expect_get(1, KILN_OK);
    assert_int_equal(count_keys(), 1);

    assert_int_equal(unlink(payload_file(1, 0)), 0);
    assert_int_equal(mkdir(payload_file(1, 0), 0700), 0);
    expect_get(1, KILN_E_DENIED);
    put(1);
    expect_get(1, KILN_OK);
    assert_true(exists(payload_file(1, 1)));

    assert_int_equal(rmdir(payload_file(1, 0)), 0);
    assert_int_equal(chmod(key_file(1, 1), 0666), 0);
    expect_get(1, KILN_MISS);
    assert_int_equal(chmod(key_file(1, 1), 0600), 0);
    expect_get(1, KILN_OK);
}

static void test_empty_folders_are_removed(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 20; i++) {
        put(i);
    }
    assert_int_equal(remove_key(0), KILN_OK);
    assert_int_equal(trim_to(store, 0, NULL), KILN_OK);
    assert_int_equal(count_folders(), 0);
    put(1);
    char folder[FOLDER_SIZE];
    snprintf(folder, sizeof folder, "%s", folder_of(2));
    make_directories(file_at(folder, 3, true)); /* as a writer that was killed leaves it */
    assert_int_equal(trim_to(store, KILN_UNLIMITED, NULL), KILN_OK);
    assert_false(exists(folder));
    expect_get(1, KILN_OK);
}

/* ---- backends and the size ---- */

static void test_backends(void **state)
{
    (void)state;
    if (is_sycl()) {
        return;
    }
    open_at("&backend=opencl");
    put(1);
    assert_true(exists(scratch_path(cache, "opencl")));
    open_at("&backend=level_zero");
    expect_get(1, KILN_MISS);
    put(1);
    put(2);
    expect_get(1, KILN_OK);
    open_at("");
    expect_get(1, KILN_MISS);
    put(3);
    assert_int_equal(verify().ok, 4); /* tools see all of them */
    assert_int_equal(get_stat().entries, 4);
    expect_size_known();
    assert_int_equal(trim_to(store, 0, NULL), KILN_OK);
    assert_int_equal(get_stat().entries, 0);
    assert_int_equal(count_folders(), 0);
}

static void expect_size_file(void)
{
    char text[32] = "";
    FILE *file = fopen(scratch_path(cache, "size.txt"), "r");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    char wanted[32];
    snprintf(wanted, sizeof wanted, "%llu\n", (unsigned long long)get_stat().bytes);
    assert_string_equal(text, wanted);
}

static void test_the_size_is_written_to_a_file(void **state)
{
    (void)state;
    if (is_sycl()) {
        put(1);
        assert_false(exists(scratch_path(cache, "size.txt")));
        return;
    }
    put(1);
    expect_size_file();
    assert_int_equal(scratch_put(store, 2, 50000), KILN_OK);
    expect_size_file();
    assert_int_equal(remove_key(1), KILN_OK);
    expect_size_file();
    assert_int_equal(trim_to(store, 0, NULL), KILN_OK);
    expect_size_file();

    static const char *const letters[] = {"Dear reader, this is not a size at all.", "12 cm\n",
                                          "\n1", "01234567890123456789012345678901"};
    for (size_t i = 0; i < sizeof letters / sizeof letters[0]; i++) {
        write_whole(scratch_path(cache, "size.txt"), letters[i], strlen(letters[i]));
        put(i);
        expect_bytes(scratch_path(cache, "size.txt"), letters[i], strlen(letters[i]));
    }
    write_whole(scratch_path(cache, "size.txt"), "12\n", 3);
    put(9);
    expect_size_file();
}

/* ---- races ---- */

#define THREADS 8
#define ROUNDS 60

static void *put_the_same(void *argument)
{
    (void)argument;
    uintptr_t failures = 0;
    for (int i = 0; i < ROUNDS; i++) {
        failures += scratch_put(store, 1, 500) != KILN_OK;
        failures += scratch_get(store, 1) != KILN_OK;
    }
    return (void *)failures;
}

static void run_threads(void *(*work)(void *), unsigned count)
{
    pthread_t threads[512];
    for (uintptr_t i = 0; i < count; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)(i + 1)), 0);
    }
    for (unsigned i = 0; i < count; i++) {
        void *failures;
        pthread_join(threads[i], &failures);
        assert_null(failures);
    }
}

static void test_racing_writers_leave_one_entry(void **state)
{
    (void)state;
    run_threads(put_the_same, THREADS);
    assert_int_equal(count_keys(), 1);
    assert_int_equal(count_payloads(), 1);
    assert_int_equal(verify().ok, 1);
    /* An entry that was put during the first count may have been counted twice; this trim counts
     * again. */
    assert_int_equal(trim_to(store, KILN_UNLIMITED, NULL), KILN_OK);
    expect_size_known();
}

/* Puts, reads and removes keys that all collide, in several threads at once. */
static void *stir(void *argument)
{
    const uint64_t seed = (uint64_t)(uintptr_t)argument;
    uintptr_t failures = 0;
    for (uint64_t i = 0; i < ROUNDS * 3; i++) {
        const uint64_t random = scratch_mix(seed * 7919 + i), number = random % 6;
        kiln_status status = KILN_OK;
        switch (random / 6 % 5) {
        case 0:
            status = remove_key(number);
            break;
        case 1:
            if (i % 16 == 0) {
                status = trim_to(store, 12000, NULL);
            }
            break;
        case 2:
            status = scratch_get(store, number);
            break;
        default:
            status = scratch_put(store, number, 300 + number);
            failures += status != KILN_OK;
        }
        failures += status != KILN_OK && status != KILN_MISS && status != KILN_BUSY;
    }
    return (void *)failures;
}

static void test_writers_and_janitors_of_one_folder(void **state)
{
    (void)state;
    cut_hashes(0);
    run_threads(stir, THREADS);
    for (uint64_t i = 0; i < 6; i++) {
        put(i);
        put(i);
        expect_get(i, KILN_OK);
    }
    assert_int_equal(count_keys(), 6);
    assert_int_equal(verify().ok, 6);
    assert_int_equal(verify().corrupt, 0);
}

/* Sets a key file aside, just before another process stores the payload again. */
static int rename_new_beside_a_writer(int from, const char *old_path, int to, const char *new_path)
{
    const int result = kilni_os_system()->rename_new(from, old_path, to, new_path);
    if (strstr(new_path, "-aside")) {
        kilni_os_replace(NULL);
        copy_file(payload_file(1, 0), scratch_path(scratch, "fresh"));
        assert_int_equal(rename(scratch_path(scratch, "fresh"), payload_file(1, 0)), 0);
    }
    return result;
}

static void test_a_fresh_payload_is_not_evicted(void **state)
{
    (void)state;
    kilni_os_table table = *kilni_os_system();
    table.rename_new = rename_new_beside_a_writer;
    put(1);
    kilni_os_replace(&table);
    assert_int_equal(trim_to(store, 0, NULL), KILN_OK);
    expect_get(1, KILN_OK);
    assert_int_equal(count_with_suffix(""), is_sycl() ? 5 : 6); /* no temporary is left */
}

/* Creates a folder after a janitor has removed the folder above it. This happens once for each
 * folder. */
static int deepest;
static unsigned folders_removed;

static int mkdirat_beside_a_janitor(int directory, const char *path, mode_t mode)
{
    char link[64], above[SCRATCH_PATH_SIZE];
    snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
    const ssize_t length = readlink(link, above, sizeof above - 1);
    assert_true(length > 0);
    above[length] = '\0';
    if (length > deepest && strlen(above) > strlen(cache) && strncmp(path, ".tmp", 4) != 0) {
        deepest = (int)length;
        folders_removed += rmdir(above) == 0;
    }
    return kilni_os_system()->mkdirat(directory, path, mode);
}

static unsigned entrances;

static int openat_counting_entrances(int directory, const char *path, int flags, mode_t mode)
{
    entrances += strcmp(path, "/") == 0;
    return kilni_os_system()->openat(directory, path, flags, mode);
}

static void test_folders_that_are_removed_while_they_are_made(void **state)
{
    (void)state;
    kilni_os_table table = *kilni_os_system();
    table.mkdirat = mkdirat_beside_a_janitor;
    table.openat = openat_counting_entrances;
    entrances = 0;
    deepest = -1;
    folders_removed = 0;
    kilni_os_replace(&table);
    put(1);
    expect_get(1, KILN_OK);
    assert_int_equal(folders_removed, is_sycl() ? 3 : 1);
    assert_int_equal(entrances, 0); /* the directory itself always existed */
}

/* Whenever a put is about to create a file, another call removes the same key and finds no
 * entry. */
static unsigned empty_removals;

static int openat_beside_a_removal(int directory, const char *path, int flags, mode_t mode)
{
    if (strncmp(path, "./.tmp-", 7) == 0 && (flags & O_CREAT)) {
        const kilni_os_table *table = kilni_os();
        kilni_os_replace(NULL);
        kiln_key *key = scratch_key(1);
        if (kiln_store_contains(store, key) == KILN_MISS) {
            assert_int_equal(kiln_store_remove(store, key), KILN_MISS);
            empty_removals++;
        }
        kiln_key_release(&key);
        kilni_os_replace(table);
    }
    return kilni_os_system()->openat(directory, path, flags, mode);
}

static void test_removals_of_nothing_do_not_stop_a_put(void **state)
{
    (void)state;
    kilni_os_table table = *kilni_os_system();
    table.openat = openat_beside_a_removal;
    empty_removals = 0;
    kilni_os_replace(&table);
    put(1);
    kilni_os_replace(NULL);
    assert_int_equal(empty_removals, 2); /* one for each file of the pair */
    expect_get(1, KILN_OK);
}

/* Makes the first try of a put fail, and counts the folders of hashes that are removed. */
static unsigned links, folder_removals;

static int linkat_that_fails_once(int from, const char *old_path, int to, const char *new_path,
                                  int flags)
{
    if (links++ == 0) {
        errno = EEXIST;
        return -1;
    }
    return kilni_os_system()->linkat(from, old_path, to, new_path, flags);
}

static int unlinkat_counting_folders(int directory, const char *path, int flags)
{
    folder_removals += (flags & AT_REMOVEDIR) && strlen(path) == KILN_DIGEST_TEXT_SIZE - 1;
    return kilni_os_system()->unlinkat(directory, path, flags);
}

/* When a put tries again, another put may already use a folder in which it has not created a file
 * yet. */
static void test_a_put_that_tries_again_leaves_the_folders(void **state)
{
    (void)state;
    kilni_os_table table = *kilni_os_system();
    table.linkat = linkat_that_fails_once;
    table.unlinkat = unlinkat_counting_folders;
    links = folder_removals = 0;
    kilni_os_replace(&table);
    put(1);
    kilni_os_replace(NULL);
    assert_int_equal(links, 2);
    assert_int_equal(folder_removals, 0);
    expect_get(1, KILN_OK);
}

/* The key file is removed after the put has claimed a number and before it writes the payload. */
static unsigned temporaries_seen;

static int fstatat_beside_a_janitor(int directory, const char *path, struct stat *ret_stat,
                                    int flags)
{
    if (strncmp(path, "./.tmp-", 7) == 0 && ++temporaries_seen == 2) {
        kilni_os_replace(NULL);
        assert_int_equal(unlink(key_file(1, 0)), 0);
    }
    return kilni_os_system()->fstatat(directory, path, ret_stat, flags);
}

static void test_put_whose_key_file_was_removed(void **state)
{
    (void)state;
    kilni_os_table table = *kilni_os_system();
    table.fstatat = fstatat_beside_a_janitor;
    temporaries_seen = 0;
    kilni_os_replace(&table);
    put(1);
    expect_get(1, KILN_OK);
    assert_int_equal(count_keys(), 1);
    assert_int_equal(count_payloads(), 1);
}

static int linkat_without_links(int from, const char *old_path, int to, const char *new_path,
                                int flags)
{
    (void)from, (void)old_path, (void)to, (void)new_path, (void)flags;
    errno = EPERM;
    return -1;
}

static void test_a_file_system_without_links(void **state)
{
    (void)state;
    kilni_os_table table = *kilni_os_system();
    table.linkat = linkat_without_links;
    kilni_os_replace(&table);
    cut_hashes(0);
    for (uint64_t i = 0; i < 5; i++) {
        put(i);
        put(i);
    }
    for (uint64_t i = 0; i < 5; i++) {
        expect_get(i, KILN_OK);
    }
    assert_int_equal(count_keys(), 5);
    assert_int_equal(remove_key(2), KILN_OK);
    expect_get(3, KILN_OK);
}

/* ---- two processes that write the same pair ---- */

/* Opens the store a second time, as another process would. */
static kiln_store *open_another(void)
{
    char url[SCRATCH_PATH_SIZE];
    kiln_store *other = NULL;
    snprintf(url, sizeof url, "file://%s?layout=%s", cache, scratch_layout);
    assert_int_equal(kiln_store_open(url, NULL, &other, NULL), KILN_OK);
    return other;
}

static unsigned temporaries_made;

/* Reports a full disk when the payload is about to be written. Another process stores the entry
 * just before. */
static int openat_on_a_full_disk(int directory, const char *path, int flags, mode_t mode)
{
    if (strncmp(path, "./.tmp-", 7) == 0 && flags & O_CREAT && ++temporaries_made == 2) {
        kilni_os_replace(NULL);
        kiln_store *other = open_another();
        assert_int_equal(scratch_put(other, 1, 1000), KILN_OK);
        kiln_store_close(&other);
        errno = ENOSPC;
        return -1;
    }
    return kilni_os_system()->openat(directory, path, flags, mode);
}

static void test_failed_put_keeps_the_payload_of_another(void **state)
{
    (void)state;
    kilni_os_table table = *kilni_os_system();
    table.openat = openat_on_a_full_disk;
    temporaries_made = 0;
    kilni_os_replace(&table);
    assert_int_equal(scratch_put(store, 1, 1000), KILN_E_FULL);
    expect_get(1, KILN_OK);
    assert_int_equal(count_keys(), 1);
}

/* As above, but the other process stores its payload just after the key file was set aside. */
static int openat_failing_for_payloads(int directory, const char *path, int flags, mode_t mode)
{
    if (strncmp(path, "./.tmp-", 7) == 0 && flags & O_CREAT && ++temporaries_made == 2) {
        errno = ENOSPC;
        return -1;
    }
    return kilni_os_system()->openat(directory, path, flags, mode);
}

static int rename_new_before_a_payload(int from, const char *old_path, int to, const char *new_path)
{
    const int result = kilni_os_system()->rename_new(from, old_path, to, new_path);
    if (strstr(new_path, "-aside")) {
        kilni_os_replace(NULL);
        assert_int_equal(rename(scratch_path(scratch, "fresh"), payload_file(1, 0)), 0);
    }
    return result;
}

static void test_failed_put_restores_a_key_file(void **state)
{
    (void)state;
    kilni_os_table table = *kilni_os_system();
    table.openat = openat_failing_for_payloads;
    table.rename_new = rename_new_before_a_payload;
    put(1);
    copy_file(payload_file(1, 0), scratch_path(scratch, "fresh"));
    assert_int_equal(remove_key(1), KILN_OK);
    temporaries_made = 0;
    kilni_os_replace(&table);
    assert_int_equal(scratch_put(store, 1, 1000), KILN_E_FULL);
    expect_get(1, KILN_OK);
    assert_int_equal(count_with_suffix(""), is_sycl() ? 5 : 6);
}

static int openat_failing_for_temporaries(int directory, const char *path, int flags, mode_t mode)
{
    if (strncmp(path, "./.tmp-", 7) == 0 && flags & O_CREAT) {
        errno = ENOSPC;
        return -1;
    }
    return kilni_os_system()->openat(directory, path, flags, mode);
}

static int renameat_failing(int from, const char *old_path, int to, const char *new_path)
{
    if (strncmp(old_path, "./.tmp-", 7) == 0) {
        errno = EIO;
        return -1;
    }
    return kilni_os_system()->renameat(from, old_path, to, new_path);
}

static void test_a_put_that_fails_leaves_nothing(void **state)
{
    (void)state;
    kilni_os_table table = *kilni_os_system();
    table.openat = openat_failing_for_temporaries;
    kilni_os_replace(&table);
    assert_int_equal(scratch_put(store, 1, 1000), KILN_E_FULL);
    assert_int_equal(count_folders(), 0);

    table.openat = kilni_os_system()->openat;
    table.linkat = linkat_without_links;
    table.renameat = renameat_failing;
    kilni_os_replace(&table);
    assert_int_equal(scratch_put(store, 1, 1000), KILN_E_IO);
    assert_int_equal(count_keys(), 0);
    assert_int_equal(count_folders(), 0);
}

/* Sets a key file aside, just before another process records a use of the entry. */
static int rename_new_beside_a_reader(int from, const char *old_path, int to, const char *new_path)
{
    const int result = kilni_os_system()->rename_new(from, old_path, to, new_path);
    if (strstr(new_path, "-aside")) {
        kilni_os_replace(NULL);
        set_time(payload_file(1, 0), 1000000);
    }
    return result;
}

static void test_used_entries_are_removed_on_demand(void **state)
{
    (void)state;
    kilni_os_table table = *kilni_os_system();
    table.rename_new = rename_new_beside_a_reader;
    put(1);
    kilni_os_replace(&table);
    assert_int_equal(remove_key(1), KILN_OK);
    expect_get(1, KILN_MISS);
    expect_size_known();
}

static int use_and_remove(void *user, kiln_item *item)
{
    set_time(payload_file(1, 0), 1000000);
    *(kiln_status *)user = kiln_item_remove(item);
    return 0;
}

static int replace_and_remove(void *user, kiln_item *item)
{
    assert_int_equal(scratch_put(store, 1, 2000), KILN_OK);
    *(kiln_status *)user = kiln_item_remove(item);
    return 0;
}

static void test_an_item_that_is_used_is_removed(void **state)
{
    (void)state;
    kiln_status removed = KILN_E_IO;
    put(1);
    assert_int_equal(kiln_store_each(store, replace_and_remove, &removed), KILN_OK);
    assert_int_equal(removed, KILN_MISS); /* the name belongs to a different file now */
    expect_get(1, KILN_OK);
    assert_int_equal(kiln_store_each(store, use_and_remove, &removed), KILN_OK);
    assert_int_equal(removed, KILN_OK);
    expect_get(1, KILN_MISS);
}

static int renameat_failing_for_the_first(int from, const char *old_path, int to,
                                          const char *new_path)
{
    if (strcmp(old_path, is_sycl() ? "0.src" : "0/key.bin") == 0) {
        errno = EIO;
        return -1;
    }
    return kilni_os_system()->renameat(from, old_path, to, new_path);
}

static int rename_new_failing_for_the_first(int from, const char *old_path, int to,
                                            const char *new_path)
{
    if (strcmp(old_path, is_sycl() ? "0.src" : "0/key.bin") == 0) {
        errno = EIO;
        return -1;
    }
    return kilni_os_system()->rename_new(from, old_path, to, new_path);
}

static void test_failed_removal_is_reported(void **state)
{
    (void)state;
    kilni_os_table table = *kilni_os_system();
    table.renameat = renameat_failing_for_the_first;
    table.rename_new = rename_new_failing_for_the_first;
    put(1);
    if (!is_sycl()) {
        make_directories(key_file(1, 3));
    }
    copy_file(key_file(1, 0), key_file(1, 3));
    copy_file(payload_file(1, 0), payload_file(1, 3));
    kilni_os_replace(&table);
    assert_int_equal(remove_key(1), KILN_E_IO);
    kilni_os_replace(NULL);
    assert_int_equal(count_keys(), 1);
    expect_get(1, KILN_OK);
}

/* ---- a pair of which only one file is seen ---- */

static unsigned hides;

/* Lists a folder without its payloads, as may happen while files are replaced. The next function
 * makes one look-up of a payload fail. */
static struct dirent *readdir_without_payloads(DIR *directory)
{
    struct dirent *found = kilni_os_system()->readdir(directory);
    while (found && hides > 0 && strcmp(found->d_name, "0.bin") == 0) {
        found = kilni_os_system()->readdir(directory);
    }
    return found;
}

static int fstatat_failing_once(int directory, const char *path, struct stat *ret_stat, int flags)
{
    if (hides > 0 && strcmp(path, "0/kernel.bin") == 0) {
        hides = 0;
        errno = EIO;
        return -1;
    }
    return kilni_os_system()->fstatat(directory, path, ret_stat, flags);
}

static void test_pair_listed_as_half_is_kept(void **state)
{
    (void)state;
    kilni_os_table table = *kilni_os_system();
    table.readdir = readdir_without_payloads;
    table.fstatat = fstatat_failing_once;
    put(1);
    set_time(key_file(1, 0), 1000000);
    hides = 1;
    kilni_os_replace(&table);
    expect_get(1, KILN_OK);
    hides = 1;
    assert_int_equal(trim_to(store, KILN_UNLIMITED, NULL), KILN_OK);
    kilni_os_replace(NULL);
    expect_get(1, KILN_OK);
    assert_int_equal(count_keys(), 1);
}

static bool is_key_fresh;

static int rename_new_before_the_other_half(int from, const char *old_path, int to,
                                            const char *new_path)
{
    const int result = kilni_os_system()->rename_new(from, old_path, to, new_path);
    if (strstr(new_path, "-aside")) {
        kilni_os_replace(NULL);
        const char *place = is_key_fresh ? key_file(1, 0) : payload_file(1, 0);
        assert_int_equal(rename(scratch_path(scratch, "fresh"), place), 0);
    }
    return result;
}

static void test_pair_that_is_completed_stays(void **state)
{
    (void)state;
    kilni_os_table table = *kilni_os_system();
    table.rename_new = rename_new_before_the_other_half;
    for (unsigned i = 0; i < 2; i++) {
        put(1);
        is_key_fresh = i;
        const char *half = is_key_fresh ? payload_file(1, 0) : key_file(1, 0);
        const char *other = is_key_fresh ? key_file(1, 0) : payload_file(1, 0);
        set_time(half, 1000000);
        assert_int_equal(rename(other, scratch_path(scratch, "fresh")), 0);
        kilni_os_replace(&table);
        assert_int_equal(trim_to(store, KILN_UNLIMITED, NULL), KILN_OK);
        kilni_os_replace(NULL);
        expect_get(1, KILN_OK);
        assert_false(exists(scratch_path(scratch, "fresh")));
    }
    assert_int_equal(count_with_suffix(""), is_sycl() ? 5 : 6);
}

/* ---- leftovers of dead writers ---- */

static unsigned moves;

static int rename_new_of_one_who_dies(int from, const char *old_path, int to, const char *new_path)
{
    const int result = kilni_os_system()->rename_new(from, old_path, to, new_path);
    if (strstr(new_path, "-aside") && ++moves == 2) {
        _exit(0);
    }
    return result;
}

static void remove_and_die(void)
{
    kilni_os_table table = *kilni_os_system();
    table.rename_new = rename_new_of_one_who_dies;
    kilni_os_replace(&table);
    remove_key(1);
    _exit(1);
}

/* Reports a file's time of last modification, which records its last use, as its time of last
 * change too. */
static int fstatat_of_old_times(int directory, const char *path, struct stat *ret_stat, int flags)
{
    const int result = kilni_os_system()->fstatat(directory, path, ret_stat, flags);
    ret_stat->st_ctim = ret_stat->st_mtim;
    return result;
}

static void test_files_set_aside_are_found(void **state)
{
    (void)state;
    put(1);
    put(2);
    set_time(key_file(1, 0), 1000000);
    set_time(payload_file(1, 0), 1000000);
    moves = 0;
    assert_int_equal(run_in_child(remove_and_die), 0);
    expect_get(1, KILN_MISS);
    /* An old time of last use does not mean that the file was set aside long ago. */
    const unsigned before = count_with_suffix("-aside");
    assert_int_equal(before, 2);
    assert_int_equal(trim_to(store, KILN_UNLIMITED, NULL), KILN_OK);
    assert_int_equal(count_with_suffix("-aside"), before);
    kilni_os_table table = *kilni_os_system();
    table.fstatat = fstatat_of_old_times;
    kilni_os_replace(&table);
    assert_int_equal(trim_to(store, KILN_UNLIMITED, NULL), KILN_OK);
    kilni_os_replace(NULL);
    expect_get(2, KILN_OK);
    assert_int_equal(count_with_suffix(""), is_sycl() ? 5 : 6);
    assert_int_equal(count_folders(), is_sycl() ? 4 : 2);
}

static void test_temporaries_at_the_top(void **state)
{
    (void)state;
    const char *temporary = scratch_path(cache, ".tmp-0123456789abcdef");
    put(1);
    write_whole(temporary, "mine?", 5);
    set_time(temporary, 1000000);
    assert_int_equal(trim_to(store, KILN_UNLIMITED, NULL), KILN_OK);
    assert_int_equal(exists(temporary), is_sycl()); /* in that layout, Kiln makes no such file */
}

/* ---- links ---- */

static void test_links_in_the_path_are_not_followed(void **state)
{
    (void)state;
    char folder[FOLDER_SIZE], moved[FOLDER_SIZE];
    if (!is_sycl()) {
        open_at("&backend=opencl");
    }
    put(1);
    snprintf(folder, sizeof folder, "%s", folder_of(1));
    folder[strlen(cache) + 1 + strcspn(folder + strlen(cache) + 1, "/")] = '\0';
    snprintf(moved, sizeof moved, "%s/elsewhere", scratch);
    assert_int_equal(rename(folder, moved), 0);
    assert_int_equal(symlink(moved, folder), 0);
    expect_get(1, KILN_E_DENIED);
    assert_int_equal(remove_key(1), KILN_E_IO);
    assert_int_equal(scratch_put(store, 2, 1000), KILN_E_DENIED);
    folders = 0;
    nftw(moved, count_folder, 16, FTW_PHYS);
    assert_int_equal(folders, is_sycl() ? 3 : 2);
    assert_int_equal(unlink(folder), 0);
    assert_int_equal(rename(moved, folder), 0);
    expect_get(1, KILN_OK);
}

/* The folder of a pair is not used if other users can write to it. */
static void test_a_folder_writable_by_others(void **state)
{
    (void)state;
    put(1);
    const char *folder = folder_of(1);
    assert_int_equal(chmod(folder, 0777), 0);
    expect_get(1, KILN_E_DENIED);
    assert_int_equal(remove_key(1), KILN_E_IO);
    assert_int_equal(scratch_put(store, 1, 1000), KILN_E_DENIED);
    kiln_store_stat stat = {.struct_size = sizeof stat};
    assert_int_equal(kiln_store_get_stat(store, 0, &stat), KILN_E_DENIED);
    assert_int_equal(trim_to(store, 0, NULL), KILN_E_DENIED);
    assert_int_equal(chmod(folder, 0700), 0);
    expect_get(1, KILN_OK);
    assert_int_equal(get_stat().entries, 1);
}

/* The folder of one number was moved elsewhere and replaced by a link. */
static void test_a_slot_that_is_a_link(void **state)
{
    (void)state;
    if (is_sycl()) {
        skip();
    }
    char slot[SCRATCH_PATH_SIZE], moved[SCRATCH_PATH_SIZE], key[SCRATCH_PATH_SIZE + 16],
        payload[SCRATCH_PATH_SIZE + 16];
    put(1);
    snprintf(slot, sizeof slot, "%s/0", folder_of(1));
    snprintf(moved, sizeof moved, "%s/elsewhere", scratch);
    snprintf(key, sizeof key, "%s/key.bin", moved);
    snprintf(payload, sizeof payload, "%s/kernel.bin", moved);
    set_time(payload_file(1, 0), 1000000);
    assert_int_equal(rename(slot, moved), 0);
    assert_int_equal(symlink(moved, slot), 0);
    unsigned char *bytes;
    const size_t size = read_whole(payload, &bytes);

    expect_get(1, KILN_MISS);
    assert_int_equal(remove_key(1), KILN_MISS);
    assert_int_equal(verify().checked, 0);
    assert_int_equal(trim_to(store, 0, NULL), KILN_OK);
    assert_true(exists(key));
    assert_int_equal(scratch_put(store, 1, 2000), KILN_OK);
    expect_get(1, KILN_OK);
    assert_true(exists(payload_file(1, 1)));
    expect_bytes(payload, bytes, size);
    free(bytes);

    /* Without its key file, the moved payload would be a leftover, and it is old. */
    assert_int_equal(unlink(key), 0);
    assert_int_equal(trim_to(store, 0, NULL), KILN_OK);
    assert_true(exists(payload));
    assert_true(exists(slot));
}

static int swap_slot_and_remove(void *user, kiln_item *item)
{
    char slot[SCRATCH_PATH_SIZE];
    const char *moved = scratch_path(scratch, "elsewhere");
    snprintf(slot, sizeof slot, "%s/0", folder_of(1));
    assert_int_equal(rename(slot, moved), 0);
    assert_int_equal(symlink(moved, slot), 0);
    *(kiln_status *)user = kiln_item_remove(item);
    return 0;
}

static void test_a_slot_that_becomes_a_link(void **state)
{
    (void)state;
    if (is_sycl()) {
        skip();
    }
    kiln_status removed = KILN_OK;
    put(1);
    assert_int_equal(kiln_store_each(store, swap_slot_and_remove, &removed), KILN_OK);
    assert_int_equal(removed, KILN_MISS);
    assert_true(exists(scratch_path(scratch, "elsewhere/key.bin")));
    assert_true(exists(scratch_path(scratch, "elsewhere/kernel.bin")));
}

static void test_a_file_in_a_slots_place(void **state)
{
    (void)state;
    if (is_sycl()) {
        skip();
    }
    make_directories(file_at(folder_of(1), 0, true));
    char slot[SCRATCH_PATH_SIZE];
    snprintf(slot, sizeof slot, "%s/0", folder_of(1));
    assert_int_equal(rmdir(slot), 0);
    write_whole(slot, "mine", 4);
    put(1);
    expect_get(1, KILN_OK);
    assert_true(exists(payload_file(1, 1)));
    expect_bytes(slot, "mine", 4);
}

/* ---- an existing directory ---- */

static unsigned ways_to_the_directory;

static int openat_that_counts(int directory, const char *path, int flags, mode_t mode)
{
    ways_to_the_directory += strcmp(path, "/") == 0;
    return kilni_os_system()->openat(directory, path, flags, mode);
}

static void test_a_file_in_a_folders_place(void **state)
{
    (void)state;
    kilni_os_table table = *kilni_os_system();
    char folder[FOLDER_SIZE];
    snprintf(folder, sizeof folder, "%s", folder_of(1));
    folder[strlen(cache) + 1 + strcspn(folder + strlen(cache) + 1, "/")] = '\0';
    write_whole(folder, "mine", 4);
    table.openat = openat_that_counts;
    ways_to_the_directory = 0;
    kilni_os_replace(&table);
    assert_int_equal(scratch_put(store, 1, 1000), KILN_E_IO);
    assert_int_equal(ways_to_the_directory, 0); /* the directory was not removed */
    expect_bytes(folder, "mine", 4);
}

/* ---- a failing disk ---- */

static bool is_payload_sick;

static int openat_before_a_sick_payload(int directory, const char *path, int flags, mode_t mode)
{
    is_payload_sick |= strncmp(path, "./.tmp-", 7) == 0 && flags & O_CREAT;
    return kilni_os_system()->openat(directory, path, flags, mode);
}

static int fstatat_of_a_sick_payload(int directory, const char *path, struct stat *ret_stat,
                                     int flags)
{
    if (is_payload_sick && strcmp(path, is_sycl() ? "0.bin" : "0/kernel.bin") == 0) {
        errno = EIO;
        return -1;
    }
    return kilni_os_system()->fstatat(directory, path, ret_stat, flags);
}

static void test_unidentifiable_payload_stays(void **state)
{
    (void)state;
    kilni_os_table table = *kilni_os_system();
    table.openat = openat_before_a_sick_payload;
    table.fstatat = fstatat_of_a_sick_payload;
    put(1);
    unsigned char *bytes;
    const size_t size = read_whole(payload_file(1, 0), &bytes);
    is_payload_sick = false;
    kilni_os_replace(&table);
    assert_int_equal(scratch_put(store, 1, 20000), KILN_OK);
    kilni_os_replace(NULL);
    expect_bytes(payload_file(1, 0), bytes, size);
    assert_true(exists(payload_file(1, 1)));
    expect_size_known();
    free(bytes);
}

/* For the first payload the folder is missing; after that, the disk is full. */
static int openat_for_two_files(int directory, const char *path, int flags, mode_t mode)
{
    if (strncmp(path, "./.tmp-", 7) == 0 && flags & O_CREAT && ++temporaries_made > 2) {
        errno = ENOSPC;
        return -1;
    }
    return kilni_os_system()->openat(directory, path, flags, mode);
}

static int renameat_missing_payloads(int from, const char *old_path, int to, const char *new_path)
{
    if (strcmp(new_path, is_sycl() ? "0.bin" : "0/kernel.bin") == 0) {
        errno = ENOENT;
        return -1;
    }
    return kilni_os_system()->renameat(from, old_path, to, new_path);
}

static void test_put_gives_up_a_number_after_many_tries(void **state)
{
    (void)state;
    kilni_os_table table = *kilni_os_system();
    table.openat = openat_for_two_files;
    table.renameat = renameat_missing_payloads;
    temporaries_made = 0;
    kilni_os_replace(&table);
    assert_int_equal(scratch_put(store, 1, 1000), KILN_E_FULL);
    kilni_os_replace(NULL);
    assert_int_equal(count_keys(), 0);
    assert_int_equal(count_folders(), 0);
}

/* ---- the cases of DPC++'s tests of its cache ---- */

static void test_keys_with_zero_bytes(void **state)
{
    (void)state;
    for (unsigned char last = 0; last < 3; last++) {
        kiln_key_builder *builder = NULL;
        kiln_key *key = NULL;
        kiln_entry *entry = NULL, *found = NULL;
        const unsigned char constants[] = {'a', 0, 'b', 0, last};
        assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
        assert_int_equal(kiln_key_builder_add(builder, "spec constants", constants, 5), KILN_OK);
        assert_int_equal(kiln_key_builder_add(builder, "build options", "-a\0b", 5), KILN_OK);
        assert_int_equal(kiln_key_builder_finish(builder, &key), KILN_OK);
        const kiln_entry_params params = {
            .struct_size = sizeof params,
            .key = key,
            .kind = KILN_ENTRY_PROGRAM,
            .provenance.struct_size = sizeof params.provenance,
            .payload = {constants, sizeof constants},
        };
        assert_int_equal(kiln_entry_new(&params, &entry), KILN_OK);
        assert_int_equal(kiln_store_put(store, entry), KILN_OK);
        assert_int_equal(kiln_store_get(store, key, &found), KILN_OK);
        assert_memory_equal(kiln_entry_payload(found).data, constants, sizeof constants);
        kiln_entry_release(&found);
        kiln_entry_release(&entry);
        kiln_key_release(&key);
        kiln_key_builder_free(&builder);
    }
    assert_int_equal(count_keys(), 3);
}

/* The order of images is part of the key: it is the caller that sorts them. */
static void test_images_in_another_order(void **state)
{
    (void)state;
    const char *const one[] = {"image", "first", "image", "second"};
    const char *const other[] = {"image", "second", "image", "first"};
    const char *const joined[] = {"image", "firstsecond"};
    put_parts(one, 2);
    kiln_entry *reversed = entry_of_parts(other, 2, "x"), *whole = entry_of_parts(joined, 1, "x");
    kiln_entry *found = NULL;
    assert_int_equal(kiln_store_get(store, kiln_entry_key(reversed), &found), KILN_MISS);
    assert_int_equal(kiln_store_get(store, kiln_entry_key(whole), &found), KILN_MISS);
    kiln_entry_release(&reversed);
    kiln_entry_release(&whole);
}

static size_t item_size;

static void *put_and_get(void *argument)
{
    (void)argument;
    uintptr_t failures = scratch_put(store, 1, item_size) != KILN_OK;
    return (void *)(failures + (scratch_get(store, 1) != KILN_OK));
}

static void test_many_threads_with_the_same_item(void **state)
{
    (void)state;
    const struct {
        size_t size;
        unsigned threads;
    } cases[] = {{128, 300}, {10000, 100}, {1000000, 20}};
    for (size_t i = 0; i < 3; i++) {
        item_size = cases[i].size;
        run_threads(put_and_get, cases[i].threads);
        assert_int_equal(count_keys(), 1);
        assert_int_equal(verify().ok, 1);
    }
    /* Two writers that replace the same entry may have counted it twice; this trim counts again. */
    assert_int_equal(trim_to(store, KILN_UNLIMITED, NULL), KILN_OK);
    expect_size_known();
}

/* An entry is missed if one of its files is missing, truncated or garbage. Once it is built again,
 * it is found, and the store contains it only once. */
static void test_corrupted_files_are_rebuilt(void **state)
{
    (void)state;
    put(1);
    assert_int_equal(unlink(payload_file(1, 0)), 0);
    expect_get(1, KILN_MISS);
    put(1);
    write_whole(payload_file(1, 0), "garbage", 7);
    expect_get(1, KILN_E_CORRUPT);
    put(1);
    expect_get(1, KILN_OK);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(truncate(payload_file(1, 0), 100), 0);
        expect_get(1, KILN_E_CORRUPT);
        put(1);
        expect_get(1, KILN_OK);
    }
    assert_int_equal(count_payloads(), 1);
    write_whole(key_file(1, 0), "", 0);
    expect_get(1, KILN_MISS);
    for (int i = 0; i < 10; i++) {
        put(1);
        expect_get(1, KILN_OK);
    }
    assert_int_equal(count_payloads(), 2);
}

/* A lock file that a crashed program has left delays no call. */
static void test_stale_lock_files(void **state)
{
    (void)state;
    put(1);
    assert_int_equal(count_with_suffix(".lock"), 0);
    char folder[FOLDER_SIZE];
    snprintf(folder, sizeof folder, "%s", folder_of(1));
    write_whole(scratch_path(folder, "0.lock"), "", 0);
    write_whole(scratch_path(folder, "1.lock"), "", 0);
    expect_get(1, KILN_OK);
    put(1);
    assert_int_equal(count_payloads(), 1);
    assert_int_equal(trim_to(store, 0, NULL), KILN_OK);
    expect_get(1, KILN_MISS);
    assert_true(exists(scratch_path(folder, "0.lock")));
}

static bool denies;

static int openat_denied(int directory, const char *path, int flags, mode_t mode)
{
    const char *name = is_sycl() ? "0.bin" : "0/kernel.bin";
    if (denies && strcmp(path, name) == 0) {
        errno = EACCES;
        return -1;
    }
    return kilni_os_system()->openat(directory, path, flags, mode);
}

static void test_access_denied(void **state)
{
    (void)state;
    kilni_os_table table = *kilni_os_system();
    table.openat = openat_denied;
    put(1);
    kilni_os_replace(&table);
    denies = true;
    expect_get(1, KILN_E_DENIED);
    put(1);
    denies = false;
    expect_get(1, KILN_OK);
    assert_int_equal(count_payloads(), 1); /* the entry was replaced */
}

static void test_basic_eviction(void **state)
{
    (void)state;
    open_at("&stamp=0");
    cut_hashes(0);
    for (uint64_t i = 0; i < 3; i++) {
        put(i);
        put(i);
        set_time(payload_file(i, (unsigned)i), 1000000 + (time_t)i);
    }
    expect_get(0, KILN_OK);
    char more[64];
    snprintf(more, sizeof more, "&stamp=0&max-size=%llu",
             (unsigned long long)get_stat().bytes / 9 * 10 + 10);
    open_at(more);
    cut_hashes(0);
    put(3);
    assert_int_equal(count_payloads(), 3);
    assert_false(exists(payload_file(1, 1)));
    expect_get(0, KILN_OK);
    expect_get(1, KILN_MISS);
    expect_get(2, KILN_OK);
    expect_get(3, KILN_OK);
}

static void *put_own(void *argument)
{
    const uint64_t number = (uint64_t)(uintptr_t)argument;
    return (void *)(uintptr_t)(scratch_put(store, number, 1000) != KILN_OK);
}

static void test_many_threads_add_up_the_size(void **state)
{
    (void)state;
    cut_hashes(2);
    put(0); /* from now on the size is known, so no call counts the entries */
    run_threads(put_own, 50);
    assert_int_equal(count_keys(), 51);
    expect_size_known();
}

static void test_many_threads_evict(void **state)
{
    (void)state;
    open_at("&max-size=30000");
    run_threads(put_own, 40);
    put(99);
    assert_int_equal(trim_to(store, 30000, NULL), KILN_OK);
    assert_true(get_stat().bytes <= 30000);
    kiln_verify_report report = verify();
    assert_int_equal(report.corrupt, 0);
    assert_int_equal(report.ok, get_stat().entries);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_the_layout_is_a_parameter),
        TEST(test_names_and_bytes),
        TEST(test_files_of_another_writer),
        TEST(test_a_level_for_each_kind_of_part),
        TEST(test_first_words_of_part_names_decide_the_level),
        TEST(test_parts_of_a_level_count_together),
        TEST(test_requests_have_the_same_place_in_each_layout),
        TEST(test_stripped_keys),
        TEST(test_collisions),
        TEST(test_entries_after_a_gap_are_found),
        TEST(test_evictions_make_gaps),
        TEST(test_copies_of_the_same_key),
        TEST(test_a_newer_entry_keeps_its_number),
        TEST(test_incomplete_pair_is_a_miss),
        TEST(test_old_incomplete_pairs_are_leftovers),
        TEST(test_every_truncation_of_a_key_file),
        TEST(test_every_flip_in_a_key_file),
        TEST(test_lengths_in_a_key_file_are_not_trusted),
        TEST(test_key_file_beside_the_payload_of_another_entry),
        TEST(test_a_damaged_item_has_its_keys_digest),
        TEST(test_an_item_has_its_payloads_path),
        TEST(test_a_pair_in_a_wrong_folder),
        TEST(test_files_with_foreign_names_stay),
        TEST(test_non_files_in_a_payloads_place),
        TEST(test_empty_folders_are_removed),
        TEST(test_backends),
        TEST(test_the_size_is_written_to_a_file),
        TEST(test_racing_writers_leave_one_entry),
        TEST(test_writers_and_janitors_of_one_folder),
        TEST(test_a_fresh_payload_is_not_evicted),
        TEST(test_folders_that_are_removed_while_they_are_made),
        TEST(test_removals_of_nothing_do_not_stop_a_put),
        TEST(test_a_put_that_tries_again_leaves_the_folders),
        TEST(test_put_whose_key_file_was_removed),
        TEST(test_a_file_system_without_links),
        TEST(test_failed_put_keeps_the_payload_of_another),
        TEST(test_failed_put_restores_a_key_file),
        TEST(test_a_put_that_fails_leaves_nothing),
        TEST(test_used_entries_are_removed_on_demand),
        TEST(test_an_item_that_is_used_is_removed),
        TEST(test_failed_removal_is_reported),
        TEST(test_pair_listed_as_half_is_kept),
        TEST(test_pair_that_is_completed_stays),
        TEST(test_files_set_aside_are_found),
        TEST(test_temporaries_at_the_top),
        TEST(test_links_in_the_path_are_not_followed),
        TEST(test_a_folder_writable_by_others),
        TEST(test_a_slot_that_is_a_link),
        TEST(test_a_slot_that_becomes_a_link),
        TEST(test_a_file_in_a_slots_place),
        TEST(test_a_file_in_a_folders_place),
        TEST(test_unidentifiable_payload_stays),
        TEST(test_put_gives_up_a_number_after_many_tries),
        TEST(test_keys_with_zero_bytes),
        TEST(test_images_in_another_order),
        TEST(test_many_threads_with_the_same_item),
        TEST(test_corrupted_files_are_rebuilt),
        TEST(test_stale_lock_files),
        TEST(test_access_denied),
        TEST(test_basic_eviction),
        TEST(test_many_threads_add_up_the_size),
        TEST(test_many_threads_evict),
    };
    if (access("/dev/shm", W_OK) == 0) {
        setenv("TMPDIR", "/dev/shm",
               0); /* on a disk, files that are truncated and rewritten wait for a flush */
    }
    scratch_layout = "sycl";
    int failures = cmocka_run_group_tests_name("sycl", tests, NULL, NULL);
    scratch_layout = "onednn";
    return failures + cmocka_run_group_tests_name("onednn", tests, NULL, NULL);
}
