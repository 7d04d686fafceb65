/* SPDX-License-Identifier: Apache-2.0 */
#include "cache.h"

#include "arguments.h"
#include "entry.h"
#include "error.h"
#include "key.h"
#include "prefetch.h"
#include "request.h"
#include "state.h"
#include "stats.h"
#include "store.h"

#define DEFAULT_WAIT_NS UINT64_C(60000000000)

typedef struct cache_object {
    PyObject_HEAD kiln_cache *memory;
    PyObject *store;   /* a Store; NULL: there is none */
    kiln_stats totals; /* of this object */
    kiln_stats unsent; /* what the totals of the store do not contain yet */
} cache_object;

/* Entries in memory are objects of libkiln, not of Python, so libkiln never holds a lock while
 * Python's code runs. */
static void destroy_entry(void *user, void *entry)
{
    (void)user;
    kiln_entry *held = entry;
    kiln_entry_release(&held);
}

/* ---- counting ---- */

/* Adds what was counted to the totals of the store. */
static void send_stats(cache_object *self, store_handle *handle, const kiln_stats *by_store)
{
    const kiln_stats delta = self->unsent;
    self->unsent = (kiln_stats){0};
    store_handle_count(handle, &delta, by_store);
}

/* @by_store  what the store has counted itself */
static void count(cache_object *self, store_handle *handle, const kiln_stats *counted,
                  const kiln_stats *by_store)
{
    stats_add(&self->totals, counted);
    stats_add(&self->totals, by_store);
    if (!handle) {
        return;
    }
    stats_add(&self->unsent, counted);
    /* A hit in memory writes no file. */
    if (counted->hits_store + counted->misses > 0) {
        send_stats(self, handle, by_store);
    }
}

/* ---- making and freeing ---- */

static void send_last_stats(cache_object *self)
{
    store_handle *handle = self->store && self->unsent.hits_memory + self->unsent.waits > 0
                               ? store_object_use(self->store)
                               : NULL;
    if (handle) {
        send_stats(self, handle, &(kiln_stats){0});
        store_handle_release(handle);
    }
}

static void deallocate(PyObject *object)
{
    cache_object *self = (cache_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    PyObject *kind, *value, *trace;
    /* The store may be closed, which raises. */
    PyErr_Fetch(&kind, &value, &trace);
    send_last_stats(self);
    PyErr_Restore(kind, value, trace);
    kiln_cache_free(&self->memory);
    Py_CLEAR(self->store);
    free_object(object);
    Py_DECREF(type);
}

static int parse_policy(const char *name, uint32_t *ret_policy)
{
    if (kiln_policy_parse(name, ret_policy) == KILN_OK) {
        return 1;
    }
    PyErr_Format(PyExc_ValueError,
                 "policy: expected 'cost', 'lru', 'fifo', 'no_evict' or 'auto', not '%s'", name);
    return 0;
}

static PyObject *make(PyTypeObject *type, PyObject *store, const kiln_cache_params *params)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    cache_object *self = (cache_object *)allocate(type, 0);
    if (!self) {
        return NULL;
    }
    const kiln_status status = kiln_cache_new(params, &self->memory);
    if (status != KILN_OK) {
        error_raise(status, 0, "a cache: %s", kiln_status_text(status));
        Py_DECREF(self);
        return NULL;
    }
    if (store != Py_None) {
        Py_INCREF(store);
        self->store = store;
    }
    return (PyObject *)self;
}

static PyObject *cache_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static const char *const names[] = {"store", "max_bytes", "max_entries", "policy", NULL};
    module_state *state = state_get();
    PyObject *store = Py_None, *max_bytes = Py_None, *max_entries = Py_None;
    const char *policy = "auto";
    kiln_cache_params params = {.struct_size = sizeof params, .destroy = destroy_entry};
    if (!state ||
        !arguments_parse(args, keywords, "|O$OOs:Cache", names, &store, &max_bytes, &max_entries,
                         &policy) ||
        !arguments_size(max_bytes, "max_bytes", &params.max_bytes) ||
        !arguments_size(max_entries, "max_entries", &params.max_entries) ||
        !parse_policy(policy, &params.policy)) {
        return NULL;
    }
    if (store != Py_None && !PyObject_TypeCheck(store, state->store)) {
        PyErr_Format(PyExc_TypeError, "store: expected a kiln.Store or None, not %R",
                     Py_TYPE(store));
        return NULL;
    }
    return make(type, store, &params);
}

