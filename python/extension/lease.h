/* SPDX-License-Identifier: Apache-2.0
 *
 * kiln.Lease: the right of one process to build a key.
 */
#ifndef KILN_PYTHON_LEASE_H
#define KILN_PYTHON_LEASE_H

#include "python.h"
#include "store_handle.h"

/* Makes the type kiln.Lease. Returns a new reference; NULL: an exception is set. */
PyObject *lease_new_type(void);

/* Makes a Lease. Takes over @lease, even if it fails, and adds a use to its store. Returns a new
 * reference; NULL: an exception is set. */
PyObject *lease_object_new(store_handle *handle, kiln_lease *lease);

#endif
