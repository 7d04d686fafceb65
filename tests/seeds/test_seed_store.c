/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the documents' statements about caches on disk: oneDNN's option 1 (000), and SYCL's
 * persistent cache (001). docs/seeds.md names each test beside its statement.
 */
#include "support/cache_scene.h"

#include <regex.h>
#include <time.h>

#include "store/dir/file_pair.h"

#define HASH "[0-9a-f]{32}"
/* The files that every store has besides its entries. */
#define BOOKS "CACHEDIR\\.TAG|lease|stats|v1/janitor/summary|"

static kiln_store *store;

static void open_store(const char *options)
{
    char url[SCRATCH_PATH_SIZE];
    kiln_store_close(&store);
    snprintf(url, sizeof url, "file://%s?%s", cache, options);
    assert_int_equal(kiln_store_open(url, NULL, &store, NULL), KILN_OK);
}

static int tear_down(void **state)
{
    kiln_store_close(&store);
    return cache_tear_down(state);
}

/* All hashes are equal, so all keys collide. */
static void collide(void)
{
    ((kilni_dir *)store)->hash_bits = 0;
}

/* ---- keys of the documents' four components ---- */

typedef struct components {
    const char *device, *image, *constants, *options;
} components;

static kiln_key *key_of(const components *of)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
    assert_int_equal(kiln_key_builder_add_text(builder, "device", of->device), KILN_OK);
    assert_int_equal(kiln_key_builder_add_text(builder, "image", of->image), KILN_OK);
    assert_int_equal(kiln_key_builder_add_text(builder, "spec constants", of->constants), KILN_OK);
    assert_int_equal(kiln_key_builder_add_text(builder, "build options", of->options), KILN_OK);
    assert_int_equal(kiln_key_builder_finish(builder, &key), KILN_OK);
    kiln_key_builder_free(&builder);
    return key;
}

/* Puts a text. If @created_s is 0, it was created now. */
static void put(const components *of, const char *text, int64_t created_s)
{
    kiln_key *key = key_of(of);
    kiln_entry *entry = NULL;
    const kiln_entry_params params = {
        .struct_size = sizeof params,
        .key = key,
        .kind = KILN_ENTRY_PROGRAM,
        .provenance = {.struct_size = sizeof params.provenance, .created_s = created_s},
        .payload = {text, strlen(text)},
    };
    assert_int_equal(kiln_entry_new(&params, &entry), KILN_OK);
    assert_int_equal(kiln_store_put(store, entry), KILN_OK);
    kiln_entry_release(&entry);
    kiln_key_release(&key);
}

/* Checks that a key's text is found, or that nothing is found if @text is NULL. */
static void expect(const components *of, const char *text)
{
    kiln_key *key = key_of(of);
    kiln_entry *entry = NULL;
    assert_int_equal(kiln_store_get(store, key, &entry), text ? KILN_OK : KILN_MISS);
    if (text) {
        assert_int_equal(kiln_entry_payload(entry).size, strlen(text));
        assert_memory_equal(kiln_entry_payload(entry).data, text, strlen(text));
    }
    kiln_entry_release(&entry);
    kiln_key_release(&key);
}

static const components plain = {"a device", "an image", "values", "-O2"};

static const components variants[] = {
    {"a device", "an image", "values", "-O2"},      {"another device", "an image", "values", "-O2"},
    {"a device", "another image", "values", "-O2"}, {"a device", "an image", "others", "-O2"},
    {"a device", "an image", "values", "-O3"},
};

static const char *const texts[] = {"code 0", "code 1", "code 2", "code 3", "code 4"};

enum { VARIANT_COUNT = sizeof variants / sizeof *variants };

/* ---- the tree ---- */

static regex_t wanted_name;
static unsigned matching, others;

static int look(const char *path, const struct stat *stat, int kind, struct FTW *walk)
{
    (void)stat, (void)walk;
    if (kind == FTW_F) {
        const char *name = path + strlen(cache) + 1;
        const bool is_wanted = regexec(&wanted_name, name, 0, NULL, 0) == 0;
        matching += is_wanted;
        others += !is_wanted;
    }
    return 0;
}

