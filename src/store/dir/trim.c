/* SPDX-License-Identifier: Apache-2.0
 *
 * The janitor: counts a store, and removes what was used least recently until it fits. One works
 * at a time. It removes a file only while that is still the one that it ranked.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "os/clock.h"
#include "os/os.h"
#include "store/dir/layout.h"
#include "store/lock.h"
#include "store/totals.h"

#define LEFTOVER_AGE_S 3600

typedef struct candidate {
    kilni_dir_identity seen;
    uint64_t disk_bytes;
    kilni_dir_spot spot;
    char *folder; /* the spot's; to be freed */
} candidate;

typedef struct store_census {
    kilni_dir *dir;
    int64_t now_s;
    candidate *candidates;
    size_t count, capacity;
    uint64_t entries, bytes; /* that are there */
    uint64_t removed, removed_bytes;
    uint64_t leftover_bytes; /* removed too, but no writer has told the totals of them */
    kiln_status status;
} store_census;

static bool add_candidate(store_census *census, const kilni_dir_found *found)
{
    if (census->count == census->capacity) {
        size_t capacity = census->capacity ? census->capacity * 2 : 256;
        candidate *grown = capacity > SIZE_MAX / sizeof *grown
                               ? NULL
                               : realloc(census->candidates, capacity * sizeof *grown);
        if (!grown) {
            return false;
        }
        census->candidates = grown;
        census->capacity = capacity;
    }
    char *folder = found->folder ? strdup(found->folder) : NULL;
    if (found->folder && !folder) {
        return false;
    }
    kilni_dir_spot spot = kilni_dir_spot_of(found);
    spot.folder = folder;
    census->candidates[census->count++] = (candidate){
        .seen = kilni_dir_identity_of(&found->stat),
        .disk_bytes = kilni_dir_disk_bytes(&found->stat),
        .spot = spot,
        .folder = folder,
    };
    return true;
}

/* Whether a temporary is old and its writer gone: a living one keeps a lock on it. */
static bool is_leftover(const store_census *census, const kilni_dir_found *found)
{
    if (census->now_s - found->stat.st_mtim.tv_sec < LEFTOVER_AGE_S) {
        return false;
    }
    kilni_lock lock;
    if (kilni_lock_open(found->directory, found->name, O_RDONLY, &lock) != KILN_OK) {
        return false;
    }
    kiln_status status = kilni_lock_take(&lock, F_RDLCK, 0, 0, 0);
    kilni_lock_close(&lock);
    return status == KILN_OK || status == KILN_E_UNSUPPORTED;
}

static int count_found(void *user, const kilni_dir_found *found)
{
    store_census *census = user;
    uint64_t disk_bytes = kilni_dir_disk_bytes(&found->stat);
    if (found->is_temporary && is_leftover(census, found)) {
        if (kilni_dir_remove_found(census->dir, found) == KILN_OK) {
            census->leftover_bytes += disk_bytes;
            return 0;
        }
    }
    census->bytes += disk_bytes;
    if (found->is_temporary) {
        return 0;
    }
    census->entries += kilni_dir_has_entries(found->shard);
    if (found->stat.st_uid == census->dir->user && !add_candidate(census, found)) {
        census->status = KILN_E_NO_MEMORY;
        return 1;
    }
    return 0;
}

static int compare_by_use(const void *first, const void *second)
{
    const candidate *a = first;
    const candidate *b = second;
    if (a->seen.used.tv_sec != b->seen.used.tv_sec) {
        return a->seen.used.tv_sec < b->seen.used.tv_sec ? -1 : 1;
    }
    if (a->seen.used.tv_nsec != b->seen.used.tv_nsec) {
        return a->seen.used.tv_nsec < b->seen.used.tv_nsec ? -1 : 1;
    }
    return memcmp(&a->spot.digest, &b->spot.digest, sizeof a->spot.digest);
}

static void remove_candidate(store_census *census, const candidate *victim)
{
    const kilni_dir_layout *layout = kilni_dir_layout_of_shard(census->dir, victim->spot.shard);
    if (layout->remove_place(census->dir, &victim->spot, &victim->seen) == KILN_OK) {
        const bool is_entry = kilni_dir_has_entries(victim->spot.shard);
        census->removed += is_entry;
        census->removed_bytes += victim->disk_bytes;
        census->entries -= is_entry;
        census->bytes -= victim->disk_bytes;
    }
}

