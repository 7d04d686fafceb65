/* SPDX-License-Identifier: Apache-2.0
 *
 * Several keys that are passed in one call.
 */
#ifndef KILN_PYTHON_KEY_LIST_H
#define KILN_PYTHON_KEY_LIST_H

#include <stddef.h>

#include <kiln/entry.h>
#include <kiln/key.h>

#include "python.h"

typedef struct key_list {
    PyObject *objects; /* a list of Key, which keeps the keys alive */
    size_t count;
    const kiln_key **keys;
    /* For the answers of kiln_store_get_many. */
    kiln_entry **entries;
    kiln_status *statuses;
} key_list;

/* Reads an iterable of Key. The caller must call key_list_done, also on failure. Returns 1; 0: an
 * exception is set. */
int key_list_read(PyObject *iterable, key_list *ret_list);

/* Frees what the list holds, and releases the entries. */
void key_list_done(key_list *list);

#endif
