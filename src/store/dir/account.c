/* SPDX-License-Identifier: Apache-2.0
 *
 * What the totals of a store are told when entries come and go.
 */
#include "store/dir/dir.h"

/* A file that is new doesn't know the store's size: it is counted. */
static kiln_status tell(kilni_dir *dir, const kilni_totals_change *change, kilni_totals *ret_totals)
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

void kilni_dir_tell_owed(kiln_store *store)
{
    kilni_dir *dir = (kilni_dir *)store;
    if (kilni_dir_owes(dir)) {
        const kilni_totals_change nothing = {.entries = 0};
        kilni_totals totals;
        atomic_store_explicit(&dir->totals_retry_ns, 0, memory_order_relaxed);
        tell(kilni_dir_of(store), &nothing, &totals);
    }
}

void kilni_dir_settle(kilni_dir *dir, unsigned shard, uint64_t disk_bytes,
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
    if (tell(dir, &change, &totals) == KILN_OK) {
        has_outgrown = totals.bytes > most;
    } else {
        uint64_t untold =
            atomic_fetch_add_explicit(&dir->untold_bytes, disk_bytes, memory_order_relaxed);
        has_outgrown = untold + disk_bytes > most / 10;
    }
    kilni_dir_tend(dir, disk_bytes, has_outgrown);
}

void kilni_dir_count_removed(kilni_dir *dir, unsigned shard, const struct stat *removed)
{
    kilni_totals_change change = {.entries = kilni_dir_has_entries(shard) ? -1 : 0,
                                  .bytes = -(int64_t)kilni_dir_disk_bytes(removed)};
    kilni_totals totals;
    tell(dir, &change, &totals);
}

kiln_status kilni_dir_account(kiln_store *store, const kiln_stats *delta)
{
    kilni_totals_change change = {.counters = *delta};
    kilni_totals totals;
    kiln_status status = tell(kilni_dir_of(store), &change, &totals);
    if (status == KILN_BUSY) {
        return KILN_OK;
    }
    return status == KILN_OK || status == KILN_E_READONLY ? status : KILN_E_IO;
}
