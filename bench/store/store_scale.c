/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures the cost of a store with many entries, for scale.py.
 *
 *   store_scale fill DIR COUNT   makes entries 0 to COUNT - 1, in the files that a put would make
 *   store_scale open DIR         opens and closes a store
 *   store_scale get DIR COUNT N SEED        N gets of random entries among the first COUNT
 *   store_scale read DIR COUNT N SEED       bare reads of the same files in the same order
 *   store_scale trim DIR COUNT SIZE         puts into a store of that size until a trim has ended;
 *                                           a line for each slice
 *   store_scale unlink DIR COUNT            removes the existing files of entries 0 to COUNT - 1
 *                                           with bare system calls; prints the longest removal
 *
 * Each prints seconds: the total, or for each slice the wall time and the processor time.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "store/dir/dir.h"

#define PAYLOAD_SIZE 1500u
#define PATH_ROOM 4096

static void fail(const char *what)
{
    fprintf(stderr, "store_scale: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void expect(kiln_status status, const char *what)
{
    if (status != KILN_OK) {
        fprintf(stderr, "store_scale: %s: %s\n", what, kiln_status_text(status));
        exit(1);
    }
}

static double seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double processor_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static uint64_t mix(uint64_t number)
{
    number += 0x9e3779b97f4a7c15u;
    number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9u;
    number = (number ^ (number >> 27)) * 0x94d049bb133111ebu;
    return number ^ (number >> 31);
}

static kiln_key *make_key(uint64_t number)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    expect(kiln_key_builder_new(&builder), "key");
    expect(kiln_key_builder_add_text(builder, "device", "a device of benches"), "key");
    expect(kiln_key_builder_add_number(builder, "number", number), "key");
    expect(kiln_key_builder_finish(builder, &key), "key");
    kiln_key_builder_free(&builder);
    return key;
}

static kiln_entry *make_entry(uint64_t number)
{
    unsigned char payload[PAYLOAD_SIZE];
    kiln_entry *entry = NULL;
    kiln_key *key = make_key(number);
    for (size_t i = 0; i < sizeof payload; i++) {
        payload[i] = (unsigned char)(number * 31 + i);
    }
    const kiln_entry_params params = {
        .struct_size = sizeof params,
        .key = key,
        .kind = KILN_ENTRY_PROGRAM,
        .provenance = {.struct_size = sizeof params.provenance,
                       .device = "a device of benches",
                       .build_ns = mix(number) % 1000000000},
        .payload = {payload, sizeof payload},
    };
    expect(kiln_entry_new(&params, &entry), "entry");
    kiln_key_release(&key);
    return entry;
}

static void path_of(const char *directory, const kiln_key *key, char path[PATH_ROOM])
{
    char below[KILNI_DIR_PATH_SIZE];
    kilni_dir_path_of(key, below);
    snprintf(path, PATH_ROOM, "%s/%s", directory, below);
}

static kiln_store *open_store(const char *directory, uint64_t max_bytes)
{
    kiln_store *store = NULL;
    const kiln_store_params params = {.struct_size = sizeof params, .max_bytes = max_bytes};
    expect(kiln_store_open(directory, &params, &store, NULL), directory);
    return store;
}

/* Writes the files that puts would write, but without the other work of a put, which is not
 * measured here. */
static void fill(const char *directory, uint64_t count)
{
    kiln_store *store = open_store(directory, KILN_UNLIMITED);
    for (unsigned shard = 0; shard < 256; shard++) {
        char path[PATH_ROOM];
        char below[KILNI_DIR_PATH_SIZE];
        kilni_dir_shard_path(shard, below);
        snprintf(path, sizeof path, "%s/%s", directory, KILNI_DIR_VERSION);
        mkdir(path, 0700);
        snprintf(path, sizeof path, "%s/%s", directory, below);
        mkdir(path, 0700);
    }
    for (uint64_t number = 0; number < count; number++) {
        kiln_entry *entry = make_entry(number);
        const kiln_bytes bytes = kiln_entry_encoding(entry);
        char path[PATH_ROOM];
        path_of(directory, kiln_entry_key(entry), path);
        const int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (file < 0 || write(file, bytes.data, bytes.size) != (ssize_t)bytes.size ||
            close(file) != 0) {
            fail(path);
        }
        kiln_entry_release(&entry);
    }
    /* Determines the store's size. */
    kiln_trim_report report = {.struct_size = sizeof report};
    const kiln_trim_params nothing = {.struct_size = sizeof nothing};
    expect(kiln_store_trim(store, &nothing, &report), "count");
    printf("%" PRIu64 "\n", report.bytes);
    kiln_store_close(&store);
}

static void measure_open(const char *directory)
{
    const double start = seconds();
    kiln_store *store = open_store(directory, KILN_UNLIMITED);
    kiln_store_close(&store);
    printf("%.9f\n", seconds() - start);
}

/* The keys are made before the clock starts, because a caller has them already. */
static kiln_key **pick_keys(uint64_t count, uint64_t gets, uint64_t seed)
{
    kiln_key **keys = malloc(gets * sizeof *keys);
    if (!keys) {
        fail("keys");
    }
    for (uint64_t i = 0; i < gets; i++) {
        keys[i] = make_key(mix(seed * 1000003 + i) % count);
    }
    return keys;
}

static void release_keys(kiln_key **keys, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        kiln_key_release(&keys[i]);
    }
    free(keys);
}

