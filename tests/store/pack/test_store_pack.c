/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that packs give the guarantees of every store, but are read-only; that their bytes follow
 * the format; and that no damage, forgery or failing call yields a wrong entry.
 */
#include "support/store_scene.h"

#include <errno.h>

#include <kiln/pack.h>

#include "entry/entry.h"
#include "key/hash.h"
#include "os/os.h"
#include "store/pack/format.h"
#include "store/store.h"
#include "support/failing_malloc.h"
#include "support/golden.h"

static char scratch[SCRATCH_DIRECTORY_SIZE];
static char path[SCRATCH_DIRECTORY_SIZE + 16];
static char location[SCRATCH_DIRECTORY_SIZE + 32];

static int set_up(void **state)
{
    (void)state;
    scratch_make(scratch);
    snprintf(path, sizeof path, "%s/a.kpack", scratch);
    snprintf(location, sizeof location, "pack:%s", path);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    kilni_os_replace(NULL);
    scratch_remove(scratch);
    return 0;
}

static kiln_status try_write(uint64_t from, uint64_t to, const kiln_pack_params *params)
{
    kiln_pack_writer *writer = NULL;
    kiln_status status = kiln_pack_writer_open(path, params, &writer, NULL);
    for (uint64_t i = from; status == KILN_OK && i < to; i++) {
        kiln_entry *entry = scratch_entry(i, 100 + i);
        status = entry ? kiln_pack_writer_add(writer, entry) : KILN_E_NO_MEMORY;
        kiln_entry_release(&entry);
    }
    if (status != KILN_OK) {
        kiln_pack_writer_abandon(&writer);
        return status;
    }
    return kiln_pack_writer_finish(&writer, NULL, NULL);
}

static void write_pack(uint64_t from, uint64_t to)
{
    assert_int_equal(try_write(from, to, NULL), KILN_OK);
}

static kiln_store *open_pack(void)
{
    kiln_store *store = NULL;
    kiln_error error = {.struct_size = sizeof error};
    kiln_status status = kiln_store_open(location, NULL, &store, &error);
    if (status != KILN_OK) {
        fprintf(stderr, "%s\n", error.text);
    }
    assert_int_equal(status, KILN_OK);
    return store;
}

static kiln_status try_open(const char *where)
{
    kiln_store *store = NULL;
    kiln_status status = kiln_store_open(where, NULL, &store, NULL);
    kiln_store_close(&store);
    return status;
}

static unsigned char *read_whole(size_t *ret_size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    struct stat stat;
    assert_int_equal(fstat(fileno(file), &stat), 0);
    *ret_size = (size_t)stat.st_size;
    unsigned char *bytes = malloc(*ret_size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *ret_size, file), *ret_size);
    fclose(file);
    return bytes;
}

static void write_whole(const void *bytes, size_t size)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, size), (ssize_t)size);
    close(file);
}

static unsigned count_files(void)
{
    DIR *listing = opendir(scratch);
    unsigned count = 0;
    assert_non_null(listing);
    for (struct dirent *found; (found = readdir(listing)) != NULL;) {
        count += strcmp(found->d_name, ".") != 0 && strcmp(found->d_name, "..") != 0;
    }
    closedir(listing);
    return count;
}

/* ---- the guarantees of every store ---- */

static void test_put_and_get(void **state)
{
    (void)state;
    write_pack(0, 40);
    kiln_store *store = open_pack();
    for (uint64_t i = 0; i < 40; i++) {
        kiln_key *key = scratch_key(i);
        assert_int_equal(scratch_get(store, i), KILN_OK);
        assert_int_equal(kiln_store_contains(store, key), KILN_OK);
        kiln_key_release(&key);
    }
    for (uint64_t i = 40; i < 400; i++) {
        kiln_key *key = scratch_key(i);
        assert_int_equal(scratch_get(store, i), KILN_MISS);
        assert_int_equal(kiln_store_contains(store, key), KILN_MISS);
        kiln_key_release(&key);
    }
    kiln_store_close(&store);
    assert_null(store);
}

/* This number of entries needs several buckets, and some of these are nearly full. */
static void test_many_entries(void **state)
{
    (void)state;
    write_pack(0, 3000);
    kiln_store *store = open_pack();
    for (uint64_t i = 0; i < 3000; i++) {
        assert_int_equal(scratch_get(store, i), KILN_OK);
    }
    assert_int_equal(scratch_get(store, 3000), KILN_MISS);
    kiln_store_close(&store);
}

static void test_no_entries_in_a_pack(void **state)
{
    (void)state;
    write_pack(0, 0);
    kiln_store *store = open_pack();
    assert_int_equal(scratch_get(store, 0), KILN_MISS);
    kiln_store_close(&store);
}

typedef struct listing {
    unsigned count, sound;
    uint64_t bytes;
    bool stops;
    kiln_status removed;
} listing;

static int list_item(void *user, kiln_item *item)
{
    listing *list = user;
    kiln_item_info info = {.struct_size = sizeof info};
    kiln_entry *entry = NULL;
    assert_int_equal(kiln_item_get_info(item, &info), KILN_OK);
    assert_int_equal(info.state, KILN_OK);
    assert_string_equal(info.path, path);
    assert_memory_equal(info.name, "kernel_", 7);
    assert_string_equal(info.device, "a device of tests");
    assert_int_equal(kiln_item_read(item, &entry), KILN_OK);
    list->sound += scratch_entry_is(entry, info.build_ns - 1000);
    assert_int_equal(kiln_entry_payload(entry).size, info.bytes);
    kiln_entry_release(&entry);
    list->removed = kiln_item_remove(item);
    list->count++;
    list->bytes += info.bytes;
    return list->stops;
}

static void test_each(void **state)
{
    (void)state;
    write_pack(0, 200);
    kiln_store *store = open_pack();
    listing all = {0};
    assert_int_equal(kiln_store_each(store, list_item, &all), KILN_OK);
    assert_int_equal(all.count, 200);
    assert_int_equal(all.sound, 200);
    assert_int_equal(all.bytes, 200 * 100 + 199 * 200 / 2);
    assert_int_equal(all.removed, KILN_E_READONLY);
    listing first = {.stops = true};
    assert_int_equal(kiln_store_each(store, list_item, &first), KILN_OK);
    assert_int_equal(first.count, 1);
    kiln_key *key = scratch_key(7);
    kiln_digest digest = kiln_key_digest(key);
    listing one = {0};
    assert_int_equal(kiln_store_each_of_digest(store, &digest, list_item, &one), KILN_OK);
    assert_int_equal(one.count, 1);
    digest.bytes[15] ^= 1;
    assert_int_equal(kiln_store_each_of_digest(store, &digest, list_item, &one), KILN_OK);
    assert_int_equal(one.count, 1);
    kiln_key_release(&key);
    listing requests = {0};
    assert_int_equal(kiln_store_each_request(store, list_item, &requests), KILN_OK);
    assert_int_equal(requests.count, 0);
    kiln_store_stat stat = {.struct_size = sizeof stat};
    assert_int_equal(kiln_store_get_stat(store, 0, &stat), KILN_OK);
    assert_int_equal(stat.entries, 200);
    assert_true(stat.bytes > 0);
    kiln_verify_report report = {.struct_size = sizeof report};
    assert_int_equal(kiln_store_verify(store, NULL, NULL, &report), KILN_OK);
    assert_int_equal(report.ok, 200);
    kiln_store_close(&store);
}

