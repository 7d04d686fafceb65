/* SPDX-License-Identifier: Apache-2.0 */
#include "device/file_stamps.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "os/os.h"

static struct stat stat_path(const char *path)
{
    struct stat facts;
    return kilni_os()->fstatat(AT_FDCWD, path, &facts, 0) == 0 ? facts : (struct stat){0};
}

kiln_status kilni_file_stamps_add(kilni_file_stamps *stamps, const char *path)
{
    kilni_file_stamp *items =
        kilni_array_grown(stamps->items, stamps->count, &stamps->capacity, sizeof *items);
    if (!items) {
        return KILN_E_NO_MEMORY;
    }
    stamps->items = items;
    const kilni_file_stamp stamp = {.path = strdup(path), .facts = stat_path(path)};
    if (!stamp.path) {
        return KILN_E_NO_MEMORY;
    }
    stamps->items[stamps->count++] = stamp;
    return KILN_OK;
}

static bool equal_times(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

bool kilni_file_stamps_hold(const kilni_file_stamps *stamps)
{
    bool all = true;
    for (size_t i = 0; i < stamps->count && all; i++) {
        const struct stat *then = &stamps->items[i].facts;
        const struct stat now = stat_path(stamps->items[i].path);
        all = now.st_dev == then->st_dev && now.st_ino == then->st_ino &&
              now.st_size == then->st_size && equal_times(&now.st_mtim, &then->st_mtim) &&
              equal_times(&now.st_ctim, &then->st_ctim);
    }
    return all;
}

int64_t kilni_file_stamps_changed_ns(const kilni_file_stamps *stamps)
{
    int64_t last_ns = 0;
    for (size_t i = 0; i < stamps->count; i++) {
        const struct stat *facts = &stamps->items[i].facts;
        const int64_t changed_ns =
            (int64_t)facts->st_ctim.tv_sec * INT64_C(1000000000) + facts->st_ctim.tv_nsec;
        if (S_ISREG(facts->st_mode) && changed_ns > last_ns) {
            last_ns = changed_ns;
        }
    }
    return last_ns;
}

void kilni_file_stamps_done(kilni_file_stamps *stamps)
{
    for (size_t i = 0; i < stamps->count; i++) {
        free(stamps->items[i].path);
    }
    free(stamps->items);
    *stamps = (kilni_file_stamps){0};
}
