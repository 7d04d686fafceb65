/* SPDX-License-Identifier: Apache-2.0 */
#include "entry.h"

#include <string.h>

#include "arguments.h"
#include "error.h"
#include "key.h"
#include "state.h"

/* Python's headers offer the slot, the structure and its flags to the limited API only from 3.11
 * on. Types can have the slot from 3.9 on, and the values and the layout have been the same in all
 * versions since. */
#define SLOT_GET_BUFFER 1
#define BUFFER_WRITABLE 0x0001
#define BUFFER_FORMAT 0x0004
#define BUFFER_SHAPE 0x0008
#define BUFFER_STRIDES (0x0010 | BUFFER_SHAPE)

typedef struct buffer_view {
    void *bytes;
    PyObject *object;
    Py_ssize_t size, item_size;
    int readonly, dimensions;
    char *format;
    Py_ssize_t *shape, *strides, *suboffsets;
    void *internal;
} buffer_view;

typedef struct entry_object {
    PyObject_HEAD kiln_entry *entry;
} entry_object;

const kiln_entry *entry_object_entry(PyObject *object)
{
    return ((entry_object *)object)->entry;
}

/* Takes over @entry, even if it fails. */
static PyObject *wrap(PyTypeObject *type, kiln_entry *entry)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *object = allocate(type, 0);
    if (!object) {
        kiln_entry_release(&entry);
        return NULL;
    }
    ((entry_object *)object)->entry = entry;
    return object;
}

PyObject *entry_object_new(kiln_entry *entry)
{
    module_state *state = state_get();
    if (!state) {
        kiln_entry_release(&entry);
        return NULL;
    }
    return wrap(state->entry, entry);
}

static void deallocate(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    kiln_entry_release(&((entry_object *)object)->entry);
    release(object);
    Py_DECREF(type);
}

kiln_entry *entry_make(const kiln_entry_params *params)
{
    kiln_entry *entry = NULL;
    kiln_status status;
    Py_BEGIN_ALLOW_THREADS
    status = kiln_entry_new(params, &entry);
    Py_END_ALLOW_THREADS
    if (status != KILN_OK) {
        error_raise(status, 0, "an entry '%s' with a payload of %zu bytes: %s",
                    params->provenance.name ? params->provenance.name : "", params->payload.size,
                    kiln_status_text(status));
    }
    return entry;
}

static kiln_bytes bytes_of(PyObject *bytes)
{
    return (kiln_bytes){PyBytes_AsString(bytes), (size_t)PyBytes_Size(bytes)};
}

static PyObject *entry_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static const char *const names[] = {"key",      "payload", "name",     "device", "tool",
                                        "metadata", "log",     "build_ns", NULL};
    module_state *state = state_get();
    PyObject *key, *payload, *metadata = NULL;
    const char *name = "", *device = "", *tool = NULL, *log = "";
    unsigned long long build_ns = 0;
    if (!state || !arguments_parse(args, keywords, "O!O|$sszOsO&:Entry", names, state->key, &key,
                                   &payload, &name, &device, &tool, &metadata, &log,
                                   arguments_nanoseconds, &build_ns)) {
        return NULL;
    }
    PyObject *payload_bytes = arguments_bytes(payload, "payload");
    PyObject *metadata_bytes = !payload_bytes ? NULL
                               : metadata     ? arguments_bytes(metadata, "metadata")
                                              : PyBytes_FromStringAndSize("", 0);
    kiln_entry *entry = NULL;
    if (metadata_bytes) {
        const kiln_entry_params params = {
            .struct_size = sizeof params,
            .key = key_object_key(key),
            .kind = KILN_ENTRY_BLOB,
            .provenance = {.struct_size = sizeof params.provenance,
                           .tool = tool,
                           .device = device,
                           .name = name,
                           .build_ns = build_ns},
            .answers = bytes_of(metadata_bytes),
            .log = {log, strlen(log)},
            .payload = bytes_of(payload_bytes),
        };
        entry = entry_make(&params);
    }
    Py_XDECREF(metadata_bytes);
    Py_XDECREF(payload_bytes);
    return entry ? wrap(type, entry) : NULL;
}

/* ---- the payload's buffer ---- */

/* Does what PyBuffer_FillInfo does. The view keeps the Entry alive, and the Entry keeps its bytes
 * alive. */
static int get_buffer(PyObject *self, buffer_view *view, int flags)
{
    static char unsigned_bytes[] = "B", nothing[1];
    if (flags & BUFFER_WRITABLE) {
        view->object = NULL;
        PyErr_SetString(PyExc_BufferError, "the payload of an Entry is read-only");
        return -1;
    }
    const kiln_bytes payload = kiln_entry_payload(entry_object_entry(self));
    union {
        const void *given;
        void *taken;
    } bytes = {.given = payload.size > 0 ? payload.data : nothing};
    Py_INCREF(self);
    *view = (buffer_view){
        .bytes = bytes.taken,
        .object = self,
        .size = (Py_ssize_t)payload.size,
        .item_size = 1,
        .readonly = 1,
        .dimensions = 1,
        .format = flags & BUFFER_FORMAT ? unsigned_bytes : NULL,
    };
    view->shape = (flags & BUFFER_SHAPE) == BUFFER_SHAPE ? &view->size : NULL;
    view->strides = (flags & BUFFER_STRIDES) == BUFFER_STRIDES ? &view->item_size : NULL;
    return 0;
}