static void test_nothing_is_written(void **state)
{
    (void)state;
    write_pack(0, 3);
    size_t size, size_after;
    unsigned char *before = read_whole(&size);
    kiln_store *store = open_pack();
    kiln_key *key = scratch_key(1);
    kiln_lease *lease = NULL;
    const kiln_stats delta = {.misses = 1};
    assert_int_equal(kilni_store_capabilities(store), KILNI_STORE_FOREIGN);
    assert_int_equal(scratch_put(store, 7, 100), KILN_E_READONLY);
    assert_int_equal(kiln_store_remove(store, key), KILN_E_READONLY);
    assert_int_equal(trim_to(store, 0, NULL), KILN_E_READONLY);
    assert_int_equal(kiln_store_add_stats(store, &delta), KILN_E_READONLY);
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_E_UNSUPPORTED);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    kiln_key_release(&key);
    kiln_store_close(&store);
    unsigned char *after = read_whole(&size_after);
    assert_int_equal(size, size_after);
    assert_memory_equal(before, after, size);
    free(before);
    free(after);
}

/* ---- writing ---- */

static void test_the_order_of_entries_does_not_count(void **state)
{
    (void)state;
    enum { COUNT = 150 };
    kiln_entry *entries[COUNT];
    unsigned char *packs[2];
    size_t sizes[2];
    for (uint64_t i = 0; i < COUNT; i++) {
        entries[i] = scratch_entry(i, 300);
    }
    for (int round = 0; round < 2; round++) {
        kiln_pack_writer *writer = NULL;
        kiln_pack_report report = {.struct_size = sizeof report};
        assert_int_equal(kiln_pack_writer_open(path, NULL, &writer, NULL), KILN_OK);
        for (int i = 0; i < COUNT; i++) {
            const kiln_entry *entry = entries[round == 0 ? i : COUNT - 1 - i];
            assert_int_equal(kiln_pack_writer_add(writer, entry), KILN_OK);
            assert_int_equal(kiln_pack_writer_add(writer, entry), KILN_OK);
        }
        assert_int_equal(kiln_pack_writer_finish(&writer, &report, NULL), KILN_OK);
        assert_null(writer);
        packs[round] = read_whole(&sizes[round]);
        assert_int_equal(report.entries, COUNT);
        assert_int_equal(report.bytes, sizes[round]);
    }
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(packs[0], packs[1], sizes[0]);
    assert_int_equal(count_files(), 1);
    for (int i = 0; i < COUNT; i++) {
        kiln_entry_release(&entries[i]);
    }
    free(packs[0]);
    free(packs[1]);
}

static void test_payloads_are_compressed(void **state)
{
    (void)state;
    static const unsigned char zeros[100000];
    kiln_key *key = scratch_key(1);
    const kiln_entry_params params = {.struct_size = sizeof params,
                                      .key = key,
                                      .kind = KILN_ENTRY_BLOB,
                                      .payload = {zeros, sizeof zeros}};
    kiln_entry *entry = NULL, *found = NULL;
    kiln_pack_writer *writer = NULL;
    assert_int_equal(kiln_entry_new(&params, &entry), KILN_OK);
    assert_int_equal(kiln_pack_writer_open(path, NULL, &writer, NULL), KILN_OK);
    assert_int_equal(kiln_pack_writer_add(writer, entry), KILN_OK);
    assert_int_equal(kiln_pack_writer_finish(&writer, NULL, NULL), KILN_OK);
    struct stat stat;
    assert_int_equal(lstat(path, &stat), 0);
    assert_true(stat.st_size < 10000);
    assert_int_equal(stat.st_mode & (S_IWGRP | S_IWOTH), 0);
    kiln_store *store = open_pack();
    assert_int_equal(kiln_store_get(store, key, &found), KILN_OK);
    assert_int_equal(kiln_entry_payload(found).size, sizeof zeros);
    assert_memory_equal(kiln_entry_payload(found).data, zeros, sizeof zeros);
    kiln_store_close(&store);
    kiln_entry_release(&found);
    kiln_entry_release(&entry);
    kiln_key_release(&key);
}

static void test_requests_are_not_packed(void **state)
{
    (void)state;
    kiln_entry *entry = scratch_request(1);
    kiln_pack_writer *writer = NULL;
    assert_int_equal(kiln_pack_writer_open(path, NULL, &writer, NULL), KILN_OK);
    assert_int_equal(kiln_pack_writer_add(writer, entry), KILN_E_UNSUPPORTED);
    kiln_pack_writer_abandon(&writer);
    assert_int_equal(count_files(), 0);
    kiln_entry_release(&entry);
}

static void test_unknown_fields_are_refused(void **state)
{
    (void)state;
    struct {
        kiln_pack_params known;
        uint64_t later;
    } longer = {.known = {.struct_size = sizeof longer}, .later = 1};
    kiln_pack_writer *writer = NULL;
    assert_int_equal(kiln_pack_writer_open(path, &longer.known, &writer, NULL), KILN_E_UNSUPPORTED);
    longer.known.struct_size = 0;
    assert_int_equal(kiln_pack_writer_open(path, &longer.known, &writer, NULL), KILN_E_INVALID);
    assert_null(writer);
}

static void test_absent_answer_is_returned_as_recorded(void **state)
{
    (void)state;
    const char *const missing[] = {"a.kpack", "nowhere/a.kpack"};
    for (size_t i = 0; i < 2; i++) {
        char where[SCRATCH_PATH_SIZE + 8];
        kiln_error error = {.struct_size = sizeof error};
        kiln_store *store = NULL;
        snprintf(where, sizeof where, "pack:%s", scratch_path(scratch, missing[i]));
        assert_int_equal(kiln_store_open(where, NULL, &store, &error), KILN_E_IO);
        assert_int_equal(error.status, KILN_E_IO);
        assert_int_equal(error.system_error, ENOENT);
    }
}

static void test_a_pack_is_replaced_atomically(void **state)
{
    (void)state;
    write_pack(0, 5);
    kiln_store *old = open_pack();
    kiln_pack_writer *writer = NULL;
    kiln_entry *entry = scratch_entry(7, 10);
    assert_int_equal(kiln_pack_writer_open(path, NULL, &writer, NULL), KILN_OK);
    assert_int_equal(kiln_pack_writer_add(writer, entry), KILN_OK);
    kiln_store *meanwhile = open_pack();
    assert_int_equal(scratch_get(meanwhile, 1), KILN_OK);
    kiln_store_close(&meanwhile);
    assert_int_equal(kiln_pack_writer_finish(&writer, NULL, NULL), KILN_OK);
    assert_int_equal(scratch_get(old, 1), KILN_OK);
    assert_int_equal(scratch_get(old, 7), KILN_MISS);
    kiln_store_close(&old);
    kiln_store *replaced = open_pack();
    assert_int_equal(scratch_get(replaced, 1), KILN_MISS);
    assert_int_equal(scratch_get(replaced, 7), KILN_OK);
    kiln_store_close(&replaced);
    kiln_entry_release(&entry);
}

