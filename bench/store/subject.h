/* SPDX-License-Identifier: Apache-2.0
 *
 * What the bench of stores measures: ways to read, to write and to lock. Each keeps the same
 * entries in a folder of its own, or works on those that "get" keeps.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/entry.h>

/* Entries of one size. */
typedef struct bench_data {
    const char *folder; /* for files; each subject makes a folder of its own in it */
    size_t payload_size, count;
    kiln_key **keys;
    kiln_key **absent; /* as many keys that no one stored */
    kiln_entry **entries;
} bench_data;

typedef struct bench_subject {
    const char *name;
    bool is_repeated; /* measured with one entry over and over, too */
    /* Stores the entries; NULL where there is nothing to prepare. */
    void (*open)(const bench_data *data);
    /* Does it once, with one entry. */
    void (*run)(size_t index);
    /* Gives back what running kept, after the clock was stopped; may be NULL. */
    void (*settle)(void);
    void (*close)(void);
} bench_subject;

/* Ends with one without a name. */
extern const bench_subject kiln_subjects[], bare_subjects[], lmdb_subjects[], sqlite_subjects[];

/* Ends the bench where something that has to hold doesn't. */
void bench_expect(int holds, const char *what);

/* Has the bytes wanted by someone, as far as a compiler can tell. */
void bench_use(const void *bytes);

/* A new folder for a subject. @path: BENCH_PATH_SIZE bytes */
#define BENCH_PATH_SIZE 512
void bench_make_folder(const bench_data *data, const char *name, char *path);

/* Where the store "get" is, and where in it an entry is. */
#define BENCH_STORE "kiln"
void bench_entry_path(const kiln_key *key, char path[64]);
