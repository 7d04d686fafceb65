/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes room in the directory. Keeps rule 6 of group.h: whatever sizes and times other members give
 * their files, only files of this directory that have Kiln's names are removed, which costs builds,
 * and the memory and the time that this takes are limited.
 */
#include <fcntl.h>
#include <string.h>

#include "os/clock.h"
#include "os/file.h"
#include "os/os.h"
#include "store/call_limit.h"
#include "store/dir/dir.h"
#include "store/group/group.h"

/* A temporary of this age belongs to a writer that has ended. */
#define LEFTOVER_S 3600u

/* Ages are grouped by their logarithm, in eight groups for each doubling. */
#define STEPS 8u
#define AGE_GROUPS (64u * STEPS)

typedef struct room {
    int folder;
    uid_t user;
    bool removes_all; /* this process is allowed to remove files of other users */
    int64_t now_s;
    uint64_t end_ns;
    uint64_t bytes;    /* what the files occupy that this process is allowed to remove */
    uint64_t keep;     /* how much they should occupy */
    unsigned youngest; /* of the groups from which files are removed */
    uint64_t bytes_of[AGE_GROUPS];
} room;

/* Members can set the times of their own files. */
static unsigned group_of(const room *self, const struct stat *stat)
{
    const int64_t last_s = stat->st_atime > stat->st_mtime ? stat->st_atime : stat->st_mtime;
    const uint64_t age_s = last_s < self->now_s ? (uint64_t)self->now_s - (uint64_t)last_s : 0;
    const unsigned doublings = 63u - (unsigned)__builtin_clzll(age_s | STEPS);
    return doublings * STEPS + (unsigned)((age_s | STEPS) >> (doublings - 3) & (STEPS - 1));
}

static bool is_leftover(const room *self, const char *name, const struct stat *stat)
{
    return strncmp(name, KILNI_GROUP_TEMPORARY, strlen(KILNI_GROUP_TEMPORARY)) == 0 &&
           stat->st_mtime < self->now_s - (int64_t)LEFTOVER_S;
}

static void count_file(room *self, const char *name, const struct stat *stat)
{
    if (is_leftover(self, name, stat)) {
        kilni_os()->unlinkat(self->folder, name, 0);
        return;
    }
    const uint64_t bytes = kilni_dir_disk_bytes(stat);
    self->bytes += bytes;
    self->bytes_of[group_of(self, stat)] += bytes;
}

static void remove_file(room *self, const char *name, const struct stat *stat)
{
    if (self->bytes > self->keep && group_of(self, stat) >= self->youngest &&
        kilni_os()->unlinkat(self->folder, name, 0) == 0) {
        const uint64_t bytes = kilni_dir_disk_bytes(stat);
        self->bytes -= bytes < self->bytes ? bytes : self->bytes;
    }
}

/* Returns true if the time is over, or the end of the process should not be delayed any more. */
static bool is_over(const room *self)
{
    const _Atomic uint64_t *limit = kilni_call_limit_get();
    const uint64_t now_ns = kilni_clock_ns();
    return now_ns >= self->end_ns ||
           (limit && now_ns >= atomic_load_explicit(limit, memory_order_relaxed));
}

/* Visits the files that this process is allowed to remove. */
static void each_file(room *self, void visit(room *self, const char *name, const struct stat *stat))
{
    const struct dirent *next;
    DIR *names = kilni_file_list(self->folder);
    while (names && !is_over(self) && (next = kilni_os()->readdir(names))) {
        int file = -1;
        struct stat stat;
        if (strncmp(next->d_name, KILNI_GROUP_PREFIX, strlen(KILNI_GROUP_PREFIX)) == 0 &&
            kilni_group_open_file(self->folder, next->d_name, O_PATH, &file, &stat) == KILN_OK &&
            (self->removes_all || stat.st_uid == self->user)) {
            visit(self, next->d_name, &stat);
        }
        kilni_file_close(&file);
    }
    if (names) {
        kilni_os()->closedir(names);
    }
}

/* Sets the youngest group from which files have to be removed. */
static void choose_groups(room *self)
{
    uint64_t removed = 0;
    self->youngest = AGE_GROUPS;
    while (self->youngest > 0 && removed < self->bytes - self->keep) {
        removed += self->bytes_of[--self->youngest];
    }
}

/* In a sticky directory, the limit is one for each user, since the files of others stay. */
void kilni_group_make_room(int folder, uint64_t max_bytes, uint64_t end_ns)
{
    struct stat stat;
    if (kilni_os()->fstat(folder, &stat) != 0) {
        return;
    }
    const uid_t user = kilni_os()->geteuid();
    room self = {.folder = folder,
                 .user = user,
                 .removes_all = !(stat.st_mode & S_ISVTX) || stat.st_uid == user || user == 0,
                 .now_s = kilni_clock_unix_s(),
                 .end_ns = end_ns,
                 .keep = max_bytes - max_bytes / 8};
    each_file(&self, count_file);
    if (self.bytes > max_bytes) {
        choose_groups(&self);
        each_file(&self, remove_file);
    }
}