/* ---- properties ---- */

static PyObject *text_object(const char *text)
{
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

static PyObject *get_key(PyObject *self, void *closure)
{
    (void)closure;
    return key_object_new(kiln_entry_key(entry_object_entry(self)));
}

static PyObject *get_kind(PyObject *self, void *closure)
{
    (void)closure;
    return text_object(kiln_entry_kind_name(kiln_entry_kind_of(entry_object_entry(self))));
}

static PyObject *get_name(PyObject *self, void *closure)
{
    (void)closure;
    return text_object(kiln_entry_provenance(entry_object_entry(self)).name);
}

static PyObject *get_device(PyObject *self, void *closure)
{
    (void)closure;
    return text_object(kiln_entry_provenance(entry_object_entry(self)).device);
}

static PyObject *get_tool(PyObject *self, void *closure)
{
    (void)closure;
    return text_object(kiln_entry_provenance(entry_object_entry(self)).tool);
}

static PyObject *get_build_ns(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromUnsignedLongLong(kiln_entry_provenance(entry_object_entry(self)).build_ns);
}

static PyObject *get_created_s(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromLongLong(kiln_entry_provenance(entry_object_entry(self)).created_s);
}

static PyObject *get_payload(PyObject *self, void *closure)
{
    (void)closure;
    return PyMemoryView_FromObject(self);
}

static PyObject *get_metadata(PyObject *self, void *closure)
{
    (void)closure;
    const kiln_bytes bytes = kiln_entry_answers(entry_object_entry(self));
    return PyBytes_FromStringAndSize(bytes.data, (Py_ssize_t)bytes.size);
}

static PyObject *get_log(PyObject *self, void *closure)
{
    (void)closure;
    const kiln_bytes text = kiln_entry_log(entry_object_entry(self));
    return PyUnicode_DecodeUTF8(text.size > 0 ? text.data : "", (Py_ssize_t)text.size, "replace");
}

static PyObject *get_is_signed(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong(kiln_entry_is_signed(entry_object_entry(self)));
}

static PyObject *represent(PyObject *self)
{
    const kiln_entry *entry = entry_object_entry(self);
    PyObject *name = get_name(self, NULL);
    if (!name) {
        return NULL;
    }
    PyObject *text =
        PyUnicode_FromFormat("<kiln.Entry %R, %zu bytes>", name, kiln_entry_payload(entry).size);
    Py_DECREF(name);
    return text;
}

static PyGetSetDef properties[] = {
    {"key", get_key, NULL, "the key, a Key", NULL},
    {"kind", get_kind, NULL, "the kind of result, such as 'program' or 'blob'", NULL},
    {"name", get_name, NULL, "names of kernels or of a file, for people", NULL},
    {"device", get_device, NULL, "platform, device and driver, for people", NULL},
    {"tool", get_tool, NULL, "the program that made it, with its version", NULL},
    {"build_ns", get_build_ns, NULL, "how long the build took, in nanoseconds", NULL},
    {"created_s", get_created_s, NULL, "when it was made, in Unix seconds", NULL},
    {"payload", get_payload, NULL,
     "the bytes that were built: a read-only memoryview, not a copy. It keeps the Entry alive.",
     NULL},
    {"metadata", get_metadata, NULL, "facts about the build that the payload does not contain",
     NULL},
    {"log", get_log, NULL, "the build log", NULL},
    {"is_signed", get_is_signed, NULL, "whether it is signed with a signing key, no matter which",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static char entry_doc[] =
    "Entry(key, payload, *, name='', device='', tool=None, metadata=b'', log='', build_ns=0)\n"
    "--\n\n"
    "One stored result, of the kind 'blob': its key, the bytes that were built, and where they\n"
    "came from.\n"
    "\n"
    "payload and metadata are bytes, or objects with a buffer, and are copied. build_ns is what\n"
    "the build cost, in nanoseconds: a full store keeps what is expensive to build. tool is the\n"
    "program that made it; None is this library.\n"
    "\n"
    "An Entry is immutable, and has the read-only buffer of its payload: bytes(entry) copies\n"
    "the payload, and memoryview(entry) does not.";

static PyType_Slot slots[] = {
    {Py_tp_doc, entry_doc},
    {Py_tp_new, entry_new},
    {Py_tp_dealloc, deallocate},
    {Py_tp_repr, represent},
    {Py_tp_getset, properties},
    {SLOT_GET_BUFFER, get_buffer},
    {0, NULL},
};

static PyType_Spec specification = {
    .name = "kiln.Entry",
    .basicsize = sizeof(entry_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

PyObject *entry_new_type(void)
{
    return PyType_FromSpec(&specification);
}
