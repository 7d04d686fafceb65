/* SPDX-License-Identifier: Apache-2.0
 *
 * kiln.StoreItem: what a store lists.
 */
#ifndef KILN_PYTHON_LISTING_H
#define KILN_PYTHON_LISTING_H

#include "python.h"
#include "store_handle.h"

/* Makes the type kiln.StoreItem. Returns a new reference; NULL: an exception is set. */
PyObject *store_item_new_type(void);

/* Walks through a store without the GIL. Returns a list of StoreItem; NULL: an exception is set. */
PyObject *listing_of_store(store_handle *handle);

#endif
