/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes a store's totals, and keeps the changes that are not written yet. Even if a process is
 * stopped while it holds the lock of the totals, all other processes must be able to continue. So a
 * change that cannot be written within a few milliseconds becomes pending, and is written later.
 */
#include <string.h>

#include "os/clock.h"
#include "store/dir/layout.h"

/* If the lock was not free, no thread tries to take it during the pause that follows. The first
 * pause has this length. Each further failure doubles the length. */
#define PAUSE_MIN_NS ((uint64_t)100000000)
#define PAUSE_DOUBLINGS 7u

/* ---- pending changes ---- */

static void make_pending(kilni_dir *dir, const kilni_totals_change *change)
{
    kilni_dir_pending *pending = &dir->pending;
    uint64_t counters[KILNI_STATS_COUNT];
    memcpy(counters, &change->counters, sizeof counters);
    atomic_fetch_add_explicit(&pending->entries, change->entries, memory_order_relaxed);
    atomic_fetch_add_explicit(&pending->bytes, change->bytes, memory_order_relaxed);
    for (size_t i = 0; i < KILNI_STATS_COUNT; i++) {
        atomic_fetch_add_explicit(&pending->counters[i], counters[i], memory_order_relaxed);
    }
}

/* Returns the pending changes and sets them to zero. They include the number of damaged entries
 * that calls of get have found. */
static kilni_totals_change take_pending_changes(kilni_dir *dir)
{
    kilni_dir_pending *pending = &dir->pending;
    uint64_t counters[KILNI_STATS_COUNT];
    for (size_t i = 0; i < KILNI_STATS_COUNT; i++) {
        counters[i] = atomic_exchange_explicit(&pending->counters[i], 0, memory_order_relaxed);
    }
    kilni_totals_change taken = {
        .entries = atomic_exchange_explicit(&pending->entries, 0, memory_order_relaxed),
        .bytes = atomic_exchange_explicit(&pending->bytes, 0, memory_order_relaxed),
    };
    memcpy(&taken.counters, counters, sizeof counters);
    taken.counters.corrupt +=
        atomic_exchange_explicit(&dir->store.uncounted_corrupt, 0, memory_order_relaxed);
    return taken;
}

void kilni_dir_add_pending(const kilni_dir *dir, kilni_totals *totals)
{
    const kilni_dir_pending *pending = &dir->pending;
    uint64_t counters[KILNI_STATS_COUNT];
    for (size_t i = 0; i < KILNI_STATS_COUNT; i++) {
        counters[i] = atomic_load_explicit(&pending->counters[i], memory_order_relaxed);
    }
    kilni_totals_change change = {
        .entries = atomic_load_explicit(&pending->entries, memory_order_relaxed),
        .bytes = atomic_load_explicit(&pending->bytes, memory_order_relaxed),
    };
    memcpy(&change.counters, counters, sizeof counters);
    kilni_totals_apply(totals, &change);
}

bool kilni_dir_has_pending(const kilni_dir *dir)
{
    const kilni_dir_pending *pending = &dir->pending;
    uint64_t any = atomic_load_explicit(&dir->store.uncounted_corrupt, memory_order_relaxed) |
                   (uint64_t)atomic_load_explicit(&pending->entries, memory_order_relaxed) |
                   (uint64_t)atomic_load_explicit(&pending->bytes, memory_order_relaxed);
    for (size_t i = 0; i < KILNI_STATS_COUNT; i++) {
        any |= atomic_load_explicit(&pending->counters[i], memory_order_relaxed);
    }
    return any != 0;
}

/* ---- writing ---- */

static bool is_paused(const kilni_dir *dir)
{
    const uint64_t retry_ns = atomic_load_explicit(&dir->totals_retry_ns, memory_order_relaxed);
    return retry_ns != 0 && kilni_clock_ns() < retry_ns;
}

static void note_attempt(kilni_dir *dir, kiln_status status)
{
    if (status != KILN_BUSY) {
        if (atomic_load_explicit(&dir->totals_retry_ns, memory_order_relaxed) != 0) {
            atomic_store_explicit(&dir->totals_retry_ns, 0, memory_order_relaxed);
            atomic_store_explicit(&dir->totals_failures, 0, memory_order_relaxed);
        }
        return;
    }
    const unsigned before =
        atomic_fetch_add_explicit(&dir->totals_failures, 1, memory_order_relaxed);
    const uint64_t pause_ns = PAUSE_MIN_NS << (before < PAUSE_DOUBLINGS ? before : PAUSE_DOUBLINGS);
    atomic_store_explicit(&dir->totals_retry_ns, kilni_clock_ns() + pause_ns, memory_order_relaxed);
}

static kiln_status change_file(kilni_dir *dir, const kilni_totals_change *change,
                               kilni_totals *ret_totals)
{
    const kiln_status status =
        kilni_totals_change_file(kilni_dir_root(dir), KILNI_DIR_STATS, change, ret_totals);
    note_attempt(dir, status);
    if (status != KILN_OK) {
        return status;
    }
    const bool is_size_changed = change->is_recount || change->bytes != 0;
    if (dir->layout->note_size && is_size_changed && !ret_totals->is_new) {
        dir->layout->note_size(dir, ret_totals->bytes);
    }
    return KILN_OK;
}

static kilni_totals_change sum_of(const kilni_totals_change *pending,
                                  const kilni_totals_change *change)
{
    kilni_totals_change sum = *change;
    if (!change->is_recount) {
        sum.entries += pending->entries;
        sum.bytes += pending->bytes;
    }
    kilni_stats_add(&sum.counters, &pending->counters);
    return sum;
}

/* Turns changes that could not be written into pending changes. A recount is dropped, because it
 * would be wrong later. */
static void keep(kilni_dir *dir, const kilni_totals_change *pending,
                 const kilni_totals_change *change, kiln_status status)
{
    make_pending(dir, pending);
    if (status == KILN_BUSY && !change->is_recount) {
        make_pending(dir, change);
    }
}

kiln_status kilni_dir_change_totals(kilni_dir *dir, const kilni_totals_change *change,
                                    kilni_totals *ret_totals)
{
    const kilni_totals_change pending = take_pending_changes(dir);
    const kilni_totals_change sum = sum_of(&pending, change);
    kiln_status status =
        is_paused(dir) && !change->is_recount ? KILN_BUSY : change_file(dir, &sum, ret_totals);
    if (status == KILN_MISS && kilni_dir_reopen(dir) == KILN_OK) {
        status = change_file(dir, &sum, ret_totals);
    }
    if (status != KILN_OK) {
        keep(dir, &pending, change, status);
    }
    return status;
}