/* ---- requests ---- */

static PyObject *run(cache_object *self, request *wanted)
{
    if (self->store) {
        wanted->handle = store_object_use(self->store);
        if (!wanted->handle) {
            return NULL;
        }
    }
    wanted->memory = self->memory;
    kiln_entry *entry = request_run(wanted);
    const kiln_stats by_store = {.puts = wanted->puts, .corrupt = wanted->corrupt};
    count(self, wanted->handle, &wanted->counted, &by_store);
    store_handle_release(wanted->handle);
    return entry ? entry_object_new(entry) : NULL;
}

static PyObject *cache_get_or_build(PyObject *self, PyObject *args, PyObject *keywords)
{
    static const char *const names[] = {"key", "build", "name", "wait", NULL};
    module_state *state = state_get();
    PyObject *key, *build, *wait = NULL;
    const char *name = "";
    uint64_t wait_ns = DEFAULT_WAIT_NS;
    if (!state ||
        !arguments_parse(args, keywords, "O!O|$sO:get_or_build", names, state->key, &key, &build,
                         &name, &wait) ||
        (wait && !arguments_seconds(wait, "wait", &wait_ns))) {
        return NULL;
    }
    if (!PyCallable_Check(build)) {
        PyErr_Format(PyExc_TypeError, "build: expected a function, not %R", Py_TYPE(build));
        return NULL;
    }
    request wanted = {
        .key = key_object_key(key), .build = build, .name = name, .lease_wait_ns = wait_ns};
    return run((cache_object *)self, &wanted);
}

/* Returns how many entries came from the store. NULL: an exception is set. */
static PyObject *prefetch_from(cache_object *self, store_handle *handle, key_list *wanted)
{
    prefetch work = {.memory = self->memory, .handle = handle, .wanted = wanted};
    if (!prefetch_run(&work)) {
        return NULL;
    }
    const kiln_stats by_store = {.corrupt = work.corrupt};
    count(self, handle, &work.counted, &by_store);
    return PyLong_FromUnsignedLongLong(work.counted.hits_store);
}

static PyObject *cache_prefetch(PyObject *object, PyObject *keys)
{
    cache_object *self = (cache_object *)object;
    key_list wanted;
    PyObject *found = NULL;
    if (key_list_read(keys, &wanted)) {
        store_handle *handle = self->store ? store_object_use(self->store) : NULL;
        if (handle) {
            found = prefetch_from(self, handle, &wanted);
        } else if (!self->store) {
            found = PyLong_FromLong(0);
        }
        store_handle_release(handle);
    }
    key_list_done(&wanted);
    return found;
}

static PyObject *remove_from_store(PyObject *store, const kiln_key *key, int was_in_memory)
{
    store_handle *handle = store_object_use(store);
    if (!handle) {
        return NULL;
    }
    kiln_status status;
    Py_BEGIN_ALLOW_THREADS
    status = kiln_store_remove(handle->store, key);
    Py_END_ALLOW_THREADS
    PyObject *answer = status == KILN_OK || status == KILN_MISS
                           ? PyBool_FromLong(was_in_memory || status == KILN_OK)
                           : error_raise_of_key(status, handle->location, "remove", key);
    store_handle_release(handle);
    return answer;
}

