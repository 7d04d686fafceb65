/* SPDX-License-Identifier: Apache-2.0 */
#include "store.h"

#include <string.h>

#include <kiln/config.h>

#include "arguments.h"
#include "entry.h"
#include "error.h"
#include "key.h"
#include "key_list.h"
#include "lease.h"
#include "listing.h"
#include "state.h"
#include "stats.h"
#include "wait.h"

typedef struct store_object {
    PyObject_HEAD store_handle *handle; /* NULL: the store is closed */
    PyObject *location;                 /* a str */
} store_object;

store_handle *store_object_use(PyObject *object)
{
    const store_object *self = (store_object *)object;
    if (!self->handle) {
        PyErr_Format(PyExc_ValueError, "%U: the store is closed", self->location);
        return NULL;
    }
    return store_handle_use(self->handle);
}

/* ---- opening and closing ---- */

static void close_store(store_object *self)
{
    store_handle *handle = self->handle;
    self->handle = NULL;
    store_handle_release(handle);
}

static void deallocate(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    close_store((store_object *)object);
    Py_CLEAR(((store_object *)object)->location);
    free_object(object);
    Py_DECREF(type);
}

static PyObject *open_store(PyTypeObject *type, const char *location,
                            const kiln_store_params *params)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    store_object *self = (store_object *)allocate(type, 0);
    if (!self) {
        return NULL;
    }
    self->location = PyUnicode_DecodeFSDefault(location);
    self->handle = self->location ? store_handle_open(location, params) : NULL;
    if (!self->handle) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static PyObject *store_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static const char *const names[] = {"location", "max_bytes", "readonly",
                                        "create",   "key_file",  NULL};
    PyObject *place, *max_bytes = Py_None, *key_file = Py_None;
    int is_readonly = 0, creates = 1;
    kiln_store_params params = {.struct_size = sizeof params};
    if (!arguments_parse(args, keywords, "O|$OppO:Store", names, &place, &max_bytes, &is_readonly,
                         &creates, &key_file) ||
        !arguments_size(max_bytes, "max_bytes", &params.max_bytes)) {
        return NULL;
    }
    PyObject *location = arguments_location(place);
    PyObject *key_path = NULL, *self = NULL;
    if (location && (key_file == Py_None || PyUnicode_FSConverter(key_file, &key_path))) {
        params.key_file = key_path ? PyBytes_AsString(key_path) : NULL;
        params.flags =
            (is_readonly ? KILN_STORE_READONLY : 0u) | (creates ? 0u : KILN_STORE_NO_CREATE);
        self = open_store(type, PyBytes_AsString(location), &params);
    }
    Py_XDECREF(key_path);
    Py_XDECREF(location);
    return self;
}

/* Warns about each value that is wrong. Returns 1; 0: the warning filter has set an exception. */
static int warn_of_values(const kiln_config *config)
{
    for (const char *const *line = config->warnings; *line; line++) {
        if (PyErr_WarnFormat(PyExc_RuntimeWarning, 1, "%s", *line) != 0) {
            return 0;
        }
    }
    return 1;
}

static PyObject *open_configured(PyTypeObject *type, const kiln_config *config)
{
    kiln_store_params params = {.struct_size = sizeof params};
    if (!warn_of_values(config)) {
        return NULL;
    }
    if (!config->location || config->disabled) {
        Py_INCREF(Py_None);
        return Py_None;
    }
    kiln_config_get_store(config, &params);
    PyObject *self = open_store(type, config->location, &params);
    if (self && config->stats) {
        ((store_object *)self)->handle->stats_file = strdup(config->stats);
    }
    if (self && config->record) {
        ((store_object *)self)->handle->record_file = strdup(config->record);
    }
    return self;
}

static PyObject *store_from_environment(PyObject *type, PyObject *nothing)
{
    (void)nothing;
    kiln_config *config = NULL;
    const kiln_status status = kiln_config_from_env(NULL, NULL, &config);
    if (status != KILN_OK) {
        return error_raise(status, 0, "the environment: %s", kiln_status_text(status));
    }
    PyObject *self = open_configured((PyTypeObject *)type, config);
    kiln_config_free(&config);
    return self;
}

