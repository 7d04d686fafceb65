/* SPDX-License-Identifier: Apache-2.0
 *
 * An entry on its way to the tiers of a store, and which tier gets it when. The job has an item for
 * each tier, which waits in that tier's queue (store/writer.c). Nothing here locks: the caller
 * ensures that only one thread at a time calls these functions for a job.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store.h"

typedef struct kilni_write_job kilni_write_job;

typedef enum kilni_write_state {
    KILNI_WRITE_WAITS,  /* it is not known yet whether the tier gets the entry */
    KILNI_WRITE_QUEUED, /* the entry is in the tier's queue, or is being written */
    KILNI_WRITE_DONE    /* the entry was written or dropped, or the tier does not get it */
} kilni_write_state;

/* The part of a job that concerns one tier. */
typedef struct kilni_write_item {
    struct kilni_write_item *next; /* in the tier's queue */
    kilni_write_job *job;
    kilni_tier_task task;
    kilni_write_state state;
    bool is_stored; /* the tier has stored the entry */
} kilni_write_item;

struct kilni_write_job {
    kilni_write_job *next; /* in the writer's list of jobs that are done */
    kiln_entry *entry;
    kiln_key *key;     /* of the entry */
    size_t fill;       /* the value for kilni_store_fill; 0: the entry is to be put */
    kiln_lease *lease; /* of the entry's builder; can be NULL */
    uint64_t bytes;    /* how much room it takes in each queue */
    bool is_stored;    /* any tier has stored the entry */
    size_t tier_count;
    kilni_write_item items[]; /* one for each tier */
};

/* Makes a job, with one allocation and without copying bytes. It retains key and entry.
 *
 * @lease  passes to the job; can be NULL
 * Returns KILN_OK; KILN_E_NO_MEMORY: the caller still has the lease. */
kiln_status kilni_write_job_new(kiln_store *store, size_t fill, const kiln_key *key,
                                const kiln_entry *entry, kiln_lease *lease,
                                kilni_write_job **ret_job);

/* Returns an item that now has to be queued; NULL: there is none. The caller changes the item's
 * state. */
kilni_write_item *kilni_write_job_next(kilni_write_job *job);

/* Records that a tier has stored the entry, or that it will not. Items that waited for that may now
 * have to be queued. */
void kilni_write_item_finish(kilni_write_item *item, bool is_stored);

/* Returns true if all items are done. No queue refers to the job then, so it must be freed. */
bool kilni_write_job_is_done(const kilni_write_job *job);

/* Releases the lease, which can take as long as a call to a server. */
void kilni_write_job_free(kilni_write_job *job);