static PyObject *cache_remove(PyObject *object, PyObject *key)
{
    const cache_object *self = (cache_object *)object;
    module_state *state = state_get();
    if (!state) {
        return NULL;
    }
    if (!PyObject_TypeCheck(key, state->key)) {
        PyErr_Format(PyExc_TypeError, "expected a kiln.Key, not %R", Py_TYPE(key));
        return NULL;
    }
    const int was_in_memory = kiln_cache_remove(self->memory, key_object_key(key)) == KILN_OK;
    return self->store ? remove_from_store(self->store, key_object_key(key), was_in_memory)
                       : PyBool_FromLong(was_in_memory);
}

static PyObject *cache_stat(PyObject *object, PyObject *nothing)
{
    (void)nothing;
    const cache_object *self = (cache_object *)object;
    kiln_cache_stats stat = {.struct_size = sizeof stat};
    const kiln_status status = kiln_cache_get_stats(self->memory, &stat);
    if (status != KILN_OK) {
        return error_raise(status, 0, "a cache: %s", kiln_status_text(status));
    }
    kiln_stats totals = self->totals;
    totals.evicted = stat.evictions;
    return stats_new_cache_stat(&stat, &totals);
}

static PyObject *get_store(PyObject *self, void *closure)
{
    (void)closure;
    PyObject *store = ((cache_object *)self)->store;
    store = store ? store : Py_None;
    Py_INCREF(store);
    return store;
}

/* ---- the type ---- */

/* A function that takes keywords, in a table for functions that take none. */
#define WITH_KEYWORDS(function) ((PyCFunction)(void (*)(void))(function))

static PyMethodDef methods[] = {
    {"get_or_build", WITH_KEYWORDS(cache_get_or_build), METH_VARARGS | METH_KEYWORDS,
     "get_or_build($self, key, build, *, name='', wait=60.0)\n--\n\n"
     "Returns the Entry of a key. Looks for it in memory, then in the store; if neither has it,\n"
     "calls build.\n"
     "\n"
     "build is called without arguments, by one thread of one process, while other callers that\n"
     "ask for the key wait. It returns either the payload, as bytes or an object with a buffer,\n"
     "from which an Entry with name is made, or an Entry of this key. The time that build\n"
     "takes is measured.\n"
     "\n"
     "If build raises, only its own caller gets the exception, nothing is stored, and the thread\n"
     "that has waited longest calls its own build. A store that fails is a miss. wait is how many\n"
     "seconds to wait for another process that builds the key; after that, this process builds\n"
     "too. Raises Error with status 'KILN_E_CYCLE' if a build would wait for itself."},
    {"prefetch", cache_prefetch, METH_O,
     "prefetch($self, keys, /)\n--\n\n"
     "Loads the entries of an iterable of keys from the store into memory, so that get_or_build\n"
     "finds them there. A server is asked for many of the keys at once. Builds nothing and takes\n"
     "no leases. Returns how many entries came from the store."},
    {"remove", cache_remove, METH_O,
     "remove($self, key, /)\n--\n\n"
     "Removes an entry from memory and from the store. Returns False if neither had it."},
    {"stat", cache_stat, METH_NOARGS, "stat($self)\n--\n\nReturns a CacheStat."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"store", get_store, NULL, "the Store, or None", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static char cache_doc[] =
    "Cache(store=None, *, max_bytes=None, max_entries=None, policy='auto')\n--\n\n"
    "Keeps entries in the memory of this process and in a Store. Any thread may use it.\n"
    "\n"
    "max_bytes and max_entries limit what is in memory, by default 256 MiB and 65,536. policy\n"
    "decides what is evicted first: 'cost', 'lru', 'fifo', 'no_evict' or 'auto'. An Entry that\n"
    "the program holds stays valid when it is evicted.";

static PyType_Slot slots[] = {
    {Py_tp_doc, cache_doc},   {Py_tp_new, cache_new},     {Py_tp_dealloc, deallocate},
    {Py_tp_methods, methods}, {Py_tp_getset, properties}, {0, NULL},
};

static PyType_Spec specification = {
    .name = "kiln.Cache",
    .basicsize = sizeof(cache_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

PyObject *cache_new_type(void)
{
    return PyType_FromSpec(&specification);
}
