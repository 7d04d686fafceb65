/* SPDX-License-Identifier: Apache-2.0 */
#include "prefetch.h"

#include <stdlib.h>

#include "request.h"

/* Gets tickets for the keys that memory lacks, and moves these keys to the beginning of the list.
 * Returns their number. */
static size_t take_tickets(const prefetch *work, kiln_ticket **tickets)
{
    const kiln_reserve_params params = {.struct_size = sizeof params, .wait_ns = KILN_NO_WAIT};
    size_t count = 0;
    for (size_t i = 0; i < work->wanted->count; i++) {
        kiln_reservation answer = {0};
        const kiln_key *key = work->wanted->keys[i];
        if (kiln_cache_reserve(work->memory, key, &params, &answer, NULL) != KILN_OK) {
            continue;
        }
        kiln_pin_release(&answer.pin);
        if (answer.ticket) {
            work->wanted->keys[count] = key;
            tickets[count++] = answer.ticket;
        }
    }
    return count;
}

/* The ticket of a key that was not found passes to a thread that waits for it. */
static void take_entry(prefetch *work, size_t index, kiln_ticket *ticket)
{
    kiln_entry *entry = work->wanted->entries[index];
    const kiln_status status = work->wanted->statuses[index];
    if (!entry) {
        work->corrupt += status == KILN_E_CORRUPT || status == KILN_E_UNAUTHENTICATED ? 1 : 0;
        kiln_ticket_abandon(&ticket, KILN_ABANDON_TRANSIENT, KILN_OK, NULL);
        return;
    }
    work->wanted->entries[index] = NULL;
    work->counted.hits_store++;
    work->counted.saved_ns += kiln_entry_provenance(entry).build_ns;
    kiln_ticket_fulfil(&ticket, entry, kiln_entry_encoding(entry).size, request_reload_cost(entry),
                       NULL);
}

int prefetch_run(prefetch *work)
{
    kiln_ticket **tickets = calloc(work->wanted->count + 1, sizeof *tickets);
    if (!tickets) {
        PyErr_NoMemory();
        return 0;
    }
    const size_t count = take_tickets(work, tickets);
    Py_BEGIN_ALLOW_THREADS
    kiln_store_get_many(work->handle->store, work->wanted->keys, count, work->wanted->entries,
                        work->wanted->statuses);
    Py_END_ALLOW_THREADS
    for (size_t i = 0; i < count; i++) {
        take_entry(work, i, tickets[i]);
    }
    free(tickets);
    return 1;
}
