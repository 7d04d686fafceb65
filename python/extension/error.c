/* SPDX-License-Identifier: Apache-2.0 */
#include "error.h"

#include <stdarg.h>

#include "state.h"

PyDoc_STRVAR(error_doc, "A call of libkiln failed.\n"
                        "\n"
                        "The message names the input. status is the name of libkiln's status, such "
                        "as\n"
                        "'KILN_E_DENIED'; system_error is the errno, or 0 if there is none.");

PyObject *error_new_type(void)
{
    return PyErr_NewExceptionWithDoc("kiln.Error", error_doc, NULL, NULL);
}

/* Makes the exception. Returns a new reference; NULL: a different exception is set. */
static PyObject *make(PyObject *type, PyObject *text, kiln_status status, int system_error)
{
    PyObject *exception = PyObject_CallFunctionObjArgs(type, text, NULL);
    PyObject *name = PyUnicode_FromString(kiln_status_name(status));
    PyObject *number = PyLong_FromLong(system_error);
    if (!exception || !name || !number || PyObject_SetAttrString(exception, "status", name) != 0 ||
        PyObject_SetAttrString(exception, "system_error", number) != 0) {
        Py_CLEAR(exception);
    }
    Py_XDECREF(name);
    Py_XDECREF(number);
    return exception;
}

PyObject *error_raise(kiln_status status, int system_error, const char *format, ...)
{
    if (status == KILN_E_NO_MEMORY) {
        return PyErr_NoMemory();
    }
    module_state *state = state_get();
    if (!state) {
        return NULL;
    }
    va_list arguments;
    va_start(arguments, format);
    PyObject *text = PyUnicode_FromFormatV(format, arguments);
    va_end(arguments);
    if (!text) {
        return NULL;
    }
    PyObject *exception = make(state->error, text, status, system_error);
    Py_DECREF(text);
    if (exception) {
        PyErr_SetObject(state->error, exception);
        Py_DECREF(exception);
    }
    return NULL;
}

PyObject *error_raise_of_key(kiln_status status, const char *location, const char *what,
                             const kiln_key *key)
{
    char text[KILN_DIGEST_TEXT_SIZE];
    const kiln_digest digest = kiln_key_digest(key);
    kiln_digest_format(&digest, text);
    return error_raise(status, 0, "%s: %s %s: %s", location, what, text, kiln_status_text(status));
}
