/* SPDX-License-Identifier: Apache-2.0 */
#include "store/dir/dir.h"

static int add_to_stat(void *user, const kilni_dir_found *found)
{
    kiln_store_stat *stat = user;
    stat->entries += !found->is_temporary && kilni_dir_has_entries(found->shard);
    stat->bytes += kilni_dir_disk_bytes(&found->stat);
    return 0;
}

kiln_status kilni_dir_stat(kiln_store *store, kiln_store_stat *ret_stat)
{
    kilni_dir *dir = kilni_dir_of(store);
    kiln_store_stat stat = {.max_bytes = store->options.max_bytes};
    kiln_status status = kilni_dir_walk(dir, add_to_stat, &stat);
    if (status != KILN_OK) {
        return status;
    }
    kilni_totals totals = {.entries = 0};
    kilni_totals_read_file(kilni_dir_root(dir), KILNI_DIR_STATS, &totals);
    kilni_dir_add_pending(dir, &totals);
    stat.totals = totals.counters;
    *ret_stat = stat;
    return KILN_OK;
}

kiln_status kilni_dir_known_stat(kiln_store *store, kiln_store_stat *ret_stat)
{
    const kilni_dir *dir = kilni_dir_of(store);
    kilni_totals totals;
    const kiln_status status =
        kilni_totals_read_file(kilni_dir_root(dir), KILNI_DIR_STATS, &totals);
    if (status != KILN_OK || totals.is_new) {
        return kilni_dir_stat(store, ret_stat);
    }
    kilni_dir_add_pending(dir, &totals);
    *ret_stat = (kiln_store_stat){.totals = totals.counters,
                                  .entries = totals.entries,
                                  .bytes = totals.bytes,
                                  .max_bytes = store->options.max_bytes};
    return KILN_OK;
}
