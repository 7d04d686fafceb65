/* SPDX-License-Identifier: Apache-2.0 */
#include "arguments.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#define NS_PER_S 1e9
#define MOST_SECONDS 9e9 /* about 285 years, as nanoseconds less than 2^63 */

int arguments_parse(PyObject *args, PyObject *keywords, const char *format,
                    const char *const *names, ...)
{
    /* Python does not write to this array, but has declared that only since 3.13. */
    const union {
        const char *const *given;
        char **taken;
    } list = {.given = names};
    va_list values;
    va_start(values, names);
    const int is_parsed = PyArg_VaParseTupleAndKeywords(args, keywords, format, list.taken, values);
    va_end(values);
    return is_parsed;
}

PyObject *arguments_bytes(PyObject *object, const char *what)
{
    if (PyBytes_CheckExact(object)) {
        Py_INCREF(object);
        return object;
    }
    /* PyBytes_FromObject would also take a list of numbers. */
    PyObject *view = PyMemoryView_FromObject(object);
    if (!view) {
        if (PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Format(PyExc_TypeError, "%s: expected bytes or an object with a buffer, not %R",
                         what, Py_TYPE(object));
        }
        return NULL;
    }
    PyObject *bytes = PyBytes_FromObject(view);
    Py_DECREF(view);
    return bytes;
}

/* pathlib removes the "./" of a relative path, by which libkiln distinguishes such a path from a
 * typing error. A vertical bar would turn the path into a chain. */
static PyObject *location_of_path(PyObject *path)
{
    char *text = PyBytes_AsString(path);
    if (!text) {
        return NULL;
    }
    if (strchr(text, '|')) {
        PyErr_Format(PyExc_ValueError,
                     "%s: a path with a '|' must be given as a URL, such as file:///a%%7Cb", text);
        return NULL;
    }
    return text[0] == '/' || text[0] == '.' ? PyBytes_FromString(text)
                                            : PyBytes_FromFormat("./%s", text);
}

PyObject *arguments_location(PyObject *object)
{
    const bool is_path = !PyUnicode_Check(object) && !PyBytes_Check(object);
    PyObject *bytes = NULL;
    char *text;
    /* This call refuses zero bytes. */
    if (!PyUnicode_FSConverter(object, &bytes) || PyBytes_AsStringAndSize(bytes, &text, NULL) < 0) {
        Py_XDECREF(bytes);
        return NULL;
    }
    if (!is_path) {
        return bytes;
    }
    PyObject *location = location_of_path(bytes);
    Py_DECREF(bytes);
    return location;
}

int arguments_seconds(PyObject *object, const char *what, uint64_t *ret_ns)
{
    const double seconds = PyFloat_AsDouble(object);
    if (seconds == -1.0 && PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Format(PyExc_TypeError, "%s: expected a number of seconds, not %R", what,
                         Py_TYPE(object));
        }
        return 0;
    }
    if (isnan(seconds) || seconds < 0) {
        PyErr_Format(PyExc_ValueError,
                     "%s: expected a number of seconds that is not negative, "
                     "not %R",
                     what, object);
        return 0;
    }
    *ret_ns = seconds > MOST_SECONDS ? UINT64_MAX : (uint64_t)(seconds * NS_PER_S);
    return 1;
}

int arguments_nanoseconds(PyObject *object, void *ret_ns)
{
    const unsigned long long ns = PyLong_AsUnsignedLongLong(object);
    if (PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_OverflowError)) {
            PyErr_Format(PyExc_ValueError, "build_ns: expected an int from 0 to 2^64 - 1, not %R",
                         object);
        }
        return 0;
    }
    *(unsigned long long *)ret_ns = ns;
    return 1;
}

int arguments_size(PyObject *object, const char *what, uint64_t *ret_size)
{
    if (object == Py_None) {
        *ret_size = 0;
        return 1;
    }
    if (!PyLong_Check(object) || PyBool_Check(object)) {
        PyErr_Format(PyExc_TypeError, "%s: expected a positive int or None, not %R", what,
                     Py_TYPE(object));
        return 0;
    }
    const unsigned long long size = PyLong_AsUnsignedLongLong(object);
    if (size == 0 || PyErr_Occurred()) {
        PyErr_Clear();
        PyErr_Format(PyExc_ValueError, "%s: expected an int from 1 to 2^64 - 1, not %R", what,
                     object);
        return 0;
    }
    *ret_size = size;
    return 1;
}