static PyObject *store_count(PyObject *self, PyObject *args, PyObject *keywords)
{
#define NAME_FIELD(name, meaning) #name,
#define CONVERT_FIELD(name, meaning) "O&"
#define FIELD_ARGUMENT(name, meaning) , arguments_nanoseconds, &given.name
#define DECLARE_FIELD(name, meaning) unsigned long long name;
#define COPY_FIELD(name, meaning) .name = given.name,
    static const char *const names[] = {KILN_STATS_LIST(NAME_FIELD) NULL};
    struct {
        KILN_STATS_LIST(DECLARE_FIELD)
    } given = {0};
    if (!arguments_parse(args, keywords, "|$" KILN_STATS_LIST(CONVERT_FIELD) ":count",
                         names KILN_STATS_LIST(FIELD_ARGUMENT))) {
        return NULL;
    }
    store_handle *handle = store_object_use(self);
    if (!handle) {
        return NULL;
    }
    kiln_stats counted = {KILN_STATS_LIST(COPY_FIELD)};
    const kiln_stats by_store = {
        .puts = counted.puts, .corrupt = counted.corrupt, .evicted = counted.evicted};
    counted.puts = counted.corrupt = counted.evicted = 0;
    store_handle_count(handle, &counted, &by_store);
    store_handle_release(handle);
    Py_INCREF(Py_None);
    return Py_None;
}

static PyObject *store_close(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    close_store((store_object *)self);
    Py_INCREF(Py_None);
    return Py_None;
}

static PyObject *store_enter(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    Py_INCREF(self);
    return self;
}

static PyObject *store_exit(PyObject *self, PyObject *args)
{
    (void)args;
    return store_close(self, NULL);
}

/* ---- calls on one key ---- */

/* Checks the type of an argument, and adds a use to the store. Returns the handle; NULL: an
 * exception is set. */
static store_handle *use_with(PyObject *self, PyObject *argument, PyTypeObject *type,
                              const char *expected)
{
    if (!PyObject_TypeCheck(argument, type)) {
        PyErr_Format(PyExc_TypeError, "expected a %s, not %R", expected, Py_TYPE(argument));
        return NULL;
    }
    return store_object_use(self);
}

static store_handle *use_with_key(PyObject *self, PyObject *key)
{
    module_state *state = state_get();
    return state ? use_with(self, key, state->key, "kiln.Key") : NULL;
}

typedef kiln_status key_call(kiln_store *store, const kiln_key *key);

/* Makes a call that returns KILN_OK or KILN_MISS, and returns True or False for these. */
static PyObject *ask_of_key(PyObject *self, PyObject *object, key_call *call, const char *what)
{
    store_handle *handle = use_with_key(self, object);
    if (!handle) {
        return NULL;
    }
    const kiln_key *key = key_object_key(object);
    kiln_status status;
    Py_BEGIN_ALLOW_THREADS
    status = call(handle->store, key);
    Py_END_ALLOW_THREADS
    PyObject *answer = status == KILN_OK || status == KILN_MISS
                           ? PyBool_FromLong(status == KILN_OK)
                           : error_raise_of_key(status, handle->location, what, key);
    store_handle_release(handle);
    return answer;
}

static PyObject *store_remove(PyObject *self, PyObject *key)
{
    return ask_of_key(self, key, kiln_store_remove, "remove");
}

static PyObject *store_contains(PyObject *self, PyObject *key)
{
    return ask_of_key(self, key, kiln_store_contains, "look for");
}

/* A damaged entry, one that is not signed as it should be, and one of a newer format are misses:
 * for a caller that wants the entry, the remedy is the same. */
static PyObject *entry_or_none(kiln_status status, kiln_entry *entry, const kiln_key *key,
                               const char *location)
{
    switch (status) {
    case KILN_OK:
        return entry_object_new(entry);
    case KILN_MISS:
    case KILN_E_CORRUPT:
    case KILN_E_UNAUTHENTICATED:
    case KILN_E_VERSION:
        Py_INCREF(Py_None);
        return Py_None;
    default:
        return error_raise_of_key(status, location, "get", key);
    }
}

static PyObject *store_get(PyObject *self, PyObject *object)
{
    store_handle *handle = use_with_key(self, object);
    if (!handle) {
        return NULL;
    }
    const kiln_key *key = key_object_key(object);
    kiln_entry *entry = NULL;
    kiln_status status;
    Py_BEGIN_ALLOW_THREADS
    status = kiln_store_get(handle->store, key, &entry);
    Py_END_ALLOW_THREADS
    PyObject *found = entry_or_none(status, entry, key, handle->location);
    store_handle_release(handle);
    return found;
}

