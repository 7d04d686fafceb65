/* SPDX-License-Identifier: Apache-2.0
 *
 * kiln.Key: a key, made of named parts.
 */
#ifndef KILN_PYTHON_KEY_H
#define KILN_PYTHON_KEY_H

#include <kiln/key.h>

#include "python.h"

/* Make the types kiln.Key and kiln.KeyPart. Return a new reference; NULL: an exception is set. */
PyObject *key_new_type(void);
PyObject *key_part_new_type(void);

/* Makes a Key that retains @key. Returns a new reference; NULL: an exception is set. */
PyObject *key_object_new(const kiln_key *key);

/* Returns the key of an object, which must be a Key. It is valid as long as the object is. */
const kiln_key *key_object_key(PyObject *object);

#endif
