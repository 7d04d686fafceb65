/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes the totals of a store when entries are added and removed.
 */
#include "store/dir/dir.h"

/* Changes the totals. If the statistics file is new, it does not contain the store's size, so this
 * function also begins to count the store. */
static kiln_status change_totals(kilni_dir *dir, const kilni_totals_change *change,
                                 kilni_totals *ret_totals)
{
    const kiln_status status = kilni_dir_change_totals(dir, change, ret_totals);
    if (status == KILN_OK && ret_totals->is_new) {
        kilni_dir_begin_count(dir);
    }
    if (status != KILN_OK && status != KILN_BUSY) {
        kilni_store_warn(&dir->store, KILNI_WARNED_TOTALS, "%s/%s: %s", dir->path, KILNI_DIR_STATS,
                         kiln_status_text(status));
    }
    return status;
}

void kilni_dir_flush_pending(kiln_store *store)
{
    kilni_dir *dir = (kilni_dir *)store;
    if (kilni_dir_has_pending(dir)) {
        const kilni_totals_change nothing = {.entries = 0};
        kilni_totals totals;
        atomic_store_explicit(&dir->totals_retry_ns, 0, memory_order_relaxed);
        change_totals(kilni_dir_of(store), &nothing, &totals);
    }
}

void kilni_dir_count_put(kilni_dir *dir, unsigned shard, uint64_t disk_bytes,
                         const kilni_dir_incumbent *replaced)
{
    const bool is_entry = kilni_dir_has_entries(shard);
    kilni_totals_change change = {
        .entries = is_entry && !replaced->is_there,
        .bytes = (int64_t)(disk_bytes - replaced->disk_bytes),
        .counters.puts = is_entry,
    };
    kilni_totals totals;
    uint64_t most = dir->store.options.max_bytes;
    bool has_outgrown;
    if (change_totals(dir, &change, &totals) == KILN_OK) {
        has_outgrown = totals.bytes > most;
    } else {
        uint64_t before =
            atomic_fetch_add_explicit(&dir->uncounted_bytes, disk_bytes, memory_order_relaxed);
        has_outgrown = before + disk_bytes > most / 10;
    }
    kilni_dir_trim_after_put(dir, disk_bytes, has_outgrown);
}

void kilni_dir_count_removed(kilni_dir *dir, unsigned shard, const struct stat *removed)
{
    kilni_totals_change change = {.entries = kilni_dir_has_entries(shard) ? -1 : 0,
                                  .bytes = -(int64_t)kilni_dir_disk_bytes(removed)};
    kilni_totals totals;
    change_totals(dir, &change, &totals);
}

kiln_status kilni_dir_add_stats(kiln_store *store, const kiln_stats *delta)
{
    kilni_totals_change change = {.counters = *delta};
    kilni_totals totals;
    kiln_status status = change_totals(kilni_dir_of(store), &change, &totals);
    if (status == KILN_BUSY) {
        return KILN_OK;
    }
    return status == KILN_OK || status == KILN_E_READONLY ? status : KILN_E_IO;
}