/* Makes a list of what get_many returns. NULL: an exception is set. */
static PyObject *entries_or_none(key_list *wanted, const char *location)
{
    PyObject *all = PyList_New((Py_ssize_t)wanted->count);
    for (size_t i = 0; all && i < wanted->count; i++) {
        kiln_entry *entry = wanted->entries[i];
        wanted->entries[i] = NULL;
        PyObject *found = entry_or_none(wanted->statuses[i], entry, wanted->keys[i], location);
        if (!found || PyList_SetItem(all, (Py_ssize_t)i, found) != 0) {
            Py_CLEAR(all);
        }
    }
    return all;
}

static PyObject *store_get_many(PyObject *self, PyObject *keys)
{
    key_list wanted;
    store_handle *handle = key_list_read(keys, &wanted) ? store_object_use(self) : NULL;
    PyObject *found = NULL;
    if (handle) {
        Py_BEGIN_ALLOW_THREADS
        kiln_store_get_many(handle->store, wanted.keys, wanted.count, wanted.entries,
                            wanted.statuses);
        Py_END_ALLOW_THREADS
        found = entries_or_none(&wanted, handle->location);
    }
    key_list_done(&wanted);
    store_handle_release(handle);
    return found;
}

static PyObject *store_note_miss(PyObject *self, PyObject *object)
{
    store_handle *handle = use_with_key(self, object);
    if (!handle) {
        return NULL;
    }
    const kiln_key *key = key_object_key(object);
    Py_BEGIN_ALLOW_THREADS
    kiln_store_note_miss(handle->store, key);
    Py_END_ALLOW_THREADS
    store_handle_release(handle);
    Py_INCREF(Py_None);
    return Py_None;
}

static PyObject *store_note(PyObject *self, PyObject *args, PyObject *keywords)
{
    static const char *const names[] = {"key",      "kind",    "name",    "device",   "count",
                                        "build_ns", "load_ns", "wait_ns", "saved_ns", NULL};
    static const char *const kinds[] = {"hit", "build", "failure"};
    PyObject *key;
    const char *kind, *name = "", *device = "";
    unsigned long long count = 1, build_ns = 0, load_ns = 0, wait_ns = 0, saved_ns = 0;
    if (!arguments_parse(args, keywords, "Os|$ssO&O&O&O&O&:note", names, &key, &kind, &name,
                         &device, arguments_nanoseconds, &count, arguments_nanoseconds, &build_ns,
                         arguments_nanoseconds, &load_ns, arguments_nanoseconds, &wait_ns,
                         arguments_nanoseconds, &saved_ns)) {
        return NULL;
    }
    size_t number = 0;
    while (number < 3 && strcmp(kind, kinds[number]) != 0) {
        number++;
    }
    if (number == 3) {
        PyErr_Format(PyExc_ValueError, "kind: expected 'hit', 'build' or 'failure', not '%s'",
                     kind);
        return NULL;
    }
    store_handle *handle = use_with_key(self, key);
    if (!handle) {
        return NULL;
    }
    const kiln_journal_event event = {
        .struct_size = sizeof event,
        .kind = KILN_JOURNAL_HIT + (uint32_t)number,
        .count = count,
        .digest = kiln_key_digest(key_object_key(key)),
        .build_ns = build_ns,
        .load_ns = load_ns,
        .wait_ns = wait_ns,
        .saved_ns = saved_ns,
        .store = number == 0 ? KILN_OK : KILN_MISS,
        .device = device,
        .name = name,
    };
    store_handle_note(handle, &event);
    store_handle_release(handle);
    Py_INCREF(Py_None);
    return Py_None;
}

static PyObject *store_put(PyObject *self, PyObject *object)
{
    module_state *state = state_get();
    store_handle *handle = state ? use_with(self, object, state->entry, "kiln.Entry") : NULL;
    if (!handle) {
        return NULL;
    }
    const kiln_entry *entry = entry_object_entry(object);
    kiln_status status;
    Py_BEGIN_ALLOW_THREADS
    status = kiln_store_put(handle->store, entry);
    Py_END_ALLOW_THREADS
    PyObject *is_put =
        status == KILN_OK || status == KILN_EXISTS
            ? PyBool_FromLong(status == KILN_OK)
            : error_raise_of_key(status, handle->location, "put", kiln_entry_key(entry));
    store_handle_release(handle);
    return is_put;
}

