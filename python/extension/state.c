/* SPDX-License-Identifier: Apache-2.0 */
#include "state.h"

PyDoc_STRVAR(module_doc, "The types of the package kiln.");

static int traverse(PyObject *module, visitproc visit, void *arg)
{
    module_state *state = PyModule_GetState(module);
    Py_VISIT(state->error);
#define VISIT_TYPE(name) Py_VISIT(state->name);
    STATE_TYPES(VISIT_TYPE)
#undef VISIT_TYPE
    return 0;
}

static int clear(PyObject *module)
{
    module_state *state = PyModule_GetState(module);
    Py_CLEAR(state->error);
#define CLEAR_TYPE(name) Py_CLEAR(state->name);
    STATE_TYPES(CLEAR_TYPE)
#undef CLEAR_TYPE
    return 0;
}

static void free_state(void *module)
{
    clear(module);
}

/* The module is initialized in one phase, because with the limited API of 3.9 a method can find the
 * state only of such a module. The state belongs to one interpreter. Interpreters with a GIL of
 * their own refuse to import the module. */
static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "kiln._kiln",
    .m_doc = module_doc,
    .m_size = sizeof(module_state),
    .m_traverse = traverse,
    .m_clear = clear,
    .m_free = free_state,
};

PyObject *state_new_module(void)
{
    return PyModule_Create(&definition);
}

module_state *state_of_module(PyObject *module)
{
    return PyModule_GetState(module);
}

void state_raise_ending(void)
{
    PyErr_SetString(PyExc_RuntimeError, "kiln cannot be used while the interpreter is ending");
}

module_state *state_get(void)
{
    PyObject *module = PyState_FindModule(&definition);
    module_state *state = module ? PyModule_GetState(module) : NULL;
    /* A module that was cleared has no types. */
    if (!state || !state->stats) {
        state_raise_ending();
        return NULL;
    }
    return state;
}
