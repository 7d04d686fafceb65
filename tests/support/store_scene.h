/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of stores share: scratch directories, and entries that are a function of a number,
 * so that they can be checked wherever they appear.
 */
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <kiln/store.h>
#include <kiln/store_tools.h>

#include "key/hash.h"

/* Trims a store by size only. */
static inline kiln_status trim_to(kiln_store *trimmed, uint64_t max_bytes,
                                  kiln_trim_report *ret_report)
{
    const kiln_trim_params params = {
        .struct_size = sizeof params, .flags = KILN_TRIM_BY_SIZE, .max_bytes = max_bytes};
    return kiln_store_trim(trimmed, &params, ret_report);
}

#define SCRATCH_DIRECTORY_SIZE 256
#define SCRATCH_PATH_SIZE 1024

static inline int scratch_remove_one(const char *path, const struct stat *stat, int kind,
                                     struct FTW *walk)
{
    (void)stat, (void)kind, (void)walk;
    return remove(path);
}

/* rm -rf */
static inline void scratch_remove(const char *path)
{
    nftw(path, scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* A new directory, mode 0700, below $TMPDIR or /tmp. */
static inline void scratch_make(char path[SCRATCH_DIRECTORY_SIZE])
{
    const char *parent = getenv("TMPDIR");
    snprintf(path, SCRATCH_DIRECTORY_SIZE, "%s/kiln-test-XXXXXX",
             parent && *parent ? parent : "/tmp");
    if (!mkdtemp(path)) {
        fprintf(stderr, "%s: can't be made\n", path);
        exit(1);
    }
}

/* Returns a path below a directory, in a buffer that is reused by the fourth call from now. */
static inline const char *scratch_path(const char *directory, const char *name)
{
    static char paths[4][SCRATCH_PATH_SIZE];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, SCRATCH_PATH_SIZE, "%s/%s", directory, name);
    return path;
}

static inline uint64_t scratch_mix(uint64_t number)
{
    number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9u;
    number = (number ^ (number >> 27)) * 0x94d049bb133111ebu;
    return number ^ (number >> 31);
}

static inline unsigned char scratch_byte(uint64_t number, size_t index)
{
    return (unsigned char)(scratch_mix(number + index / 8) >> (index % 8 * 8));
}

/* Returns NULL only if memory is exhausted. */
static inline kiln_key *scratch_key(uint64_t number)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    if (kiln_key_builder_new(&builder) == KILN_OK &&
        kiln_key_builder_add_text(builder, "device", "a device of tests") == KILN_OK &&
        kiln_key_builder_add_number(builder, "number", number) == KILN_OK) {
        kiln_key_builder_finish(builder, &key);
    }
    kiln_key_builder_free(&builder);
    return key;
}

/* Returns the entry of a number, with @size bytes that the number determines. NULL only if memory
 * is exhausted. */
static inline kiln_entry *scratch_entry(uint64_t number, size_t size)
{
    kiln_key *key = scratch_key(number);
    unsigned char *bytes = malloc(size + 1);
    kiln_entry *entry = NULL;
    if (key && bytes) {
        for (size_t i = 0; i < size; i++) {
            bytes[i] = scratch_byte(number, i);
        }
        char name[32];
        snprintf(name, sizeof name, "kernel_%llu", (unsigned long long)number);
        const kiln_entry_params params = {
            .struct_size = sizeof params,
            .key = key,
            .kind = KILN_ENTRY_PROGRAM,
            .provenance = {.struct_size = sizeof params.provenance,
                           .device = "a device of tests",
                           .name = name,
                           .build_ns = 1000 + number},
            .payload = {bytes, size},
        };
        kiln_entry_new(&params, &entry);
    }
    free(bytes);
    kiln_key_release(&key);
    return entry;
}

/* Returns a request of that number for a build. */
static inline kiln_entry *scratch_request(uint64_t number)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    kiln_entry *entry = NULL;
    assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
    assert_int_equal(kiln_key_builder_add_number(builder, KILN_REQUEST_PART, number), KILN_OK);
    assert_int_equal(kiln_key_builder_finish(builder, &key), KILN_OK);
    kiln_key_builder_free(&builder);
    const kiln_entry_params params = {
        .struct_size = sizeof params,
        .key = key,
        .kind = KILN_ENTRY_REQUEST,
        .provenance.struct_size = sizeof params.provenance,
        .payload = {"a build", 7},
    };
    assert_int_equal(kiln_entry_new(&params, &entry), KILN_OK);
    kiln_key_release(&key);
    return entry;
}

