/* SPDX-License-Identifier: Apache-2.0
 *
 * store_bench FOLDER ROUNDS: measures all subjects in turns, with entries of 10 KB, 100 KB, 1 MB
 * and 10 MB. There are too many of each size for a processor's cache, because a program reads an
 * entry once. Prints a line for each measurement:
 *
 *     subject <tab> bytes of payload <tab> nanoseconds per operation
 *
 * A subject whose name ends in "again" used one entry repeatedly.
 */
#include "subject.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TOTAL_BYTES ((size_t)64 << 20)
#define STRETCHES 8
#define AGAIN_BYTES ((size_t)16 << 20)

static const bench_subject *const groups[] = {bare_subjects, kiln_subjects, lmdb_subjects,
                                              sqlite_subjects};
#define GROUPS (sizeof groups / sizeof groups[0])

void bench_expect(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "store_bench: %s\n", what);
        exit(1);
    }
}

void bench_use(const void *bytes)
{
    static const void *volatile last;
    last = bytes;
    (void)last;
}

void bench_make_folder(const bench_data *data, const char *name, char *path)
{
    snprintf(path, BENCH_PATH_SIZE, "%s/%s", data->folder, name);
    bench_expect(mkdir(path, 0700) == 0, path);
}

void bench_entry_path(const kiln_key *key, char path[64])
{
    const kiln_digest digest = kiln_key_digest(key);
    char text[KILN_DIGEST_TEXT_SIZE];
    kiln_digest_format(&digest, text);
    snprintf(path, 64, "v1/%.2s/%s", text, text);
}

static kiln_key *make_key(uint64_t number)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    bench_expect(kiln_key_builder_new(&builder) == KILN_OK &&
                     kiln_key_builder_add_text(builder, "device", "a device of benches") ==
                         KILN_OK &&
                     kiln_key_builder_add_number(builder, "number", number) == KILN_OK &&
                     kiln_key_builder_finish(builder, &key) == KILN_OK,
                 "no key");
    kiln_key_builder_free(&builder);
    return key;
}

/* Bytes that do not compress and differ from entry to entry. */
static void fill(unsigned char *bytes, size_t size, uint64_t state)
{
    for (size_t i = 0; i < size; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        bytes[i] = (unsigned char)(state >> 56);
    }
}

static void make_data(bench_data *data)
{
    unsigned char *payload = malloc(data->payload_size);
    data->keys = calloc(data->count, sizeof *data->keys);
    data->absent = calloc(data->count, sizeof *data->absent);
    data->entries = calloc(data->count, sizeof(kiln_entry *));
    bench_expect(payload && data->keys && data->absent && data->entries, "out of memory");
    for (size_t i = 0; i < data->count; i++) {
        data->keys[i] = make_key(i);
        data->absent[i] = make_key(data->count + i);
        fill(payload, data->payload_size, i);
        const kiln_entry_params params = {
            .struct_size = sizeof params,
            .key = data->keys[i],
            .kind = KILN_ENTRY_PROGRAM,
            .provenance = {.struct_size = sizeof params.provenance, .name = "kernel"},
            .payload = {payload, data->payload_size},
        };
        bench_expect(kiln_entry_new(&params, &data->entries[i]) == KILN_OK, "no entry");
    }
    free(payload);
}

static void free_data(bench_data *data)
{
    for (size_t i = 0; i < data->count; i++) {
        kiln_key_release(&data->keys[i]);
        kiln_key_release(&data->absent[i]);
        kiln_entry_release(&data->entries[i]);
    }
    free(data->keys);
    free(data->absent);
    free(data->entries);
}

static double now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* Runs a subject @times times, with the first @distinct entries in turn. Each measurement is short,
 * so that some are undisturbed. */
static void measure(const bench_subject *subject, const bench_data *data, size_t times,
                    size_t distinct)
{
    const size_t stretch = times < STRETCHES ? 1 : times / STRETCHES;
    subject->run(0);
    for (size_t first = 0; first + stretch <= times; first += stretch) {
        const double start = now_ns();
        for (size_t i = first; i < first + stretch; i++) {
            subject->run(i % distinct);
        }
        printf("%s%s\t%zu\t%.0f\n", subject->name, distinct == 1 ? " again" : "",
               data->payload_size, (now_ns() - start) / (double)stretch);
    }
    if (subject->settle) {
        subject->settle();
    }
}

static void measure_all(const bench_data *data)
{
    const size_t times = AGAIN_BYTES / data->payload_size + 1;
    for (size_t group = 0; group < GROUPS; group++) {
        for (const bench_subject *subject = groups[group]; subject->name; subject++) {
            measure(subject, data, data->count, data->count);
            if (subject->is_repeated) {
                measure(subject, data, times, 1);
            }
        }
    }
    fflush(stdout);
}

static void for_size(const char *folder, size_t payload_size, int rounds)
{
    bench_data data = {
        .folder = folder, .payload_size = payload_size, .count = TOTAL_BYTES / payload_size};
    make_data(&data);
    /* In reverse: bare reads come first in each round, but need the files that the store makes. */
    for (size_t group = GROUPS; group-- > 0;) {
        for (const bench_subject *subject = groups[group]; subject->name; subject++) {
            if (subject->open) {
                subject->open(&data);
            }
        }
    }
    sync();
    for (int i = 0; i < rounds; i++) {
        measure_all(&data);
    }
    for (size_t group = 0; group < GROUPS; group++) {
        for (const bench_subject *subject = groups[group]; subject->name; subject++) {
            if (subject->close) {
                subject->close();
            }
        }
    }
    free_data(&data);
}

int main(int count, char **arguments)
{
    static const size_t sizes[] = {10 << 10, 100 << 10, 1 << 20, 10 << 20};
    if (count != 3) {
        fprintf(stderr, "usage: store_bench FOLDER ROUNDS\n");
        return 2;
    }
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char folder[BENCH_PATH_SIZE];
        snprintf(folder, sizeof folder, "%s/%zu", arguments[1], sizes[i]);
        bench_expect(mkdir(folder, 0700) == 0, folder);
        for_size(folder, sizes[i], atoi(arguments[2]));
    }
    return 0;
}