/* Removes down to @target. The entry used last stays where the rest is within @limit. */
static void remove_oldest(store_census *census, uint64_t limit, uint64_t target)
{
    if (census->bytes <= target || census->count == 0) {
        return;
    }
    qsort(census->candidates, census->count, sizeof *census->candidates, compare_by_use);
    for (size_t i = 0; i < census->count && census->bytes > target; i++) {
        bool is_last = i + 1 == census->count;
        if (is_last && census->bytes <= limit) {
            break;
        }
        remove_candidate(census, &census->candidates[i]);
    }
}

/* Corrects the sizes by what was counted, or, where not all could be, by what was removed. */
static void correct_totals(const store_census *census)
{
    kilni_totals_change change = {.counters.evicted = census->removed};
    if (census->status == KILN_OK) {
        change.is_recount = true;
        change.entries = (int64_t)census->entries;
        change.bytes = (int64_t)census->bytes;
    } else {
        change.entries = -(int64_t)census->removed;
        change.bytes = -(int64_t)census->removed_bytes;
    }
    kilni_dir_change_totals_file(census->dir, &change, NULL);
}

static void free_candidates(store_census *census)
{
    for (size_t i = 0; i < census->count; i++) {
        free(census->candidates[i].folder);
    }
    free(census->candidates);
}

static kiln_status trim_locked(kilni_dir *dir, uint64_t limit, uint64_t target,
                               kiln_trim_report *ret_report)
{
    store_census census = {.dir = dir, .now_s = kilni_clock_unix_s()};
    kiln_status status = kilni_dir_walk(dir, count_found, &census);
    if (census.status == KILN_OK) {
        census.status = status;
    }
    if (census.status != KILN_E_NO_MEMORY) {
        remove_oldest(&census, limit, target);
    }
    free_candidates(&census);
    if (dir->layout->tidy) {
        dir->layout->tidy(dir);
    }
    correct_totals(&census);
    atomic_fetch_add_explicit(&dir->store.counts.evicted, census.removed, memory_order_relaxed);
    *ret_report = (kiln_trim_report){
        .removed = census.removed,
        .removed_bytes = census.removed_bytes + census.leftover_bytes,
        .entries = census.entries,
        .bytes = census.bytes,
    };
    return census.status;
}

static kiln_status trim_to(kilni_dir *dir, uint64_t limit, uint64_t target,
                           kiln_trim_report *ret_report)
{
    kilni_lock janitor;
    if (kilni_lock_open(kilni_dir_root(dir), KILNI_DIR_LEASE, O_RDWR | O_CREAT, &janitor) !=
        KILN_OK) {
        return KILN_E_IO;
    }
    kiln_status status = kilni_lock_take(&janitor, F_WRLCK, KILNI_DIR_JANITOR_BYTE, 1, 0);
    /* Without locks two may work at a time: each removes only what the other has left. */
    if (status == KILN_OK || status == KILN_E_UNSUPPORTED) {
        status = trim_locked(dir, limit, target, ret_report);
    }
    kilni_lock_close(&janitor);
    return status;
}

kiln_status kilni_dir_trim(kiln_store *store, uint64_t max_bytes, kiln_trim_report *ret_report)
{
    return trim_to(kilni_dir_of(store), max_bytes, max_bytes, ret_report);
}

void kilni_dir_make_room(kilni_dir *dir)
{
    /* A store of size zero takes nothing; what it holds is not removed behind its user's back. */
    uint64_t configured = dir->store.options.max_bytes;
    uint64_t limit = configured ? configured : KILN_UNLIMITED;
    kiln_trim_report report;
    kiln_status status = trim_to(dir, limit, limit / 10 * 9, &report);
    if (status == KILN_OK) {
        atomic_store_explicit(&dir->untold_bytes, 0, memory_order_relaxed);
    } else if (status != KILN_BUSY) {
        kilni_store_warn(&dir->store, KILNI_WARNED_TRIM, "%s: can't be trimmed: %s", dir->path,
                         kiln_status_text(status));
    }
}