/* ---- leases ---- */

static PyObject *take_lease(store_handle *handle, const kiln_key *key, uint64_t wait_ns)
{
    kiln_lease *lease = NULL;
    kiln_status status;
    if (!wait_for_lease(handle->store, key, wait_ns, &lease, &status)) {
        return NULL;
    }
    if (status == KILN_OK) {
        return lease_object_new(handle, lease);
    }
    if (status == KILN_BUSY) {
        Py_INCREF(Py_None);
        return Py_None;
    }
    return error_raise_of_key(status, handle->location, "lease", key);
}

static PyObject *store_lease(PyObject *self, PyObject *args, PyObject *keywords)
{
    static const char *const names[] = {"key", "wait", NULL};
    module_state *state = state_get();
    PyObject *key, *wait = NULL;
    uint64_t wait_ns = 0;
    if (!state || !arguments_parse(args, keywords, "O!|O:lease", names, state->key, &key, &wait) ||
        (wait && !arguments_seconds(wait, "wait", &wait_ns))) {
        return NULL;
    }
    store_handle *handle = store_object_use(self);
    if (!handle) {
        return NULL;
    }
    PyObject *lease = take_lease(handle, key_object_key(key), wait_ns);
    store_handle_release(handle);
    return lease;
}

/* ---- contents ---- */

static PyObject *store_list(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    store_handle *handle = store_object_use(self);
    PyObject *items = handle ? listing_of_store(handle) : NULL;
    store_handle_release(handle);
    return items;
}

static PyObject *store_stat(PyObject *self, PyObject *args, PyObject *keywords)
{
    static const char *const names[] = {"exact", NULL};
    int is_exact = 0;
    if (!arguments_parse(args, keywords, "|p:stat", names, &is_exact)) {
        return NULL;
    }
    store_handle *handle = store_object_use(self);
    if (!handle) {
        return NULL;
    }
    kiln_store_stat stat = {.struct_size = sizeof stat};
    kiln_status status;
    Py_BEGIN_ALLOW_THREADS
    status = kiln_store_get_stat(handle->store, is_exact ? 0u : KILN_STAT_KNOWN, &stat);
    Py_END_ALLOW_THREADS
    PyObject *counted = status == KILN_OK ? stats_new_store_stat(&stat)
                                          : error_raise(status, 0, "%s: count: %s",
                                                        handle->location, kiln_status_text(status));
    store_handle_release(handle);
    return counted;
}

static PyObject *get_location(PyObject *self, void *closure)
{
    (void)closure;
    PyObject *location = ((store_object *)self)->location;
    Py_INCREF(location);
    return location;
}

static PyObject *get_is_closed(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong(!((store_object *)self)->handle);
}

static PyObject *represent(PyObject *object)
{
    const store_object *self = (store_object *)object;
    return PyUnicode_FromFormat("<kiln.Store %R%s>", self->location,
                                self->handle ? "" : ", closed");
}

/* ---- the type ---- */

/* A function that takes keywords, in a table for functions that take none. */
#define WITH_KEYWORDS(function) ((PyCFunction)(void (*)(void))(function))

