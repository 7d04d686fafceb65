/* SPDX-License-Identifier: Apache-2.0 */
#include "key.h"

#include <stdint.h>
#include <string.h>

#include <kiln/store.h>

#include "arguments.h"
#include "error.h"
#include "state.h"

#define PART_DIGEST_SIZE 32
#define SHOWN_DIGITS 12

typedef struct key_object {
    PyObject_HEAD kiln_key *key;
} key_object;

const kiln_key *key_object_key(PyObject *object)
{
    return ((key_object *)object)->key;
}

/* Takes over @key, even if it fails. */
static PyObject *wrap(PyTypeObject *type, kiln_key *key)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *object = allocate(type, 0);
    if (!object) {
        kiln_key_release(&key);
        return NULL;
    }
    ((key_object *)object)->key = key;
    return object;
}

PyObject *key_object_new(const kiln_key *key)
{
    module_state *state = state_get();
    return state ? wrap(state->key, kiln_key_retain(key)) : NULL;
}

static void deallocate(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    kiln_key_release(&((key_object *)object)->key);
    release(object);
    Py_DECREF(type);
}

/* ---- making a key ---- */

/* Returns 1 if a memoryview has one dimension of bytes; otherwise 0; -1: an exception is set. */
static int is_view_of_bytes(PyObject *view)
{
    static const char *const formats[] = {"B", "c", "<B", "<c"};
    int is_of_bytes = 0;
    PyObject *format = PyObject_GetAttrString(view, "format");
    PyObject *dimensions = format ? PyObject_GetAttrString(view, "ndim") : NULL;
    for (size_t i = 0; dimensions && i < sizeof formats / sizeof formats[0]; i++) {
        is_of_bytes |= PyUnicode_CompareWithASCIIString(format, formats[i]) == 0;
    }
    is_of_bytes = dimensions ? is_of_bytes && PyLong_AsLong(dimensions) == 1 : -1;
    Py_XDECREF(dimensions);
    Py_XDECREF(format);
    return is_of_bytes;
}

/* Returns the bytes of a value that is neither a str nor an int; NULL: an exception is set. The
 * bytes of an array do not reveal its type and shape: two different arrays could have the same
 * value, so that one would get the result of the other. */
static PyObject *bytes_of_buffer(const char *name, PyObject *value)
{
    PyObject *view = PyMemoryView_FromObject(value);
    if (!view) {
        if (PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Format(PyExc_TypeError, "part '%s': expected str, int or bytes, not %R", name,
                         Py_TYPE(value));
        }
        return NULL;
    }
    const int is_of_bytes = is_view_of_bytes(view);
    PyObject *bytes = is_of_bytes == 1 ? PyBytes_FromObject(view) : NULL;
    if (is_of_bytes == 0) {
        PyErr_Format(PyExc_TypeError,
                     "part '%s': the bytes of %R do not tell its type and shape: give int(value), "
                     "or value.tobytes() with type and shape as further parts",
                     name, Py_TYPE(value));
    }
    Py_DECREF(view);
    return bytes;
}

/* Returns the bytes of a part's value; NULL: an exception is set. */
static PyObject *bytes_of_value(const char *name, PyObject *value)
{
    if (PyUnicode_Check(value)) {
        return PyUnicode_AsUTF8String(value);
    }
    if (PyBool_Check(value)) {
        PyErr_Format(PyExc_TypeError, "part '%s': expected str, int or bytes, not a bool", name);
        return NULL;
    }
    return bytes_of_buffer(name, value);
}

static int add_number(kiln_key_builder *builder, const char *name, PyObject *value)
{
    const unsigned long long number = PyLong_AsUnsignedLongLong(value);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        PyErr_Format(PyExc_ValueError, "part '%s': expected an int from 0 to 2^64 - 1, not %R",
                     name, value);
        return 0;
    }
    kiln_key_builder_add_number(builder, name, number);
    return 1;
}

/* The builder keeps its first error, which finish returns. */
static int add_value(kiln_key_builder *builder, const char *name, PyObject *value)
{
    if (PyLong_Check(value) && !PyBool_Check(value)) {
        return add_number(builder, name, value);
    }
    PyObject *bytes = bytes_of_value(name, value);
    if (!bytes) {
        return 0;
    }
    kiln_key_builder_add(builder, name, PyBytes_AsString(bytes), (size_t)PyBytes_Size(bytes));
    Py_DECREF(bytes);
    return 1;
}

