/* SPDX-License-Identifier: Apache-2.0 */
#include "listing.h"

#include <stdlib.h>
#include <string.h>

#include <kiln/store_tools.h>

#include "error.h"
#include "state.h"

#define FIRST_CAPACITY 64

/* The texts of an item, in the order in which they are kept, each with its terminating NUL. */
enum { TEXT_NAME, TEXT_DEVICE, TEXT_TOOL, TEXT_PATH, TEXT_COUNT };

typedef struct kept_item {
    kiln_item_info info; /* its texts are no longer valid; texts has copies of them */
    char *texts;         /* TEXT_COUNT of them, one after the other */
} kept_item;

/* What a walk collects without the GIL. */
typedef struct collection {
    kept_item *items;
    size_t count, capacity;
    kiln_status failed;
} collection;

static PyStructSequence_Field item_fields[] = {
    {"digest", "the digest of the key: 32 hexadecimal digits"},
    {"state", "'ok', 'newer' or 'corrupt', as far as the beginning of the entry shows"},
    {"kind", "the kind of result, such as 'program' or 'blob'"},
    {"name", "names of kernels or of a file"},
    {"device", "platform, device and driver"},
    {"tool", "the program that made it, with its version"},
    {"bytes", "the size of the payload"},
    {"stored_bytes", "the size of the file"},
    {"build_ns", "how long the build took, in nanoseconds"},
    {"created_s", "when it was made, in Unix seconds"},
    {"last_used_s", "when it was used last, in Unix seconds"},
    {"path", "the path of its file, relative to the location; in a pack, the path of the pack"},
    {NULL, NULL},
};

PyObject *store_item_new_type(void)
{
    PyStructSequence_Desc description = {.name = "kiln.StoreItem",
                                         .doc = "What a store lists of one entry.",
                                         .fields = item_fields,
                                         .n_in_sequence = 12};
    return (PyObject *)PyStructSequence_NewType(&description);
}

/* ---- collecting, without the GIL ---- */

/* Returns copies of an item's texts; NULL if memory runs out. */
static char *copy_texts(const kiln_item_info *info)
{
    const char *const texts[TEXT_COUNT] = {info->name, info->device, info->tool, info->path};
    size_t size = 0;
    for (size_t i = 0; i < TEXT_COUNT; i++) {
        size += strlen(texts[i] ? texts[i] : "") + 1;
    }
    char *copy = malloc(size);
    char *at = copy;
    for (size_t i = 0; copy && i < TEXT_COUNT; i++) {
        at = stpcpy(at, texts[i] ? texts[i] : "") + 1;
    }
    return copy;
}

static int has_room(collection *collected)
{
    if (collected->count < collected->capacity) {
        return 1;
    }
    const size_t capacity = collected->capacity > 0 ? 2 * collected->capacity : FIRST_CAPACITY;
    kept_item *items = reallocarray(collected->items, capacity, sizeof *items);
    if (!items) {
        return 0;
    }
    collected->items = items;
    collected->capacity = capacity;
    return 1;
}

static int collect(void *user, kiln_item *item)
{
    collection *collected = user;
    kiln_item_info info = {.struct_size = sizeof info};
    if (kiln_item_get_info(item, &info) != KILN_OK) {
        return 0; /* the item was removed meanwhile, or can't be read */
    }
    char *texts = copy_texts(&info);
    if (!texts || !has_room(collected)) {
        free(texts);
        collected->failed = KILN_E_NO_MEMORY;
        return 1;
    }
    collected->items[collected->count++] = (kept_item){.info = info, .texts = texts};
    return 0;
}

/* ---- the objects ---- */

static PyObject *digest_object(const kiln_digest *digest)
{
    char text[KILN_DIGEST_TEXT_SIZE];
    kiln_digest_format(digest, text);
    return PyUnicode_FromString(text);
}

static const char *state_text(kiln_status state)
{
    return state == KILN_OK ? "ok" : state == KILN_E_VERSION ? "newer" : "corrupt";
}

static PyObject *item_object(PyTypeObject *type, const kept_item *item)
{
    PyObject *object = PyStructSequence_New(type);
    if (!object) {
        return NULL;
    }
    const kiln_item_info *info = &item->info;
    PyStructSequence_SetItem(object, 0, digest_object(&info->digest));
    PyStructSequence_SetItem(object, 1, PyUnicode_FromString(state_text(info->state)));
    PyStructSequence_SetItem(object, 2, PyUnicode_FromString(kiln_entry_kind_name(info->kind)));
    const char *text = item->texts;
    for (Py_ssize_t i = 0; i < TEXT_PATH; i++) {
        const size_t size = strlen(text);
        PyStructSequence_SetItem(object, 3 + i,
                                 PyUnicode_DecodeUTF8(text, (Py_ssize_t)size, "replace"));
        text += size + 1;
    }
    PyStructSequence_SetItem(object, 6, PyLong_FromUnsignedLongLong(info->bytes));
    PyStructSequence_SetItem(object, 7, PyLong_FromUnsignedLongLong(info->stored_bytes));
    PyStructSequence_SetItem(object, 8, PyLong_FromUnsignedLongLong(info->build_ns));
    PyStructSequence_SetItem(object, 9, PyLong_FromLongLong(info->created_s));
    PyStructSequence_SetItem(object, 10, PyLong_FromLongLong(info->last_used_s));
    PyStructSequence_SetItem(object, 11, PyUnicode_DecodeFSDefault(text));
    if (PyErr_Occurred()) {
        Py_CLEAR(object);
    }
    return object;
}

static PyObject *list_of(const collection *collected)
{
    module_state *state = state_get();
    PyObject *list = state ? PyList_New((Py_ssize_t)collected->count) : NULL;
    for (size_t i = 0; list && i < collected->count; i++) {
        PyObject *object = item_object(state->store_item, &collected->items[i]);
        if (!object || PyList_SetItem(list, (Py_ssize_t)i, object) != 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

PyObject *listing_of_store(store_handle *handle)
{
    collection collected = {.failed = KILN_OK};
    kiln_status status;
    Py_BEGIN_ALLOW_THREADS
    status = kiln_store_each(handle->store, collect, &collected);
    Py_END_ALLOW_THREADS
    if (status == KILN_OK) {
        status = collected.failed;
    }
    PyObject *list = status == KILN_OK ? list_of(&collected)
                                       : error_raise(status, 0, "%s: list: %s", handle->location,
                                                     kiln_status_text(status));
    for (size_t i = 0; i < collected.count; i++) {
        free(collected.items[i].texts);
    }
    free(collected.items);
    return list;
}
