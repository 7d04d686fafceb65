/* SPDX-License-Identifier: Apache-2.0
 *
 * The types of the module. Each interpreter of a process has its own module, and therefore its own
 * types.
 */
#ifndef KILN_PYTHON_STATE_H
#define KILN_PYTHON_STATE_H

#include "python.h"

/* X(name): the types that the module makes, in the order in which it makes them. */
#define STATE_TYPES(X)                                                                             \
    X(key)                                                                                         \
    X(key_part)                                                                                    \
    X(entry)                                                                                       \
    X(store)                                                                                       \
    X(store_item)                                                                                  \
    X(store_stat)                                                                                  \
    X(lease)                                                                                       \
    X(cache)                                                                                       \
    X(cache_stat)                                                                                  \
    X(stats)

typedef struct module_state {
    PyObject *error; /* kiln.Error */
#define STATE_FIELD(name) PyTypeObject *name;
    STATE_TYPES(STATE_FIELD)
#undef STATE_FIELD
} module_state;

/* Makes an empty module. Returns a new reference; NULL: an exception is set. */
PyObject *state_new_module(void);

/* Returns the state of a module that state_new_module made. */
module_state *state_of_module(PyObject *module);

/* Raises RuntimeError, because the interpreter is ending. */
void state_raise_ending(void);

/* Returns the state of the module in the calling interpreter. NULL: an exception is set, because
 * the interpreter is ending. */
module_state *state_get(void);

#endif
