/* SPDX-License-Identifier: Apache-2.0
 *
 * The floors: only the system calls, on the files of the store "get".
 */
#include "subject.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const bench_data *here;
static int store = -1;
static char (*paths)[64];
static char (*absent_paths)[64];
static void **copies; /* the copies that "copy" made in this round */

static void open_bare(const bench_data *data)
{
    char path[BENCH_PATH_SIZE];
    here = data;
    snprintf(path, sizeof path, "%s/%s", data->folder, BENCH_STORE);
    store = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    paths = calloc(data->count, sizeof *paths);
    absent_paths = calloc(data->count, sizeof *absent_paths);
    copies = calloc(data->count, sizeof *copies);
    bench_expect(store >= 0 && paths && absent_paths && copies, "no store to read");
    for (size_t i = 0; i < data->count; i++) {
        bench_entry_path(data->keys[i], paths[i]);
        bench_entry_path(data->absent[i], absent_paths[i]);
    }
}

static void close_bare(void)
{
    close(store);
    free(paths);
    free(absent_paths);
    free(copies);
}

/* Reads into memory that is allocated as a get allocates it. */
static void run_read(size_t index)
{
    struct stat stat;
    int file = openat(store, paths[index], O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    bench_expect(file >= 0 && fstat(file, &stat) == 0, "bare read");
    void *bytes = aligned_alloc(64, ((size_t)stat.st_size + 63) / 64 * 64);
    bench_expect(bytes && read(file, bytes, (size_t)stat.st_size) == stat.st_size, "bare read");
    close(file);
    bench_use(bytes);
    free(bytes);
}

static void run_absent(size_t index)
{
    bench_expect(openat(store, absent_paths[index], O_RDONLY | O_NOFOLLOW | O_CLOEXEC) < 0,
                 "an absent file is there");
}

/* The cost of writing alone, without counting or trimming. */
static void run_write(size_t index)
{
    const kiln_bytes bytes = kiln_entry_encoding(here->entries[index]);
    int file = openat(store, "v1/new", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bench_expect(file >= 0 && write(file, bytes.data, bytes.size) == (ssize_t)bytes.size,
                 "bare write");
    close(file);
    bench_expect(renameat(store, "v1/new", store, "v1/renamed") == 0, "bare rename");
}

/* The least that it can cost to pass bytes to a different thread if the caller keeps its own. */
static void run_copy(size_t index)
{
    const kiln_bytes payload = kiln_entry_payload(here->entries[index]);
    free(copies[index]);
    copies[index] = malloc(payload.size);
    bench_expect(copies[index] != NULL, "out of memory");
    memcpy(copies[index], payload.data, payload.size);
}

static void settle_copy(void)
{
    for (size_t i = 0; i < here->count; i++) {
        free(copies[i]);
        copies[i] = NULL;
    }
}

static void run_lock(size_t index)
{
    struct flock range = {.l_type = F_WRLCK, .l_start = (off_t)index, .l_len = 1};
    int file = openat(store, "lease", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    bench_expect(file >= 0 && fcntl(file, F_OFD_SETLK, &range) == 0, "bare lock");
    close(file);
}

const bench_subject bare_subjects[] = {
    {.name = "bare read",
     .is_repeated = true,
     .open = open_bare,
     .run = run_read,
     .close = close_bare},
    {.name = "bare absent", .run = run_absent},
    {.name = "bare write", .run = run_write},
    {.name = "copy", .run = run_copy, .settle = settle_copy},
    {.name = "bare lock", .run = run_lock},
    {.name = NULL},
};