/* Returns the name of a part as a bytes object; NULL: an exception is set. */
static PyObject *bytes_of_name(PyObject *name, Py_ssize_t index)
{
    if (!PyUnicode_Check(name)) {
        PyErr_Format(PyExc_TypeError, "part %zd: expected a name of type str, not %R", index,
                     Py_TYPE(name));
        return NULL;
    }
    PyObject *bytes = PyUnicode_AsUTF8String(name);
    if (!bytes) {
        return NULL;
    }
    const char *text = PyBytes_AsString(bytes);
    const Py_ssize_t size = PyBytes_Size(bytes);
    if (size < 1 || size > 255 || strlen(text) != (size_t)size) {
        PyErr_Format(PyExc_ValueError,
                     "part %zd: a name has 1 to 255 bytes, none of them zero, unlike %R", index,
                     name);
    } else if (index == 0 && strcmp(text, KILN_REQUEST_PART) == 0) {
        PyErr_SetString(PyExc_ValueError, "part 0: the name '" KILN_REQUEST_PART
                                          "' marks the keys of capture requests");
    } else {
        return bytes;
    }
    Py_DECREF(bytes);
    return NULL;
}

static int add_part(kiln_key_builder *builder, PyObject *pair, Py_ssize_t index)
{
    if ((!PyTuple_Check(pair) && !PyList_Check(pair)) || PySequence_Size(pair) != 2) {
        PyErr_Format(PyExc_TypeError, "part %zd: expected a pair of name and value, not %R", index,
                     Py_TYPE(pair));
        return 0;
    }
    PyObject *name = PySequence_GetItem(pair, 0);
    PyObject *value = name ? PySequence_GetItem(pair, 1) : NULL;
    PyObject *name_bytes = value ? bytes_of_name(name, index) : NULL;
    const int is_added = name_bytes ? add_value(builder, PyBytes_AsString(name_bytes), value) : 0;
    Py_XDECREF(name_bytes);
    Py_XDECREF(value);
    Py_XDECREF(name);
    return is_added;
}

/* Returns the pairs of a mapping or an iterable as a tuple; NULL: an exception is set. */
static PyObject *pairs_of(PyObject *parts)
{
    if (!PyObject_HasAttrString(parts, "keys")) {
        return PySequence_Tuple(parts);
    }
    PyObject *items = PyMapping_Items(parts);
    PyObject *pairs = items ? PySequence_Tuple(items) : NULL;
    Py_XDECREF(items);
    return pairs;
}

static kiln_key *build_key(PyObject *pairs)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    kiln_status status = kiln_key_builder_new(&builder);
    int is_added = status == KILN_OK;
    for (Py_ssize_t i = 0; is_added && i < PyTuple_Size(pairs); i++) {
        is_added = add_part(builder, PyTuple_GetItem(pairs, i), i);
    }
    if (is_added) {
        status = kiln_key_builder_finish(builder, &key);
    }
    if (status != KILN_OK) {
        error_raise(status, 0, "a key of %zd parts: %s", PyTuple_Size(pairs),
                    kiln_status_text(status));
    }
    kiln_key_builder_free(&builder);
    return key;
}

static PyObject *key_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static const char *const names[] = {"parts", NULL};
    PyObject *parts;
    if (!arguments_parse(args, keywords, "O:Key", names, &parts)) {
        return NULL;
    }
    PyObject *pairs = pairs_of(parts);
    kiln_key *key = pairs ? build_key(pairs) : NULL;
    Py_XDECREF(pairs);
    return key ? wrap(type, key) : NULL;
}

/* ---- reading a key ---- */

static PyStructSequence_Field part_fields[] = {
    {"name", "the name of the part"},
    {"value", "its bytes; None if only their digest was kept"},
    {"size", "the number of its bytes, even if only their digest was kept"},
    {"digest", "their BLAKE2b-256, if only that was kept; otherwise None"},
    {NULL, NULL},
};

static PyStructSequence_Desc part_description = {
    .name = "kiln.KeyPart",
    .doc = "One part of a key.",
    .fields = part_fields,
    .n_in_sequence = 4,
};

PyObject *key_part_new_type(void)
{
    return (PyObject *)PyStructSequence_NewType(&part_description);
}

static PyObject *bytes_or_none(const void *bytes, uint64_t size)
{
    if (!bytes) {
        Py_INCREF(Py_None);
        return Py_None;
    }
    return PyBytes_FromStringAndSize(bytes, (Py_ssize_t)size);
}