/* Returns the number of files below the cache whose names match, and counts the rest in @others. */
static unsigned count_files(const char *names)
{
    char pattern[256];
    snprintf(pattern, sizeof pattern, "^(%s)$", names);
    assert_int_equal(regcomp(&wanted_name, pattern, REG_EXTENDED | REG_NOSUB), 0);
    matching = others = 0;
    assert_int_equal(nftw(cache, look, 16, FTW_PHYS), 0);
    regfree(&wanted_name);
    return matching;
}

/* ---- oneDNN: persistent cache, option 1 ---- */

static void seed_000_the_tree_as_drawn(void **state)
{
    (void)state;
    open_store("layout=onednn");
    put(&variants[0], texts[0], 0);
    put(&variants[1], texts[1], 0);
    assert_int_equal(count_files("size\\.txt"), 1);
    assert_int_equal(count_files(HASH "/0/key\\.bin"), 2);
    assert_int_equal(count_files(HASH "/0/kernel\\.bin"), 2);
    count_files(BOOKS "size\\.txt|" HASH "/0/(key|kernel)\\.bin");
    assert_int_equal(others, 0);
}

static void seed_000_numbers_begin_at_0(void **state)
{
    (void)state;
    open_store("layout=onednn");
    collide();
    for (unsigned i = 0; i < 3; i++) {
        put(&variants[i], texts[i], 0);
    }
    assert_int_equal(count_files(HASH "/[012]/key\\.bin"), 3);
    assert_int_equal(count_files(HASH "/[012]/kernel\\.bin"), 3);
    for (unsigned i = 0; i < 3; i++) {
        expect(&variants[i], texts[i]);
    }
    expect(&variants[3], NULL);
}

static unsigned long long size_in_file(void)
{
    FILE *file = fopen(scratch_path(cache, "size.txt"), "r");
    assert_non_null(file);
    unsigned long long size = 0;
    assert_int_equal(fscanf(file, "%llu", &size), 1);
    fclose(file);
    return size;
}

static void seed_000_a_wrong_size_is_harmless(void **state)
{
    (void)state;
    open_store("layout=onednn&max-size=1M");
    put(&variants[0], texts[0], 0);
    const unsigned long long right = size_in_file();
    FILE *file = fopen(scratch_path(cache, "size.txt"), "w");
    assert_non_null(file);
    fputs("18446744073709551615\n", file);
    fclose(file);
    put(&variants[1], texts[1], 0);
    expect(&variants[0], texts[0]);
    expect(&variants[1], texts[1]);
    assert_int_equal(size_in_file(), 2 * right);
}

/* The entries are put in a different order from that in which they were created, as in a copied
 * cache. */
static void seed_000_what_was_created_first_is_evicted(void **state)
{
    (void)state;
    open_store("layout=onednn&policy=fifo&stamp=0");
    const int64_t now = time(NULL);
    const unsigned order[] = {2, 0, 3, 1};
    for (unsigned i = 0; i < 4; i++) {
        put(&variants[order[i]], texts[order[i]], now - 1000 + order[i]);
    }
    expect(&variants[0], texts[0]); /* uses have no effect */
    kiln_store_stat held = {.struct_size = sizeof held};
    assert_int_equal(kiln_store_get_stat(store, 0, &held), KILN_OK);
    assert_int_equal(trim_to(store, held.bytes / 2, NULL), KILN_OK);
    expect(&variants[0], NULL);
    expect(&variants[1], NULL);
    expect(&variants[2], texts[2]);
    expect(&variants[3], texts[3]);
}

static void seed_000_disk_does_not_need_memory(void **state)
{
    (void)state;
    open_store("layout=onednn");
    put(&plain, "code", 0);
    open_store("layout=onednn");
    expect(&plain, "code");
}

/* A sum of the times at which files were last written or changed. It does not depend on the order
 * of the files. */
static int64_t sum_of_times;