/* Returns whether an entry's payload is that of a number, whatever its size. */
static inline bool scratch_entry_is(const kiln_entry *entry, uint64_t number)
{
    kiln_bytes payload = kiln_entry_payload(entry);
    const unsigned char *bytes = payload.data;
    for (size_t i = 0; i < payload.size; i++) {
        if (bytes[i] != scratch_byte(number, i)) {
            return false;
        }
    }
    return true;
}

static inline kiln_status scratch_put(kiln_store *store, uint64_t number, size_t size)
{
    kiln_entry *entry = scratch_entry(number, size);
    kiln_status status = entry ? kiln_store_put(store, entry) : KILN_E_NO_MEMORY;
    kiln_entry_release(&entry);
    return status;
}

/* Gets an entry and checks its bytes: KILN_E_REFUSED means wrong bytes. */
static inline kiln_status scratch_get(kiln_store *store, uint64_t number)
{
    kiln_key *key = scratch_key(number);
    if (!key) {
        return KILN_E_NO_MEMORY;
    }
    kiln_entry *entry = NULL;
    kiln_status status = kiln_store_get(store, key, &entry);
    if (status == KILN_OK &&
        (!kiln_key_equals(key, kiln_entry_key(entry)) || !scratch_entry_is(entry, number))) {
        status = KILN_E_REFUSED;
    }
    kiln_entry_release(&entry);
    kiln_key_release(&key);
    return status;
}

/* The layout of the stores in a test. */
static const char *scratch_layout = "kiln";

/* The name that layout "sycl" gives to the parts of a scratch_key: first the device, then the
 * others. */
static inline void scratch_sycl_folder(const kiln_key *key, char text[4 * KILN_DIGEST_TEXT_SIZE])
{
    const size_t header = 16, device = 1 + 6 + 1 + 1 + 8 + 17;
    size_t size;
    const unsigned char *bytes = kiln_key_encoding(key, &size);
    const kiln_digest levels[4] = {
        kilni_hash(bytes + header, device),
        kilni_hash(bytes + header + device, size - header - device),
        kilni_hash("", 0),
        kilni_hash("", 0),
    };
    for (size_t i = 0; i < 4; i++) {
        kiln_digest_format(&levels[i], text + i * KILN_DIGEST_TEXT_SIZE);
        text[(i + 1) * KILN_DIGEST_TEXT_SIZE - 1] = i < 3 ? '/' : '\0';
    }
}

/* Writes the path of an entry in the layout to @path. If the entry is a pair of files, this is the
 * path of the first payload. */
static inline void scratch_entry_path(const char *directory, uint64_t number,
                                      char path[SCRATCH_PATH_SIZE])
{
    kiln_key *key = scratch_key(number);
    kiln_digest digest = kiln_key_digest(key);
    char text[4 * KILN_DIGEST_TEXT_SIZE];
    kiln_digest_format(&digest, text);
    if (strcmp(scratch_layout, "sycl") == 0) {
        scratch_sycl_folder(key, text);
        snprintf(path, SCRATCH_PATH_SIZE, "%s/%s/0.bin", directory, text);
    } else if (strcmp(scratch_layout, "onednn") == 0) {
        snprintf(path, SCRATCH_PATH_SIZE, "%s/%s/0/kernel.bin", directory, text);
    } else {
        snprintf(path, SCRATCH_PATH_SIZE, "%s/v1/%.2s/%s", directory, text, text);
    }
    kiln_key_release(&key);
}

/* Writes the path of the folder for an entry's temporary files to @path. */
static inline void scratch_entry_folder(const char *directory, uint64_t number,
                                        char path[SCRATCH_PATH_SIZE])
{
    scratch_entry_path(directory, number, path);
    *strrchr(path, '/') = '\0';
    if (strcmp(scratch_layout, "onednn") == 0) {
        *strrchr(path, '/') = '\0';
    }
}

static inline unsigned scratch_count_descriptors(void)
{
    DIR *listing = opendir("/proc/self/fd");
    unsigned count = 0;
    while (listing && readdir(listing)) {
        count++;
    }
    if (listing) {
        closedir(listing);
    }
    return count;
}
