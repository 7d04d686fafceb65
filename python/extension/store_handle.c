/* SPDX-License-Identifier: Apache-2.0 */
#include "store_handle.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "stats.h"

store_handle *store_handle_open(const char *location, const kiln_store_params *params)
{
    store_handle *handle = calloc(1, sizeof *handle);
    char *copy = strdup(location);
    kiln_error error = {.struct_size = sizeof error};
    kiln_status status = KILN_E_NO_MEMORY;
    if (handle && copy) {
        *handle = (store_handle){.location = copy, .uses = 1};
        Py_BEGIN_ALLOW_THREADS
        status = kiln_store_open(copy, params, &handle->store, &error);
        Py_END_ALLOW_THREADS
    }
    if (status == KILN_OK) {
        return handle;
    }
    const char *text = error.text[0] ? error.text : kiln_status_text(status);
    /* libkiln's text names the location in most cases, but not always. */
    const bool is_named = strstr(text, location) != NULL;
    error_raise(status, error.system_error, "%s%s%s", is_named ? "" : location,
                is_named ? "" : ": ", text);
    free(copy);
    free(handle);
    return NULL;
}

void store_handle_count(store_handle *handle, const kiln_stats *counted, const kiln_stats *by_store)
{
    const kiln_stats delta = *counted;
    kiln_stats all = *by_store;
    stats_add(&all, counted);
    Py_BEGIN_ALLOW_THREADS
    kiln_store_add_stats(handle->store, &delta);
    if (handle->stats_file) {
        kiln_stats_add_to_file(handle->stats_file, &all);
    }
    Py_END_ALLOW_THREADS
}

void store_handle_note(store_handle *handle, const kiln_journal_event *event)
{
    Py_BEGIN_ALLOW_THREADS
    kiln_store_add_journal_event(handle->store, event);
    if (handle->record_file) {
        kiln_journal_add_to_file(handle->record_file, event);
    }
    Py_END_ALLOW_THREADS
}

store_handle *store_handle_use(store_handle *handle)
{
    handle->uses++;
    return handle;
}

void store_handle_release(store_handle *handle)
{
    if (!handle || --handle->uses > 0) {
        return;
    }
    Py_BEGIN_ALLOW_THREADS
    kiln_store_close(&handle->store);
    Py_END_ALLOW_THREADS
    free(handle->location);
    free(handle->stats_file);
    free(handle->record_file);
    free(handle);
}
