/* SPDX-License-Identifier: Apache-2.0
 *
 * Statuses of libkiln as exceptions.
 */
#ifndef KILN_PYTHON_ERROR_H
#define KILN_PYTHON_ERROR_H

#include <kiln/key.h>
#include <kiln/status.h>

#include "python.h"

/* Makes the type kiln.Error. Returns a new reference; NULL: an exception is set. */
PyObject *error_new_type(void);

/* Raises kiln.Error, or MemoryError for KILN_E_NO_MEMORY. Returns NULL.
 *
 * @system_error  errno, or 0
 * @format        of the message, which names the input; as for PyUnicode_FromFormat */
PyObject *error_raise(kiln_status status, int system_error, const char *format, ...);

/* Raises the status that a call on one key of a store returned.
 *
 * @location  of the store
 * @what      what was tried, such as "put" */
PyObject *error_raise_of_key(kiln_status status, const char *location, const char *what,
                             const kiln_key *key);

#endif
