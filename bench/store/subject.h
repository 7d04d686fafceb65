/* SPDX-License-Identifier: Apache-2.0
 *
 * What the bench of stores measures: functions that read, write and lock. Each keeps the same
 * entries in its own folder, or uses the entries of "get".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/entry.h>

/* Entries of one size. */
typedef struct bench_data {
    const char *folder; /* for files; each subject makes its own folder in it */
    size_t payload_size, count;
    kiln_key **keys;
    kiln_key **absent; /* the same number of keys that no entry has */
    kiln_entry **entries;
} bench_data;

typedef struct bench_subject {
    const char *name;
    bool is_repeated; /* also measured with one entry repeatedly */
    /* Stores the entries; NULL if there is nothing to prepare. */
    void (*open)(const bench_data *data);
    /* Runs the subject once, with one entry. */
    void (*run)(size_t index);
    /* Frees what the runs kept, after the clock has stopped; may be NULL. */
    void (*settle)(void);
    void (*close)(void);
} bench_subject;

/* The list ends with a subject without a name. */
extern const bench_subject kiln_subjects[], bare_subjects[], lmdb_subjects[], sqlite_subjects[];

/* Ends the bench with a message if a condition does not hold. */
void bench_expect(int holds, const char *what);

/* Makes the compiler assume that the bytes are used. */
void bench_use(const void *bytes);

/* Makes a new folder for a subject. @path: BENCH_PATH_SIZE bytes */
#define BENCH_PATH_SIZE 512
void bench_make_folder(const bench_data *data, const char *name, char *path);

/* The folder of the store "get", and the path of an entry in it. */
#define BENCH_STORE "kiln"
void bench_entry_path(const kiln_key *key, char path[64]);
