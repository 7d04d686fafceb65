/* SPDX-License-Identifier: Apache-2.0 */
#include "lease.h"

#include "state.h"

typedef struct lease_object {
    PyObject_HEAD kiln_lease *lease; /* NULL: it was released */
    store_handle *handle;
} lease_object;

/* The lease is taken out of the object first, since other threads may use the object while the GIL
 * is released. */
static void release(lease_object *self)
{
    kiln_lease *lease = self->lease;
    store_handle *handle = self->handle;
    self->lease = NULL;
    self->handle = NULL;
    if (lease) {
        Py_BEGIN_ALLOW_THREADS
        kiln_lease_release(&lease);
        Py_END_ALLOW_THREADS
    }
    store_handle_release(handle);
}

PyObject *lease_object_new(store_handle *handle, kiln_lease *lease)
{
    module_state *state = state_get();
    PyObject *object = NULL;
    if (state) {
        allocfunc allocate = (allocfunc)PyType_GetSlot(state->lease, Py_tp_alloc);
        object = allocate(state->lease, 0);
    }
    if (!object) {
        kiln_lease_release(&lease);
        return NULL;
    }
    ((lease_object *)object)->lease = lease;
    ((lease_object *)object)->handle = store_handle_use(handle);
    return object;
}

static PyObject *lease_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)type;
    (void)args;
    (void)keywords;
    PyErr_SetString(PyExc_TypeError, "a Lease is obtained from Store.lease");
    return NULL;
}

static void deallocate(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release((lease_object *)object);
    free_object(object);
    Py_DECREF(type);
}

static PyObject *lease_release(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    release((lease_object *)self);
    Py_INCREF(Py_None);
    return Py_None;
}

static PyObject *lease_enter(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    Py_INCREF(self);
    return self;
}

static PyObject *lease_exit(PyObject *self, PyObject *args)
{
    (void)args;
    return lease_release(self, NULL);
}

static PyMethodDef methods[] = {
    {"release", lease_release, METH_NOARGS,
     "release($self)\n--\n\nReleases the lease. Does nothing if it was released before."},
    {"__enter__", lease_enter, METH_NOARGS, "__enter__($self)\n--\n\nReturns the lease."},
    {"__exit__", lease_exit, METH_VARARGS,
     "__exit__($self, *exception)\n--\n\nReleases the lease."},
    {NULL, NULL, 0, NULL},
};

static char lease_doc[] =
    "The right of one process to build a key.\n"
    "\n"
    "Obtained from Store.lease. It ends with release, at the end of a with block, with the last\n"
    "reference, or with the process. A forked child does not have its parent's leases.";

static PyType_Slot slots[] = {
    {Py_tp_doc, lease_doc},
    {Py_tp_new, lease_new},
    {Py_tp_dealloc, deallocate},
    {Py_tp_methods, methods},
    {0, NULL},
};

static PyType_Spec specification = {
    .name = "kiln.Lease",
    .basicsize = sizeof(lease_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

PyObject *lease_new_type(void)
{
    return PyType_FromSpec(&specification);
}