static PyObject *part_object(PyTypeObject *type, const kiln_key_part *part)
{
    PyObject *object = PyStructSequence_New(type);
    if (!object) {
        return NULL;
    }
    /* An empty part may have no bytes. */
    const void *bytes = !part->bytes && !part->digest ? "" : part->bytes;
    PyStructSequence_SetItem(
        object, 0, PyUnicode_DecodeUTF8(part->name, (Py_ssize_t)strlen(part->name), "replace"));
    PyStructSequence_SetItem(object, 1, bytes_or_none(bytes, part->size));
    PyStructSequence_SetItem(object, 2, PyLong_FromUnsignedLongLong(part->size));
    PyStructSequence_SetItem(object, 3, bytes_or_none(part->digest, PART_DIGEST_SIZE));
    if (PyErr_Occurred()) {
        Py_CLEAR(object);
    }
    return object;
}

static PyObject *get_parts(PyObject *self, void *closure)
{
    (void)closure;
    const kiln_key *key = key_object_key(self);
    const size_t count = kiln_key_part_count(key);
    module_state *state = state_get();
    PyObject *parts = state ? PyTuple_New((Py_ssize_t)count) : NULL;
    for (size_t i = 0; parts && i < count; i++) {
        kiln_key_part part = {0};
        kiln_key_part_at(key, i, &part);
        PyObject *object = part_object(state->key_part, &part);
        if (!object || PyTuple_SetItem(parts, (Py_ssize_t)i, object) != 0) {
            Py_CLEAR(parts);
        }
    }
    return parts;
}

static void format_digest(PyObject *self, char text[KILN_DIGEST_TEXT_SIZE])
{
    const kiln_digest digest = kiln_key_digest(key_object_key(self));
    kiln_digest_format(&digest, text);
}

static PyObject *get_digest(PyObject *self, void *closure)
{
    (void)closure;
    char text[KILN_DIGEST_TEXT_SIZE];
    format_digest(self, text);
    return PyUnicode_FromString(text);
}

static PyObject *get_encoding(PyObject *self, void *closure)
{
    (void)closure;
    size_t size = 0;
    const char *bytes = kiln_key_encoding(key_object_key(self), &size);
    return PyBytes_FromStringAndSize(bytes, (Py_ssize_t)size);
}

static PyObject *represent(PyObject *self)
{
    char text[KILN_DIGEST_TEXT_SIZE];
    format_digest(self, text);
    text[SHOWN_DIGITS] = '\0';
    return PyUnicode_FromFormat("<kiln.Key %s, %zu parts>", text,
                                kiln_key_part_count(key_object_key(self)));
}

static PyObject *compare(PyObject *self, PyObject *other, int operation)
{
    module_state *state = state_get();
    if (!state) {
        return NULL;
    }
    if ((operation != Py_EQ && operation != Py_NE) || !PyObject_TypeCheck(self, state->key) ||
        !PyObject_TypeCheck(other, state->key)) {
        Py_INCREF(Py_NotImplemented);
        return Py_NotImplemented;
    }
    const int is_equal = kiln_key_equals(key_object_key(self), key_object_key(other));
    return PyBool_FromLong(is_equal == (operation == Py_EQ));
}

static Py_hash_t hash(PyObject *self)
{
    const kiln_digest digest = kiln_key_digest(key_object_key(self));
    Py_hash_t value;
    memcpy(&value, digest.bytes, sizeof value);
    return value == -1 ? -2 : value;
}

static PyGetSetDef properties[] = {
    {"digest", get_digest, NULL, "the digest of the key: 32 hexadecimal digits", NULL},
    {"encoding", get_encoding, NULL, "the canonical bytes of the key", NULL},
    {"parts", get_parts, NULL, "the parts, a tuple of KeyPart", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static char key_doc[] =
    "Key(parts)\n--\n\n"
    "Everything that decides what a build yields, as an ordered list of named parts.\n"
    "\n"
    "parts is a mapping, or an iterable of pairs of name and value. Their order matters,\n"
    "and an iterable may use a name more than once. A value is a str, which counts as\n"
    "its bytes in UTF-8; bytes, or an object with a buffer of bytes; or an int from 0 to\n"
    "2**64 - 1, which counts as its eight bytes, the lowest first. Other arrays are\n"
    "refused, because their bytes do not reveal their type and shape.\n"
    "\n"
    "Keys are immutable. Two keys are equal if all their parts are.";

static PyType_Slot slots[] = {
    {Py_tp_doc, key_doc},         {Py_tp_new, key_new},
    {Py_tp_dealloc, deallocate},  {Py_tp_repr, represent},
    {Py_tp_richcompare, compare}, {Py_tp_hash, hash},
    {Py_tp_getset, properties},   {0, NULL},
};

static PyType_Spec specification = {
    .name = "kiln.Key",
    .basicsize = sizeof(key_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

PyObject *key_new_type(void)
{
    return PyType_FromSpec(&specification);
}