static PyMethodDef methods[] = {
    {"from_environment", store_from_environment, METH_NOARGS | METH_CLASS,
     "from_environment($type)\n--\n\n"
     "Opens the store that KILN_DIR, KILN_MAX_SIZE and the other variables describe, as the tool\n"
     "kiln does. Returns None if they disable the store or name none. If a variable has a wrong\n"
     "value, warns with a RuntimeWarning and uses the default."},
    {"get", store_get, METH_O,
     "get($self, key, /)\n--\n\n"
     "Looks an entry up and verifies it. Returns None if no entry can be used: an entry that is\n"
     "damaged, not signed as it should be, or of a newer format is a miss."},
    {"get_many", store_get_many, METH_O,
     "get_many($self, keys, /)\n--\n\n"
     "Does what get does for each key of an iterable, and returns a list. A server is asked for\n"
     "many of the keys at once."},
    {"put", store_put, METH_O,
     "put($self, entry, /)\n--\n\n"
     "Publishes an entry under its key, completely or not at all, and replaces the entry that was\n"
     "there. Returns False if that entry has a newer format; it then stays."},
    {"remove", store_remove, METH_O,
     "remove($self, key, /)\n--\n\nRemoves an entry. Returns False if there was none."},
    {"contains", store_contains, METH_O,
     "contains($self, key, /)\n--\n\nReturns whether get would find a file, without reading it."},
    {"lease", WITH_KEYWORDS(store_lease), METH_VARARGS | METH_KEYWORDS,
     "lease($self, key, wait=0.0)\n--\n\n"
     "Takes the right to build a key. Returns a Lease; None if another process or thread still\n"
     "holds it after wait seconds. A caller that gets the lease looks in the store again, because\n"
     "another process may have built meanwhile. Raises Error with status 'KILN_E_UNSUPPORTED' if\n"
     "the store has no leases: then build without one."},
    {"note_miss", store_note_miss, METH_O,
     "note_miss($self, key, /)\n--\n\n"
     "Records a key that was not found, and that is built now, for `kiln why --last`. Does "
     "nothing\n"
     "unless KILN_LAST_MISS is set, as it is under `kiln run`."},
    {"note", WITH_KEYWORDS(store_note), METH_VARARGS | METH_KEYWORDS,
     "note($self, key, kind, *, name='', device='', count=1, build_ns=0, load_ns=0, wait_ns=0,\n"
     "     saved_ns=0)\n--\n\n"
     "Adds an event to the journal of the store, for `kiln report`, and to the file that\n"
     "KILN_RECORD names if the store was opened by from_environment. The kind is 'hit', 'build' "
     "or\n"
     "'failure'. For programs that use get and put."},
    {"count", WITH_KEYWORDS(store_count), METH_VARARGS | METH_KEYWORDS,
     "count($self, **counters)\n--\n\n"
     "Adds to the counters of the store, and to the file that KILN_STATS names if the store was\n"
     "opened by from_environment. The names are those of a Stats. For programs that use get and\n"
     "put; a Cache counts its requests itself. The store counts its own puts, and its corrupt and\n"
     "evicted entries, so these are added only to the file."},
    {"list", store_list, METH_NOARGS,
     "list($self)\n--\n\n"
     "Returns what is in the store, a list of StoreItem, in no particular order. Only the\n"
     "beginning of each entry is read."},
    {"stat", WITH_KEYWORDS(store_stat), METH_VARARGS | METH_KEYWORDS,
     "stat($self, exact=False)\n--\n\n"
     "Returns a StoreStat. exact walks through the whole store, instead of using the numbers that\n"
     "its writers keep."},
    {"close", store_close, METH_NOARGS,
     "close($self)\n--\n\n"
     "Closes the store, once the calls that are running have ended and its leases have been\n"
     "released. Does nothing if the store was closed before."},
    {"__enter__", store_enter, METH_NOARGS, "__enter__($self)\n--\n\nReturns the store."},
    {"__exit__", store_exit, METH_VARARGS, "__exit__($self, *exception)\n--\n\nCloses the store."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"location", get_location, NULL, "what was opened", NULL},
    {"closed", get_is_closed, NULL, "whether the store was closed", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static char store_doc[] =
    "Store(location, *, max_bytes=None, readonly=False, create=True, key_file=None)\n--\n\n"
    "Entries that outlive the process. Any thread may use it, and a forked child too.\n"
    "\n"
    "location is a directory, as an absolute path or one that begins with '.', taken literally;\n"
    "an object of pathlib; a URL such as 'file:///path?max-size=2G' or 'redis://host'; a pack,\n"
    "'pack:FILE'; or a chain of these, 'a|b'. A missing directory is created unless create is\n"
    "false; a directory that others may write to is refused. max_bytes is the most disk space "
    "that\n"
    "the store may take, by default 2 GiB; 2**64 - 1 means no limit. If key_file, the absolute\n"
    "path of a signing key, is given, only entries that are signed with that key are used.";

static PyType_Slot slots[] = {
    {Py_tp_doc, store_doc},
    {Py_tp_new, store_new},
    {Py_tp_dealloc, deallocate},
    {Py_tp_repr, represent},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {0, NULL},
};

static PyType_Spec specification = {
    .name = "kiln.Store",
    .basicsize = sizeof(store_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

PyObject *store_new_type(void)
{
    return PyType_FromSpec(&specification);
}
