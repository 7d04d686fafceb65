/* SPDX-License-Identifier: Apache-2.0
 *
 * kiln.Entry: one stored result.
 */
#ifndef KILN_PYTHON_ENTRY_H
#define KILN_PYTHON_ENTRY_H

#include <kiln/entry.h>

#include "python.h"

/* Makes the type kiln.Entry. Returns a new reference; NULL: an exception is set. */
PyObject *entry_new_type(void);

/* Makes an Entry. Takes over @entry, even if it fails. Returns a new reference; NULL: an exception
 * is set. */
PyObject *entry_object_new(kiln_entry *entry);

/* Returns the entry of an object, which must be an Entry. It is valid as long as the object is. */
const kiln_entry *entry_object_entry(PyObject *object);

/* Copies the parameters into a new entry, without the GIL. Returns NULL: an exception is set. */
kiln_entry *entry_make(const kiln_entry_params *params);

#endif
