/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts Python arguments to C values.
 */
#ifndef KILN_PYTHON_ARGUMENTS_H
#define KILN_PYTHON_ARGUMENTS_H

#include <stdint.h>

#include "python.h"

/* Does what PyArg_ParseTupleAndKeywords does.
 *
 * @names  of the arguments, terminated by NULL
 * Returns 1; 0: an exception is set. */
int arguments_parse(PyObject *args, PyObject *keywords, const char *format,
                    const char *const *names, ...);

/* Returns the bytes of an object that has a buffer: a new reference to a bytes object, which is the
 * object itself if it is a bytes object. NULL: an exception is set.
 *
 * @what  names the argument in the message */
PyObject *arguments_bytes(PyObject *object, const char *what);

/* Returns the encoded path or text of a store's location: a new reference to a bytes object without
 * zero bytes. NULL: an exception is set. */
PyObject *arguments_location(PyObject *object);

/* Reads a number of seconds, which must not be negative, as nanoseconds. More than 9e9 seconds, and
 * infinity, become UINT64_MAX.
 *
 * @what  names the argument in the message
 * Returns 1; 0: an exception is set. */
int arguments_seconds(PyObject *object, const char *what, uint64_t *ret_ns);

/* A converter for the format "O&": reads an int from 0 to 2^64 - 1, in nanoseconds, into an
 * unsigned long long. Returns 1; 0: an exception is set. */
int arguments_nanoseconds(PyObject *object, void *ret_ns);

/* Reads a size: a positive integer. None becomes 0, which is libkiln's default.
 *
 * @what  names the argument in the message
 * Returns 1; 0: an exception is set. */
int arguments_size(PyObject *object, const char *what, uint64_t *ret_size);

#endif
