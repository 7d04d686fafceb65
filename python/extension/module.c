/* SPDX-License-Identifier: Apache-2.0
 *
 * kiln._kiln: the types of the package kiln. They wrap libkiln's objects.
 */
#include <kiln/version.h>

#include "cache.h"
#include "entry.h"
#include "error.h"
#include "key.h"
#include "lease.h"
#include "listing.h"
#include "state.h"
#include "stats.h"
#include "store.h"

/* Adds an object under its own name. Takes over the reference. Returns 1; 0: an exception is set.
 */
static int add(PyObject *module, const char *name, PyObject *object)
{
    /* PyModule_AddObject takes the reference over only if it succeeds. */
    if (object && PyModule_AddObject(module, name, object) != 0) {
        Py_CLEAR(object);
    }
    return object != NULL;
}

/* Makes a type, and adds it to the module. Returns the state's reference; NULL: an exception is
 * set. */
static PyTypeObject *add_type(PyObject *module, const char *name, PyObject *type)
{
    Py_XINCREF(type);
    if (!add(module, name, type)) {
        Py_CLEAR(type);
    }
    return (PyTypeObject *)type;
}

static int add_all(PyObject *module)
{
    module_state *state = state_of_module(module);
    state->error = error_new_type();
    Py_XINCREF(state->error);
    return add(module, "Error", state->error) &&
           (state->key = add_type(module, "Key", key_new_type())) &&
           (state->key_part = add_type(module, "KeyPart", key_part_new_type())) &&
           (state->entry = add_type(module, "Entry", entry_new_type())) &&
           (state->store = add_type(module, "Store", store_new_type())) &&
           (state->store_item = add_type(module, "StoreItem", store_item_new_type())) &&
           (state->store_stat = add_type(module, "StoreStat", store_stat_new_type())) &&
           (state->lease = add_type(module, "Lease", lease_new_type())) &&
           (state->cache = add_type(module, "Cache", cache_new_type())) &&
           (state->cache_stat = add_type(module, "CacheStat", cache_stat_new_type())) &&
           (state->stats = add_type(module, "Stats", stats_new_type())) &&
           PyModule_AddStringConstant(module, "__version__", KILN_VERSION) == 0;
}

PyMODINIT_FUNC PyInit__kiln(void);

PyMODINIT_FUNC PyInit__kiln(void)
{
    PyObject *module = state_new_module();
    if (module && !add_all(module)) {
        Py_CLEAR(module);
    }
    return module;
}
