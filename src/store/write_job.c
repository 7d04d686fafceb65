/* SPDX-License-Identifier: Apache-2.0 */
#include "store/write_job.h"

#include <stdlib.h>

kiln_status kilni_write_job_new(kiln_store *store, size_t fill, const kiln_key *key,
                                const kiln_entry *entry, kiln_lease *lease,
                                kilni_write_job **ret_job)
{
    const size_t tier_count = kilni_store_tier_count(store);
    const size_t size = sizeof(kilni_write_job) + tier_count * sizeof(kilni_write_item);
    kilni_write_job *job = calloc(1, size);
    if (!job) {
        return KILN_E_NO_MEMORY;
    }
    job->entry = kiln_entry_retain(entry);
    job->key = kiln_key_retain(key);
    job->fill = fill;
    job->lease = lease;
    job->bytes = kiln_entry_encoding(entry).size + size;
    job->tier_count = tier_count;
    for (size_t i = 0; i < tier_count; i++) {
        kilni_write_item *item = &job->items[i];
        item->job = job;
        item->task = kilni_store_tier_task(store, i, fill, key);
        item->state = item->task == KILNI_TIER_TASK_NONE ? KILNI_WRITE_DONE : KILNI_WRITE_WAITS;
    }
    *ret_job = job;
    return KILN_OK;
}

kilni_write_item *kilni_write_job_next(kilni_write_job *job)
{
    bool is_above_done = true, is_above_stored = false;
    for (size_t i = 0; i < job->tier_count; i++) {
        kilni_write_item *item = &job->items[i];
        const bool waits = item->state == KILNI_WRITE_WAITS;
        if (waits && item->task == KILNI_TIER_TASK_IF_NOT_STORED && is_above_stored) {
            item->state = KILNI_WRITE_DONE;
        } else if (waits && (item->task == KILNI_TIER_TASK_ALWAYS || is_above_done)) {
            return item;
        }
        is_above_done &= item->state == KILNI_WRITE_DONE;
        is_above_stored |= item->is_stored;
    }
    return NULL;
}

void kilni_write_item_finish(kilni_write_item *item, bool is_stored)
{
    item->state = KILNI_WRITE_DONE;
    item->is_stored = is_stored;
    item->job->is_stored |= is_stored;
}

bool kilni_write_job_is_done(const kilni_write_job *job)
{
    for (size_t i = 0; i < job->tier_count; i++) {
        if (job->items[i].state != KILNI_WRITE_DONE) {
            return false;
        }
    }
    return true;
}

void kilni_write_job_free(kilni_write_job *job)
{
    kiln_lease_release(&job->lease);
    kiln_entry_release(&job->entry);
    kiln_key_release(&job->key);
    free(job);
}
