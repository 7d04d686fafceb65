/* SPDX-License-Identifier: Apache-2.0
 *
 * kiln.Store: entries that outlive the process.
 */
#ifndef KILN_PYTHON_STORE_H
#define KILN_PYTHON_STORE_H

#include "python.h"
#include "store_handle.h"

/* Makes the type kiln.Store. Returns a new reference; NULL: an exception is set. */
PyObject *store_new_type(void);

/* Adds a use to the store of an object, which must be a Store. Returns the handle, to be released;
 * NULL: an exception is set, because the store is closed. */
store_handle *store_object_use(PyObject *object);

#endif