static int add_time(const char *path, const struct stat *stat, int kind, struct FTW *walk)
{
    (void)kind;
    sum_of_times += stat->st_mtim.tv_sec + stat->st_mtim.tv_nsec + (int64_t)strlen(path);
    sum_of_times += stat->st_ctim.tv_nsec * (walk->level + 1);
    return 0;
}

static int64_t times(void)
{
    sum_of_times = 0;
    assert_int_equal(nftw(cache, add_time, 16, FTW_PHYS), 0);
    return sum_of_times;
}

static void seed_000_readers_write_and_lock_nothing(void **state)
{
    (void)state;
    open_store("layout=onednn");
    put(&plain, "code", 0);
    open_store("layout=onednn&stamp=3600");
    const int lock = open(scratch_path(cache, "lease"), O_RDWR | O_CLOEXEC);
    const int counters = open(scratch_path(cache, "stats"), O_RDWR | O_CLOEXEC);
    assert_true(lock >= 0 && counters >= 0);
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    assert_int_equal(fcntl(lock, F_OFD_SETLK, &all), 0);
    assert_int_equal(fcntl(counters, F_OFD_SETLK, &all), 0);
    const int64_t before = times();
    expect(&plain, "code");
    expect(&variants[1], NULL);
    assert_int_equal(times(), before);
    close(lock);
    close(counters);
}

/* ---- SYCL: kernel and program cache, on disk ---- */

static void seed_001_the_tree_as_described(void **state)
{
    (void)state;
    open_store("layout=sycl");
    for (unsigned i = 0; i < VARIANT_COUNT; i++) {
        put(&variants[i], texts[i], 0);
    }
    const char *folder = HASH "/" HASH "/" HASH "/" HASH;
    char items[256];
    snprintf(items, sizeof items, "%s/0\\.src", folder);
    assert_int_equal(count_files(items), VARIANT_COUNT);
    snprintf(items, sizeof items, "%s/0\\.bin", folder);
    assert_int_equal(count_files(items), VARIANT_COUNT);
    snprintf(items, sizeof items, BOOKS "%s/0\\.(src|bin)", folder);
    count_files(items);
    assert_int_equal(others, 0);
}

/* Keys that differ in one component are distinguished even if all hashes are equal. */
static void seed_001_the_full_key_decides(void **state)
{
    (void)state;
    open_store("layout=sycl");
    collide();
    for (unsigned i = 0; i < VARIANT_COUNT; i++) {
        expect(&variants[i], NULL);
        put(&variants[i], texts[i], 0);
    }
    const char *item = HASH "/" HASH "/" HASH "/" HASH "/[01234]\\.bin";
    assert_int_equal(count_files(item), VARIANT_COUNT);
    for (unsigned i = 0; i < VARIANT_COUNT; i++) {
        expect(&variants[i], texts[i]);
    }
}

static void seed_001_the_next_number_is_free(void **state)
{
    (void)state;
    open_store("layout=sycl");
    collide();
    for (unsigned i = 0; i < 3; i++) {
        put(&variants[i], texts[i], 0);
    }
    kiln_key *key = key_of(&variants[1]);
    assert_int_equal(kiln_store_remove(store, key), KILN_OK);
    kiln_key_release(&key);
    const char *second = HASH "/" HASH "/" HASH "/" HASH "/1\\.src";
    assert_int_equal(count_files(second), 0);
    put(&variants[3], texts[3], 0);
    assert_int_equal(count_files(second), 1);
    expect(&variants[2], texts[2]);
    expect(&variants[3], texts[3]);
}

#define of_store(name) cmocka_unit_test_setup_teardown(name, cache_set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        of_store(seed_000_the_tree_as_drawn),
        of_store(seed_000_numbers_begin_at_0),
        of_store(seed_000_a_wrong_size_is_harmless),
        of_store(seed_000_what_was_created_first_is_evicted),
        of_store(seed_000_disk_does_not_need_memory),
        of_store(seed_000_readers_write_and_lock_nothing),
        of_store(seed_001_the_tree_as_described),
        of_store(seed_001_the_full_key_decides),
        of_store(seed_001_the_next_number_is_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
