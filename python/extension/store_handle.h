/* SPDX-License-Identifier: Apache-2.0
 *
 * An open store. It is closed once nothing uses it: neither a Store object, nor a lease, nor a call
 * that is running without the GIL. The caller of each function must hold the GIL.
 */
#ifndef KILN_PYTHON_STORE_HANDLE_H
#define KILN_PYTHON_STORE_HANDLE_H

#include <stddef.h>

#include <kiln/journal.h>
#include <kiln/store.h>

#include "python.h"

typedef struct store_handle {
    kiln_store *store;
    char *location;    /* for messages */
    char *stats_file;  /* KILN_STATS, to which counters are added too; NULL: there is none */
    char *record_file; /* KILN_RECORD, to which events are added too; NULL: there is none */
    size_t uses;
} store_handle;

/* Opens a store. Returns a handle with one use; NULL: an exception is set. */
store_handle *store_handle_open(const char *location, const kiln_store_params *params);

/* Adds to the totals of the store, if it keeps any, and to the file of counters.
 *
 * @counted   what the store does not count itself
 * @by_store  what it does; added to the file only */
void store_handle_count(store_handle *handle, const kiln_stats *counted,
                        const kiln_stats *by_store);

/* Adds an event to the journal of the store, if it keeps one, and to the file of events. */
void store_handle_note(store_handle *handle, const kiln_journal_event *event);

/* Adds a use, and returns its argument. */
store_handle *store_handle_use(store_handle *handle);

/* Ends a use. The last one closes the store, without the GIL. NULL is allowed. */
void store_handle_release(store_handle *handle);

#endif