static void measure_gets(const char *directory, uint64_t count, uint64_t gets, uint64_t seed)
{
    kiln_store *store = open_store(directory, KILN_UNLIMITED);
    kiln_key **keys = pick_keys(count, gets, seed);
    const double start = seconds();
    for (uint64_t i = 0; i < gets; i++) {
        kiln_entry *entry = NULL;
        expect(kiln_store_get(store, keys[i], &entry), "get");
        kiln_entry_release(&entry);
    }
    printf("%.9f\n", seconds() - start);
    release_keys(keys, gets);
    kiln_store_close(&store);
}

static void read_bare(int directory, const char *path)
{
    struct stat stat;
    const int file = openat(directory, path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &stat) != 0) {
        fail(path);
    }
    void *bytes = malloc((size_t)stat.st_size);
    if (!bytes || read(file, bytes, (size_t)stat.st_size) != stat.st_size) {
        fail(path);
    }
    close(file);
    free(bytes);
}

static void measure_reads(const char *directory, uint64_t count, uint64_t reads, uint64_t seed)
{
    const int root = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char(*paths)[KILNI_DIR_PATH_SIZE] = malloc(reads * sizeof *paths);
    kiln_key **keys = pick_keys(count, reads, seed);
    if (root < 0 || !paths) {
        fail(directory);
    }
    for (uint64_t i = 0; i < reads; i++) {
        kilni_dir_path_of(keys[i], paths[i]);
    }
    const double start = seconds();
    for (uint64_t i = 0; i < reads; i++) {
        read_bare(root, paths[i]);
    }
    printf("%.9f\n", seconds() - start);
    release_keys(keys, reads);
    free(paths);
    close(root);
}

static bool is_trimming(const char *directory)
{
    char path[PATH_ROOM];
    snprintf(path, sizeof path, "%s/v1/janitor/job", directory);
    return access(path, F_OK) == 0;
}

/* One put starts a trim. Then the slices follow, as later puts would make them. */
static void measure_slices(const char *directory, uint64_t count, uint64_t max_bytes)
{
    kiln_store *store = open_store(directory, max_bytes);
    kiln_entry *entry = make_entry(count);
    expect(kiln_store_put(store, entry), "put");
    kiln_entry_release(&entry);
    while (is_trimming(directory)) {
        const double processor = processor_seconds();
        const double start = seconds();
        kilni_dir_begin_count(kilni_dir_of(store));
        printf("%.9f %.9f\n", seconds() - start, processor_seconds() - processor);
    }
    kiln_store_close(&store);
}

static void measure_unlinks(const char *directory, uint64_t count)
{
    double longest = 0;
    for (uint64_t number = 0; number < count; number++) {
        char path[PATH_ROOM];
        kiln_key *key = make_key(number);
        path_of(directory, key, path);
        kiln_key_release(&key);
        const double start = seconds();
        if (unlink(path) != 0 && errno != ENOENT) {
            fail(path);
        }
        const double taken = seconds() - start;
        longest = taken > longest ? taken : longest;
    }
    printf("%.9f\n", longest);
}

static uint64_t number_at(char **argv, int index)
{
    return strtoull(argv[index], NULL, 10);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "fill") == 0) {
        fill(argv[2], number_at(argv, 3));
    } else if (argc == 3 && strcmp(argv[1], "open") == 0) {
        measure_open(argv[2]);
    } else if (argc == 6 && strcmp(argv[1], "get") == 0) {
        measure_gets(argv[2], number_at(argv, 3), number_at(argv, 4), number_at(argv, 5));
    } else if (argc == 6 && strcmp(argv[1], "read") == 0) {
        measure_reads(argv[2], number_at(argv, 3), number_at(argv, 4), number_at(argv, 5));
    } else if (argc == 5 && strcmp(argv[1], "trim") == 0) {
        measure_slices(argv[2], number_at(argv, 3), number_at(argv, 4));
    } else if (argc == 4 && strcmp(argv[1], "unlink") == 0) {
        measure_unlinks(argv[2], number_at(argv, 3));
    } else {
        fputs("store_scale: see its source\n", stderr);
        return 2;
    }
    return 0;
}