static void test_wrong_arguments(void **state)
{
    (void)state;
    kiln_pack_writer *writer = NULL;
    const kiln_pack_params flags = {.struct_size = sizeof flags, .flags = 0x80};
    const kiln_pack_params level = {.struct_size = sizeof level, .level = 13};
    const kiln_pack_params key = {.struct_size = sizeof key, .key_file = "/nonexistent/key"};
    assert_int_equal(kiln_pack_writer_open(NULL, NULL, &writer, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_pack_writer_open(path, NULL, NULL, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_pack_writer_open(path, &flags, &writer, NULL), KILN_E_UNSUPPORTED);
    assert_int_equal(kiln_pack_writer_open(path, &level, &writer, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_pack_writer_open(path, &key, &writer, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_pack_writer_open("/tmp/", NULL, &writer, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_pack_writer_open(scratch_path(scratch, "no/where"), NULL, &writer, NULL),
                     KILN_E_IO);
    assert_int_equal(kiln_pack_writer_add(NULL, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_pack_writer_finish(NULL, NULL, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_pack_writer_finish(&writer, NULL, NULL), KILN_E_INVALID);
    kiln_pack_writer_abandon(NULL);
    kiln_pack_writer_abandon(&writer);
    assert_int_equal(count_files(), 0);
}

/* ---- stripped keys ---- */

static const char long_source[] =
    "kernel void f(global float *x) { x[get_global_id(0)] = 1; } // and so on";

static kiln_entry *source_entry(const char *source)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    kiln_entry *entry = NULL;
    assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
    assert_int_equal(kiln_key_builder_add_text(builder, "device", "cpu"), KILN_OK);
    assert_int_equal(kiln_key_builder_add_text(builder, "source", source), KILN_OK);
    assert_int_equal(kiln_key_builder_finish(builder, &key), KILN_OK);
    kiln_key_builder_free(&builder);
    const kiln_entry_params params = {.struct_size = sizeof params,
                                      .key = key,
                                      .kind = KILN_ENTRY_PROGRAM,
                                      .payload = {"code", 4}};
    assert_int_equal(kiln_entry_new(&params, &entry), KILN_OK);
    kiln_key_release(&key);
    return entry;
}

static void write_stripped(const kiln_entry *entry)
{
    const kiln_pack_params params = {.struct_size = sizeof params, .flags = KILN_PACK_STRIP_KEYS};
    kiln_pack_writer *writer = NULL;
    assert_int_equal(kiln_pack_writer_open(path, &params, &writer, NULL), KILN_OK);
    assert_int_equal(kiln_pack_writer_add(writer, entry), KILN_OK);
    assert_int_equal(kiln_pack_writer_finish(&writer, NULL, NULL), KILN_OK);
}

static void test_stripped_keys_are_found_by_whole_ones(void **state)
{
    (void)state;
    kiln_entry *entry = source_entry(long_source), *found = NULL;
    kiln_key_part part;
    write_stripped(entry);
    size_t size;
    unsigned char *bytes = read_whole(&size);
    assert_null(memmem(bytes, size, "get_global_id", 13));
    free(bytes);
    kiln_store *store = open_pack();
    assert_int_equal(kiln_store_get(store, kiln_entry_key(entry), &found), KILN_OK);
    assert_memory_equal(kiln_entry_payload(found).data, "code", 4);
    assert_int_equal(kiln_key_part_at(kiln_entry_key(found), 0, &part), KILN_OK);
    assert_non_null(part.bytes);
    assert_int_equal(kiln_key_part_at(kiln_entry_key(found), 1, &part), KILN_OK);
    assert_null(part.bytes);
    assert_int_equal(part.size, sizeof long_source - 1);
    kiln_entry_release(&found);
    kiln_store_close(&store);
    kiln_entry_release(&entry);
}

/* The digest finds the slot, but the parts of the key decide: a different source with the same
 * digest is a miss. */
static void test_a_different_source_with_the_same_digest(void **state)
{
    (void)state;
    char other_source[sizeof long_source];
    memcpy(other_source, long_source, sizeof other_source);
    other_source[10] = 'X';
    kiln_entry *entry = source_entry(long_source), *other = source_entry(other_source);
    write_stripped(entry);
    size_t size;
    unsigned char *bytes = read_whole(&size);
    kiln_digest digest = kiln_key_digest(kiln_entry_key(entry));
    kiln_digest forged = kiln_key_digest(kiln_entry_key(other));
    /* Changes the digest in the slot, in the entry's header and in the stripped key. */
    for (int i = 0; i < 3; i++) {
        unsigned char *at = memmem(bytes, size, digest.bytes, sizeof digest.bytes);
        assert_non_null(at);
        memcpy(at, forged.bytes, sizeof forged.bytes);
    }
    assert_null(memmem(bytes, size, digest.bytes, sizeof digest.bytes));
    kiln_digest sum = kilni_hash(bytes + 4096, 4080);
    memcpy(bytes + 8176, sum.bytes, sizeof sum.bytes);
    sum = kilni_hash(bytes + 8192, size - 8192 - 16);
    memcpy(bytes + size - 16, sum.bytes, sizeof sum.bytes);
    write_whole(bytes, size);
    kiln_store *store = open_pack();
    kiln_entry *found = NULL;
    assert_int_equal(kiln_store_contains(store, kiln_entry_key(other)), KILN_OK);
    assert_int_equal(kiln_store_get(store, kiln_entry_key(other), &found), KILN_MISS);
    assert_null(found);
    kiln_store_close(&store);
    free(bytes);
    kiln_entry_release(&entry);
    kiln_entry_release(&other);
}

/* ---- bytes ---- */

/* The bytes are the example in docs/format.md. */
static void test_golden_bytes(void **state)
{
    (void)state;
    kiln_entry *entry = NULL;
    kiln_pack_writer *writer = NULL;
    assert_int_equal(kiln_entry_decode(golden_entry, sizeof golden_entry, &entry), KILN_OK);
    assert_int_equal(kiln_pack_writer_open(path, NULL, &writer, NULL), KILN_OK);
    assert_int_equal(kiln_pack_writer_add(writer, entry), KILN_OK);
    assert_int_equal(kiln_pack_writer_finish(&writer, NULL, NULL), KILN_OK);
    size_t size;
    unsigned char *bytes = read_whole(&size);
    assert_int_equal(size, 2 * 4096 + sizeof golden_entry);
    unsigned char pages[2][4096] = {{0}, {0}};
    memcpy(pages[0], golden_pack_header, sizeof golden_pack_header);
    memcpy(pages[0] + 4080, golden_pack_header_checksum, 16);
    memcpy(pages[1], golden_pack_bucket, sizeof golden_pack_bucket);
    memcpy(pages[1] + 4080, golden_pack_bucket_checksum, 16);
    assert_memory_equal(bytes, pages[0], 4096);
    assert_memory_equal(bytes + 4096, pages[1], 4096);
    assert_memory_equal(bytes + 8192, golden_entry, sizeof golden_entry);
    free(bytes);
    kiln_entry_release(&entry);
}

/* Checks that a damaged pack does not open, or misses, or returns the entry that was put. */
static unsigned expect_harmless(uint64_t count)
{
    kiln_store *store = NULL;
    unsigned hits = 0;
    kiln_status status = kiln_store_open(location, NULL, &store, NULL);
    if (status != KILN_OK) {
        assert_true(status == KILN_E_CORRUPT || status == KILN_E_VERSION);
        return 0;
    }
    for (uint64_t i = 0; i < count; i++) {
        status = scratch_get(store, i);
        assert_true(status == KILN_OK || status == KILN_MISS || status == KILN_E_CORRUPT ||
                    status == KILN_E_VERSION);
        hits += status == KILN_OK;
    }
    kiln_verify_report report = {.struct_size = sizeof report};
    kiln_store_verify(store, NULL, NULL, &report);
    kiln_store_close(&store);
    return hits;
}

static void flip_every_byte(uint64_t count, unsigned hits_at_most)
{
    write_pack(0, count);
    size_t size;
    unsigned char *bytes = read_whole(&size);
    assert_int_equal(expect_harmless(count), count);
    int file = open(path, O_WRONLY);
    assert_true(file >= 0);
    for (size_t i = 0; i < size; i++) {
        unsigned char flipped = bytes[i] ^ (unsigned char)(1u << (i % 8));
        assert_int_equal(pwrite(file, &flipped, 1, (off_t)i), 1);
        assert_true(expect_harmless(count) <= hits_at_most);
        assert_int_equal(pwrite(file, &bytes[i], 1, (off_t)i), 1);
    }
    close(file);
    assert_int_equal(expect_harmless(count), count);
    free(bytes);
}

static void test_every_flipped_byte_is_found(void **state)
{
    (void)state;
    flip_every_byte(1, 0);
}

static void test_a_flipped_byte_yields_no_wrong_entry(void **state)
{
    (void)state;
    flip_every_byte(3, 2);
}

static void test_every_truncation_is_found(void **state)
{
    (void)state;
    write_pack(0, 2);
    size_t size;
    unsigned char *bytes = read_whole(&size);
    for (size_t length = size; length-- > 0;) {
        assert_int_equal(truncate(path, (off_t)length), 0);
        assert_int_equal(try_open(location), KILN_E_CORRUPT);
    }
    write_whole(bytes, size);
    assert_int_equal(truncate(path, (off_t)size + 1), 0);
    assert_int_equal(try_open(location), KILN_E_CORRUPT);
    free(bytes);
}

/* The pack is not mapped, so no damage can end the process. */
static void test_a_pack_that_shrinks_while_it_is_open(void **state)
{
    (void)state;
    write_pack(0, 2);
    size_t size;
    free(read_whole(&size));
    kiln_store *store = open_pack();
    kiln_entry *held = NULL;
    kiln_key *key = scratch_key(1);
    assert_int_equal(kiln_store_get(store, key, &held), KILN_OK);
    for (size_t length = size; length > 0; length -= length < 97 ? length : 97) {
        assert_int_equal(truncate(path, (off_t)length - 1), 0);
        assert_true(scratch_get(store, 0) != KILN_OK || scratch_get(store, 1) != KILN_OK);
        assert_true(scratch_entry_is(held, 1));
    }
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(scratch_get(store, 1), KILN_E_CORRUPT);
    listing none = {0};
    assert_int_equal(kiln_store_each(store, list_item, &none), KILN_E_CORRUPT);
    assert_int_equal(none.count, 0);
    kiln_entry_release(&held);
    kiln_key_release(&key);
    kiln_store_close(&store);
}

/* Writes a number into a page, and corrects the checksum of the page. */
static void forge(unsigned char *bytes, size_t page, size_t offset, size_t width, uint64_t value)
{
    unsigned char *at = bytes + page * 4096;
    for (size_t i = 0; i < width; i++) {
        at[offset + i] = (unsigned char)(value >> (8 * i));
    }
    kiln_digest sum = kilni_hash(at, 4080);
    memcpy(at + 4080, sum.bytes, sizeof sum.bytes);
}

static void test_forged_numbers(void **state)
{
    (void)state;
    write_pack(0, 2);
    size_t size;
    unsigned char *bytes = read_whole(&size), *forged = malloc(size);
    const struct {
        size_t page, offset, width;
        uint64_t value;
        kiln_status opened; /* KILN_OK: a get fails */
    } cases[] = {
        {0, 8, 4, 0, KILN_E_CORRUPT},           /* version */
        {0, 8, 4, 2, KILN_E_VERSION},           /* */
        {0, 12, 4, 2, KILN_E_VERSION},          /* flags */
        {0, 16, 8, size + 8, KILN_E_CORRUPT},   /* total size */
        {0, 24, 8, 128, KILN_E_CORRUPT},        /* entries: more than fit */
        {0, 32, 8, 0, KILN_E_CORRUPT},          /* buckets */
        {0, 32, 8, 2, KILN_E_CORRUPT},          /* more than the file has */
        {0, 32, 8, UINT64_MAX, KILN_E_CORRUPT}, /* */
        {1, 0, 4, 128, KILN_OK},                /* slots */
        {1, 0, 4, UINT32_MAX, KILN_OK},         /* */
        {1, 0, 4, 3, KILN_OK},                  /* an empty one */
        {1, 4, 4, 1, KILN_OK},                  /* zero */
        {1, 8, 8, 1, KILN_OK},                  /* a different bucket's number */
        {1, 32, 8, 4096, KILN_OK},              /* offset: in the index */
        {1, 32, 8, 8193, KILN_OK},              /* not aligned */
        {1, 32, 8, size, KILN_OK},              /* after the end */
        {1, 32, 8, UINT64_MAX - 7, KILN_OK},    /* */
        {1, 40, 8, size, KILN_OK},              /* size: beyond the end */
        {1, 40, 8, UINT64_MAX, KILN_OK},        /* */
        {1, 40, 8, 0, KILN_OK},                 /* */
        {1, 40, 8, 8, KILN_OK},                 /* */
        {1, 16, 8, UINT64_MAX, KILN_OK},        /* digests out of order */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        memcpy(forged, bytes, size);
        forge(forged, cases[i].page, cases[i].offset, cases[i].width, cases[i].value);
        write_whole(forged, size);
        assert_int_equal(try_open(location), cases[i].opened);
        if (cases[i].opened == KILN_OK) {
            kiln_store *store = open_pack();
            assert_int_equal(scratch_get(store, 0), KILN_E_CORRUPT);
            assert_int_equal(scratch_get(store, 1), KILN_E_CORRUPT);
            kiln_store_close(&store);
        }
    }
    free(forged);
    free(bytes);
}

static void test_damage_is_counted(void **state)
{
    (void)state;
    write_pack(0, 1);
    size_t size;
    unsigned char *bytes = read_whole(&size);
    bytes[size - 20] ^= 1;
    write_whole(bytes, size);
    kiln_store *store = open_pack();
    kiln_stats counts;
    assert_int_equal(scratch_get(store, 0), KILN_E_CORRUPT);
    kilni_store_take_counts(store, &counts);
    assert_int_equal(counts.corrupt, 1);
    kiln_verify_report report = {.struct_size = sizeof report};
    assert_int_equal(kiln_store_verify(store, NULL, NULL, &report), KILN_OK);
    assert_int_equal(report.corrupt, 1);
    kiln_store_close(&store);
    free(bytes);
}

static void test_a_damaged_page_hides_only_its_entries(void **state)
{
    (void)state;
    write_pack(0, 300);
    size_t size;
    unsigned char *bytes = read_whole(&size);
    const unsigned hidden = bytes[4096];
    assert_true(hidden > 0 && hidden < 200);
    bytes[4096 + 16] ^= 1;
    write_whole(bytes, size);
    kiln_store *store = open_pack();
    kiln_verify_report report = {.struct_size = sizeof report};
    assert_int_equal(kiln_store_verify(store, NULL, NULL, &report), KILN_E_CORRUPT);
    assert_int_equal(report.checked, 300 - hidden);
    assert_int_equal(report.ok, 300 - hidden);
    kiln_store_close(&store);
    free(bytes);
}

/* ---- trust ---- */

static kiln_status open_error(const char *where, const char *text)
{
    kiln_store *store = NULL;
    kiln_error error = {.struct_size = sizeof error};
    kiln_status status = kiln_store_open(where, NULL, &store, &error);
    kiln_store_close(&store);
    if (!strstr(error.text, text)) {
        fprintf(stderr, "\"%s\" lacks \"%s\"\n", error.text, text);
        return KILN_E_INVALID;
    }
    return status;
}

static void test_hostile_files(void **state)
{
    (void)state;
    char other[SCRATCH_PATH_SIZE];
    assert_int_equal(open_error(location, "No such file"), KILN_E_IO);
    write_pack(0, 1);
    assert_int_equal(chmod(path, 0664), 0);
    assert_int_equal(open_error(location, "is writable by others (mode 0664)"), KILN_E_DENIED);
    assert_int_equal(chmod(path, 0646), 0);
    assert_int_equal(try_open(location), KILN_E_DENIED);
    assert_int_equal(chmod(path, 0444), 0);
    assert_int_equal(try_open(location), KILN_OK);
    snprintf(other, sizeof other, "pack:%s/link", scratch);
    assert_int_equal(symlink(path, other + 5), 0);
    assert_int_equal(open_error(other, "is a symbolic link"), KILN_E_DENIED);
    snprintf(other, sizeof other, "pack:%s/fifo", scratch);
    assert_int_equal(mkfifo(other + 5, 0600), 0);
    assert_int_equal(open_error(other, "is not a regular file"), KILN_E_DENIED);
    snprintf(other, sizeof other, "pack:%s", scratch);
    assert_int_equal(open_error(other, "is not a regular file"), KILN_E_DENIED);
    assert_int_equal(try_open("pack:/dev/null"), KILN_E_DENIED);
    assert_int_equal(try_open("pack:/dev/null/x"), KILN_E_DENIED);
}

static void test_directories_above(void **state)
{
    (void)state;
    char folder[SCRATCH_PATH_SIZE];
    write_pack(0, 1);
    assert_int_equal(chmod(scratch, 0777), 0);
    assert_int_equal(open_error(location, "is writable by others"), KILN_E_DENIED);
    assert_int_equal(chmod(scratch, 01777), 0);
    assert_int_equal(try_open(location), KILN_OK);
    assert_int_equal(chmod(scratch, 0700), 0);
    snprintf(folder, sizeof folder, "%s/folder", scratch);
    assert_int_equal(symlink(scratch, folder), 0);
    snprintf(folder, sizeof folder, "pack:%s/folder/a.kpack", scratch);
    assert_int_equal(try_open(folder), KILN_OK);
}

static void test_a_file_of_a_different_user(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        skip();
    }
    write_pack(0, 1);
    assert_int_equal(chown(path, 4711, 4711), 0);
    assert_int_equal(open_error(location, "belongs to user 4711, not to 0"), KILN_E_DENIED);
}

static void test_locations(void **state)
{
    (void)state;
    char where[SCRATCH_PATH_SIZE * 2];
    write_pack(0, 1);
    snprintf(where, sizeof where, "pack://%s", path);
    assert_int_equal(try_open(where), KILN_OK);
    snprintf(where, sizeof where, "pack:%s?readonly=1", path);
    assert_int_equal(try_open(where), KILN_OK);
    snprintf(where, sizeof where, "pack:%s?max-size=3G", path);
    assert_int_equal(open_error(where, "no option \"max-size\""), KILN_E_UNSUPPORTED);
    snprintf(where, sizeof where, "pack:%s?readonly=1&stamp=3", path);
    assert_int_equal(open_error(where, "no option \"stamp\""), KILN_E_UNSUPPORTED);
    snprintf(where, sizeof where, "pack:%s?write=all", path);
    assert_int_equal(open_error(where, "chain"), KILN_E_UNSUPPORTED);
    assert_int_equal(open_error("pack:", "names no file"), KILN_E_PARSE);
    assert_int_equal(open_error("pack://host/x", "absolute"), KILN_E_PARSE);
    snprintf(where, sizeof where, "%s/a b.kpack", scratch);
    assert_int_equal(rename(path, where), 0);
    snprintf(where, sizeof where, "pack:%s/a%%20b.kpack", scratch);
    assert_int_equal(try_open(where), KILN_OK);
    int here = open(".", O_RDONLY | O_DIRECTORY);
    assert_int_equal(chdir(scratch), 0);
    assert_int_equal(try_open("pack:a%20b.kpack"), KILN_OK);
    assert_int_equal(try_open("pack:./a%20b.kpack"), KILN_OK);
    assert_int_equal(fchdir(here), 0);
    close(here);
}

static int descriptor_of_pack(void)
{
    for (int file = 3; file < 4096; file++) {
        char link[64], target[SCRATCH_PATH_SIZE];
        snprintf(link, sizeof link, "/proc/self/fd/%d", file);
        ssize_t length = readlink(link, target, sizeof target - 1);
        if (length > 0) {
            target[length] = '\0';
            if (strcmp(target, path) == 0) {
                return file;
            }
        }
    }
    return -1;
}

static void test_the_descriptor_is_closed_by_the_application(void **state)
{
    (void)state;
    write_pack(0, 1);
    kiln_store *store = open_pack();
    int file = descriptor_of_pack();
    assert_true(file > 2);
    int mine = open("/dev/null", O_RDONLY);
    assert_int_equal(dup2(mine, file), file);
    assert_int_equal(scratch_get(store, 0), KILN_E_IO);
    listing none = {0};
    assert_int_equal(kiln_store_each(store, list_item, &none), KILN_E_IO);
    kiln_store_close(&store);
    assert_int_equal(fcntl(file, F_GETFD), 0);
    close(file);
    close(mine);
}

/* ---- unpacking ---- */

static void write_key_file(const char *name, unsigned char fill, char key_path[SCRATCH_PATH_SIZE])
{
    unsigned char bytes[32];
    memset(bytes, fill, sizeof bytes);
    snprintf(key_path, SCRATCH_PATH_SIZE, "%s/%s", scratch, name);
    int file = open(key_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(file, bytes, sizeof bytes), sizeof bytes);
    close(file);
}

static kiln_status unpack(uint32_t flags, const char *key_file, kiln_store *into,
                          kiln_copy_report *report)
{
    const kiln_store_params as = {.struct_size = sizeof as, .key_file = key_file};
    const kiln_copy_params params = {.struct_size = sizeof params, .flags = flags};
    kiln_store *pack = NULL;
    *report = (kiln_copy_report){.struct_size = sizeof *report};
    kiln_status status = kiln_store_open(location, &as, &pack, NULL);
    if (status == KILN_OK) {
        status = kiln_store_copy(pack, into, &params, report, NULL);
    }
    kiln_store_close(&pack);
    return status;
}

static kiln_store *open_directory(void)
{
    kiln_store *store = NULL;
    assert_int_equal(kiln_store_open(scratch_path(scratch, "into"), NULL, &store, NULL), KILN_OK);
    return store;
}

static void test_unpack(void **state)
{
    (void)state;
    write_pack(0, 20);
    kiln_store *into = open_directory();
    kiln_copy_report report;
    assert_int_equal(unpack(0, NULL, into, &report), KILN_E_UNAUTHENTICATED);
    assert_int_equal(report.taken, 0);
    assert_int_equal(scratch_get(into, 3), KILN_MISS);
    assert_int_equal(scratch_put(into, 3, 77), KILN_OK);
    assert_int_equal(unpack(KILN_COPY_TRUST, NULL, into, &report), KILN_OK);
    assert_int_equal(report.taken, 19);
    assert_int_equal(report.present, 1);
    for (uint64_t i = 0; i < 20; i++) {
        assert_int_equal(scratch_get(into, i), KILN_OK);
    }
    kiln_store *pack = open_pack();
    assert_int_equal(unpack(KILN_COPY_TRUST, NULL, pack, &report), KILN_E_READONLY);
    kiln_store_close(&pack);
    kiln_store_close(&into);
}

/* Writes a pack of one bucket with these slots, and zeros in the place of entries. */
static void write_slots(const kilni_pack_slot *slots, size_t count, uint64_t total_size)
{
    unsigned char pages[2 * KILNI_PACK_PAGE_SIZE];
    const kilni_pack_header header = {
        .entry_count = count, .bucket_count = 1, .total_size = total_size};
    kilni_pack_header_encode(&header, pages);
    kilni_pack_bucket_encode(0, slots, count, pages + KILNI_PACK_PAGE_SIZE);
    write_whole(pages, sizeof pages);
    assert_int_equal(truncate(path, (off_t)total_size), 0);
}

static uint64_t read_bytes;

static ssize_t counting_pread(int file, void *buffer, size_t size, off_t offset)
{
    read_bytes += size;
    return kilni_os_system()->pread(file, buffer, size, offset);
}

/* A file that uses 8 KiB on disk claims an entry of 700 MiB, and one of 5 GiB. */
static void test_entries_that_are_not_there_cost_no_memory(void **state)
{
    (void)state;
    const uint64_t begin = 2 * KILNI_PACK_PAGE_SIZE, size = (uint64_t)700 << 20;
    const uint64_t huge = (uint64_t)5 << 30;
    const kilni_pack_slot slots[] = {
        {.digest.bytes = {1}, .offset = begin, .size = size},
        {.digest.bytes = {2}, .offset = begin + size, .size = huge},
    };
    write_slots(slots, 2, begin + size + huge);
    kiln_store *into = open_directory();
    kilni_os_table table = *kilni_os_system();
    table.pread = counting_pread;
    read_bytes = 0;
    kilni_os_replace(&table);
    kiln_copy_report report;
    assert_int_equal(unpack(KILN_COPY_TRUST, NULL, into, &report), KILN_OK);
    kilni_os_replace(NULL);
    assert_int_equal(report.damaged, 1);
    assert_int_equal(report.gone, 1); /* larger than an entry may be */
    assert_true(read_bytes < 65536);
    kiln_store_close(&into);
}

/* Slots that refer to the same bytes could make a small file yield large amounts of data. */
static void test_entries_that_overlap(void **state)
{
    (void)state;
    const uint64_t begin = 2 * KILNI_PACK_PAGE_SIZE;
    kilni_pack_slot slots[] = {
        {.digest.bytes = {1}, .offset = begin, .size = 160},
        {.digest.bytes = {2}, .offset = begin + 160, .size = 160},
    };
    kiln_store *into = open_directory();
    kiln_copy_report report;
    write_slots(slots, 2, begin + 320);
    assert_int_equal(unpack(KILN_COPY_TRUST, NULL, into, &report), KILN_OK);
    assert_int_equal(report.damaged, 2);
    slots[1].offset = begin + 152;
    write_slots(slots, 2, begin + 320);
    assert_int_equal(unpack(KILN_COPY_TRUST, NULL, into, &report), KILN_E_CORRUPT);
    assert_int_equal(report.damaged, 0);
    slots[1].offset = begin;
    slots[0].offset = begin + 160;
    write_slots(slots, 2, begin + 320);
    assert_int_equal(unpack(KILN_COPY_TRUST, NULL, into, &report), KILN_E_CORRUPT);

    /* The slots are in two buckets, each of which is valid by itself. */
    unsigned char pages[3 * KILNI_PACK_PAGE_SIZE];
    const uint64_t behind = sizeof pages;
    const kilni_pack_header header = {
        .entry_count = 2, .bucket_count = 2, .total_size = behind + 320};
    const kilni_pack_slot first = {.digest.bytes = {1}, .offset = behind, .size = 160};
    kilni_pack_slot second = {.digest.bytes = {0x81}, .offset = behind + 160, .size = 160};
    for (int overlaps = 0; overlaps < 2; overlaps++) {
        second.offset -= 8 * (uint64_t)overlaps;
        kilni_pack_header_encode(&header, pages);
        kilni_pack_bucket_encode(0, &first, 1, pages + KILNI_PACK_PAGE_SIZE);
        kilni_pack_bucket_encode(1, &second, 1, pages + 2 * KILNI_PACK_PAGE_SIZE);
        write_whole(pages, sizeof pages);
        assert_int_equal(truncate(path, (off_t)header.total_size), 0);
        assert_int_equal(unpack(KILN_COPY_TRUST, NULL, into, &report),
                         overlaps ? KILN_E_CORRUPT : KILN_OK);
        assert_int_equal(report.damaged, overlaps ? 1 : 2);
    }
    kiln_store_close(&into);
}

/* No writer makes a pack that contains a request. */
static void test_a_planted_request_is_refused(void **state)
{
    (void)state;
    kiln_entry *request = scratch_request(1);
    const kiln_bytes bytes = kiln_entry_encoding(request);
    unsigned char pages[2 * KILNI_PACK_PAGE_SIZE];
    const kilni_pack_header header = {
        .entry_count = 1, .bucket_count = 1, .total_size = sizeof pages + bytes.size};
    const kilni_pack_slot slot = {.digest = kiln_key_digest(kiln_entry_key(request)),
                                  .offset = sizeof pages,
                                  .size = bytes.size};
    kilni_pack_header_encode(&header, pages);
    kilni_pack_bucket_encode(0, &slot, 1, pages + KILNI_PACK_PAGE_SIZE);
    unsigned char *whole = malloc(sizeof pages + bytes.size);
    assert_non_null(whole);
    memcpy(whole, pages, sizeof pages);
    memcpy(whole + sizeof pages, bytes.data, bytes.size);
    write_whole(whole, sizeof pages + bytes.size);

    kiln_store *into = open_directory();
    kiln_copy_report report;
    listing requests = {0};
    assert_int_equal(unpack(KILN_COPY_TRUST, NULL, into, &report), KILN_OK);
    assert_int_equal(report.taken, 0);
    assert_int_equal(report.refused, 1);
    assert_int_equal(kiln_store_each_request(into, list_item, &requests), KILN_OK);
    assert_int_equal(requests.count, 0);
    kiln_store_close(&into);
    free(whole);
    kiln_entry_release(&request);
}

/* A report whose struct_size is too small is refused before anything is done. */
static void test_a_report_without_a_size(void **state)
{
    (void)state;
    kiln_pack_report report = {0};
    kiln_pack_writer *writer = NULL;
    assert_int_equal(kiln_pack_writer_open(path, NULL, &writer, NULL), KILN_OK);
    assert_int_equal(kiln_pack_writer_finish(&writer, &report, NULL), KILN_E_INVALID);
    assert_null(writer);
    assert_int_equal(count_files(), 0);

    write_pack(0, 3);
    kiln_store *into = open_directory();
    const kiln_copy_params params = {.struct_size = sizeof params, .flags = KILN_COPY_TRUST};
    kiln_copy_report unpacked = {0};
    kiln_store *pack = open_pack();
    assert_int_equal(kiln_store_copy(pack, into, &params, &unpacked, NULL), KILN_E_INVALID);
    kiln_store_close(&pack);
    assert_int_equal(scratch_get(into, 1), KILN_MISS);
    assert_int_equal(scratch_put(into, 1, 10), KILN_OK);
    kiln_trim_report trimmed = {0};
    assert_int_equal(trim_to(into, 0, &trimmed), KILN_E_INVALID);
    const kiln_trim_params all = {.struct_size = sizeof all, .flags = KILN_TRIM_BY_SIZE};
    assert_int_equal(kiln_store_trim(into, &all, &trimmed), KILN_E_INVALID);
    assert_int_equal(scratch_get(into, 1), KILN_OK);
    kiln_store_close(&into);
}

/* Directories keep payloads uncompressed. */
static void test_unpacked_payloads_are_plain(void **state)
{
    (void)state;
    char entry_path[SCRATCH_PATH_SIZE];
    kiln_store *into = open_directory();
    kiln_copy_report report;
    write_pack(5, 6);
    assert_int_equal(unpack(KILN_COPY_TRUST, NULL, into, &report), KILN_OK);
    scratch_entry_path(scratch_path(scratch, "into"), 5, entry_path);
    FILE *file = fopen(entry_path, "rb");
    assert_non_null(file);
    unsigned char header[16];
    assert_int_equal(fread(header, 1, sizeof header, file), sizeof header);
    fclose(file);
    assert_int_equal(header[12], 0);
    kiln_store_close(&into);
}

static void test_only_authenticated_entries_are_unpacked(void **state)
{
    (void)state;
    char key[SCRATCH_PATH_SIZE], other[SCRATCH_PATH_SIZE];
    write_key_file("key", 0x11, key);
    write_key_file("other", 0x22, other);
    const kiln_pack_params params = {.struct_size = sizeof params, .key_file = key};
    kiln_store *into = open_directory();
    kiln_copy_report report;
    assert_int_equal(try_write(0, 5, NULL), KILN_OK);
    assert_int_equal(unpack(0, key, into, &report), KILN_OK);
    assert_int_equal(report.unauthenticated, 5);
    assert_int_equal(report.taken, 0);
    assert_int_equal(try_write(0, 5, &params), KILN_OK);
    assert_int_equal(unpack(0, other, into, &report), KILN_OK);
    assert_int_equal(report.unauthenticated, 5);
    assert_int_equal(scratch_get(into, 1), KILN_MISS);
    assert_int_equal(unpack(0, key, into, &report), KILN_OK);
    assert_int_equal(report.taken, 5);
    assert_int_equal(scratch_get(into, 1), KILN_OK);
    assert_int_equal(unpack(0, "/nonexistent", into, &report), KILN_E_INVALID);
    kiln_store *pack = open_pack();
    assert_int_equal(scratch_get(pack, 2), KILN_OK);
    kiln_store_close(&pack);
    kiln_store_close(&into);
}

static void test_a_damaged_entry_is_refused(void **state)
{
    (void)state;
    write_pack(0, 3);
    size_t size;
    unsigned char *bytes = read_whole(&size);
    bytes[size - 20] ^= 1;
    write_whole(bytes, size);
    kiln_store *into = open_directory();
    kiln_copy_report report;
    assert_int_equal(unpack(KILN_COPY_TRUST, NULL, into, &report), KILN_OK);
    assert_int_equal(report.taken, 2);
    assert_int_equal(report.damaged, 1);
    kiln_store_close(&into);
    free(bytes);
}

/* ---- failures ---- */

static const kilni_os_table *system_table;
static unsigned fails_at, seen;
static int failing_error;

static bool fails(void)
{
    if (fails_at == 0 || ++seen != fails_at) {
        return false;
    }
    errno = failing_error;
    return true;
}

static int faulty_openat(int directory, const char *name, int flags, mode_t mode)
{
    return fails() ? -1 : system_table->openat(directory, name, flags, mode);
}

static unsigned reads;
static size_t bytes_read;

static ssize_t faulty_pread(int file, void *buffer, size_t size, off_t offset)
{
    reads++;
    bytes_read += size;
    return fails() ? -1 : system_table->pread(file, buffer, size, offset);
}

static ssize_t faulty_pwrite(int file, const void *buffer, size_t size, off_t offset)
{
    return fails() ? -1 : system_table->pwrite(file, buffer, size, offset);
}

static int faulty_fstat(int file, struct stat *ret_stat)
{
    return fails() ? -1 : system_table->fstat(file, ret_stat);
}

static int faulty_renameat(int from, const char *old_path, int to, const char *new_path)
{
    return fails() ? -1 : system_table->renameat(from, old_path, to, new_path);
}

static int faulty_fdatasync(int file)
{
    return fails() ? -1 : system_table->fdatasync(file);
}

static ssize_t faulty_getrandom(void *buffer, size_t size, unsigned flags)
{
    return fails() ? -1 : system_table->getrandom(buffer, size, flags);
}

static int faulty_duplicate(int file, int least)
{
    return fails() ? -1 : system_table->duplicate(file, least);
}

/* The system closes a descriptor even if it reports a failure. */
static int faulty_close(int file)
{
    bool failed = fails();
    int result = system_table->close(file);
    if (failed) {
        errno = failing_error;
        return -1;
    }
    return result;
}

static void install_faults(void)
{
    static kilni_os_table table;
    system_table = kilni_os_system();
    table = *system_table;
    table.openat = faulty_openat;
    table.pread = faulty_pread;
    table.pwrite = faulty_pwrite;
    table.fstat = faulty_fstat;
    table.renameat = faulty_renameat;
    table.fdatasync = faulty_fdatasync;
    table.getrandom = faulty_getrandom;
    table.duplicate = faulty_duplicate;
    table.close = faulty_close;
    kilni_os_replace(&table);
}

/* Opening reads the header; a look-up reads one page of the index and the entry, whatever the
 * number of entries. */
static void test_parts_of_a_pack_that_are_read(void **state)
{
    (void)state;
    write_pack(0, 2000);
    fails_at = 0;
    install_faults();
    reads = 0;
    bytes_read = 0;
    kiln_store *store = open_pack();
    assert_int_equal(reads, 1);
    assert_int_equal(bytes_read, 4096);
    for (uint64_t i = 0; i < 2000; i += 37) {
        reads = 0;
        bytes_read = 0;
        assert_int_equal(scratch_get(store, i), KILN_OK);
        assert_int_equal(reads, 2);
        assert_true(bytes_read < 4096 + 100 + i + 1000);
        assert_int_equal(scratch_get(store, 5000 + i), KILN_MISS);
        assert_int_equal(reads, 3);
    }
    kiln_store_close(&store);
}

static void test_failing_calls_while_writing(void **state)
{
    (void)state;
    static const int errors[] = {EIO, ENOSPC, EMFILE, EACCES};
    write_pack(100, 103);
    size_t size, size_after;
    unsigned char *before = read_whole(&size);
    unsigned descriptors = scratch_count_descriptors();
    install_faults();
    for (size_t e = 0; e < sizeof errors / sizeof errors[0]; e++) {
        failing_error = errors[e];
        for (fails_at = 1;; fails_at++) {
            seen = 0;
            kiln_status status = try_write(0, 3, NULL);
            if (seen < fails_at) {
                assert_int_equal(status, KILN_OK);
                break;
            }
            assert_int_equal(scratch_count_descriptors(), descriptors);
            unsigned char *after = read_whole(&size_after);
            assert_true(status == KILN_OK ||
                        (size_after == size && memcmp(before, after, size) == 0));
            free(after);
            assert_int_equal(count_files(), 1);
            write_whole(before, size);
        }
        assert_true(fails_at > 10);
        write_whole(before, size);
    }
    fails_at = 0;
    free(before);
}

static void test_failing_calls_while_reading(void **state)
{
    (void)state;
    write_pack(0, 3);
    unsigned descriptors = scratch_count_descriptors();
    install_faults();
    failing_error = EIO;
    for (fails_at = 1;; fails_at++) {
        seen = 0;
        kiln_store *store = NULL;
        if (kiln_store_open(location, NULL, &store, NULL) == KILN_OK) {
            kiln_status status = scratch_get(store, 1);
            assert_true(status == KILN_OK || status == KILN_E_IO);
            kiln_verify_report report = {.struct_size = sizeof report};
            kiln_store_verify(store, NULL, NULL, &report);
            assert_true(report.ok + 1 >= report.checked);
        }
        bool all_went_well = seen < fails_at;
        fails_at = all_went_well ? 0 : fails_at;
        kiln_store_close(&store);
        assert_int_equal(scratch_count_descriptors(), descriptors);
        if (all_went_well) {
            break;
        }
    }
}

static void test_failing_allocations(void **state)
{
    (void)state;
    const kiln_pack_params params = {.struct_size = sizeof params, .flags = KILN_PACK_STRIP_KEYS};
    for (size_t n = 1;; n++) {
        failing_malloc_arm(n);
        kiln_status status = try_write(0, 3, &params);
        if (failing_malloc_disarm() < n) {
            assert_int_equal(status, KILN_OK);
            break;
        }
        assert_int_equal(status, KILN_E_NO_MEMORY);
        assert_int_equal(count_files(), 0);
    }
    for (size_t n = 1;; n++) {
        kiln_store *store = NULL;
        failing_malloc_arm(n);
        kiln_status status = kiln_store_open(location, NULL, &store, NULL);
        if (status == KILN_OK) {
            status = scratch_get(store, 1);
        }
        kiln_store_close(&store);
        if (failing_malloc_disarm() < n) {
            assert_int_equal(status, KILN_OK);
            break;
        }
        assert_int_equal(status, KILN_E_NO_MEMORY);
    }
    kiln_store *into = open_directory();
    for (size_t n = 1;; n++) {
        kiln_copy_report report;
        failing_malloc_arm(n);
        kiln_status status = unpack(KILN_COPY_TRUST, NULL, into, &report);
        if (failing_malloc_disarm() < n) {
            assert_int_equal(status, KILN_OK);
            assert_int_equal(report.taken + report.present, 3);
            break;
        }
        assert_true(status == KILN_OK || status == KILN_E_NO_MEMORY);
    }
    kiln_store_close(&into);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_put_and_get),
        TEST(test_many_entries),
        TEST(test_no_entries_in_a_pack),
        TEST(test_each),
        TEST(test_nothing_is_written),
        TEST(test_the_order_of_entries_does_not_count),
        TEST(test_payloads_are_compressed),
        TEST(test_requests_are_not_packed),
        TEST(test_unknown_fields_are_refused),
        TEST(test_absent_answer_is_returned_as_recorded),
        TEST(test_a_pack_is_replaced_atomically),
        TEST(test_wrong_arguments),
        TEST(test_stripped_keys_are_found_by_whole_ones),
        TEST(test_a_different_source_with_the_same_digest),
        TEST(test_golden_bytes),
        TEST(test_every_flipped_byte_is_found),
        TEST(test_a_flipped_byte_yields_no_wrong_entry),
        TEST(test_every_truncation_is_found),
        TEST(test_a_pack_that_shrinks_while_it_is_open),
        TEST(test_forged_numbers),
        TEST(test_a_damaged_page_hides_only_its_entries),
        TEST(test_damage_is_counted),
        TEST(test_hostile_files),
        TEST(test_directories_above),
        TEST(test_a_file_of_a_different_user),
        TEST(test_locations),
        TEST(test_the_descriptor_is_closed_by_the_application),
        TEST(test_unpack),
        TEST(test_a_planted_request_is_refused),
        TEST(test_entries_that_are_not_there_cost_no_memory),
        TEST(test_entries_that_overlap),
        TEST(test_a_report_without_a_size),
        TEST(test_unpacked_payloads_are_plain),
        TEST(test_only_authenticated_entries_are_unpacked),
        TEST(test_a_damaged_entry_is_refused),
        TEST(test_parts_of_a_pack_that_are_read),
        TEST(test_failing_calls_while_writing),
        TEST(test_failing_calls_while_reading),
        TEST(test_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
