/* SPDX-License-Identifier: Apache-2.0 */
#include "key_list.h"

#include <stdlib.h>

#include "key.h"
#include "state.h"

/* Returns 1; 0: an exception is set. */
static int read_key(const key_list *list, size_t index)
{
    module_state *state = state_get();
    PyObject *object = PyList_GetItem(list->objects, (Py_ssize_t)index);
    if (!state || !object) {
        return 0;
    }
    if (!PyObject_TypeCheck(object, state->key)) {
        PyErr_Format(PyExc_TypeError, "keys: expected a kiln.Key, not %R", Py_TYPE(object));
        return 0;
    }
    list->keys[index] = key_object_key(object);
    return 1;
}

int key_list_read(PyObject *iterable, key_list *ret_list)
{
    *ret_list = (key_list){.objects = PySequence_List(iterable)};
    if (!ret_list->objects) {
        return 0;
    }
    const size_t count = (size_t)PyList_Size(ret_list->objects);
    ret_list->keys = calloc(count + 1, sizeof *ret_list->keys);
    ret_list->entries = calloc(count + 1, sizeof *ret_list->entries);
    ret_list->statuses = calloc(count + 1, sizeof *ret_list->statuses);
    if (!ret_list->keys || !ret_list->entries || !ret_list->statuses) {
        PyErr_NoMemory();
        return 0;
    }
    ret_list->count = count;
    for (size_t i = 0; i < count; i++) {
        if (!read_key(ret_list, i)) {
            return 0;
        }
    }
    return 1;
}

void key_list_done(key_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        kiln_entry_release(&list->entries[i]);
    }
    free(list->keys);
    free(list->entries);
    free(list->statuses);
    Py_CLEAR(list->objects);
}
