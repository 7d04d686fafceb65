/* SPDX-License-Identifier: Apache-2.0
 *
 * kiln.Cache: entries in memory, over a store.
 */
#ifndef KILN_PYTHON_CACHE_H
#define KILN_PYTHON_CACHE_H

#include "python.h"

/* Makes the type kiln.Cache. Returns a new reference; NULL: an exception is set. */
PyObject *cache_new_type(void);

#endif
