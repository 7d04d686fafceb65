/* SPDX-License-Identifier: Apache-2.0 */
#include "wait.h"

#include <time.h>

#include "state.h"

#define NS_PER_S UINT64_C(1000000000)

/* Returns 1 if the interpreter is ending; otherwise 0; -1: an exception is set. */
static int is_interpreter_ending(void)
{
    /* Borrowed. NULL or None: the interpreter has cleared the module sys. */
    PyObject *function = PySys_GetObject("is_finalizing");
    if (!function || function == Py_None) {
        return 1;
    }
    Py_INCREF(function);
    PyObject *answer = PyObject_CallObject(function, NULL);
    Py_DECREF(function);
    const int is_ending = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    return is_ending;
}

int wait_may_go_on(void)
{
    if (PyErr_CheckSignals() != 0) {
        return 0;
    }
    const int is_ending = is_interpreter_ending();
    if (is_ending == 1) {
        state_raise_ending();
    }
    return is_ending == 0;
}

uint64_t wait_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

int wait_for_lease(kiln_store *store, const kiln_key *key, uint64_t wait_ns, kiln_lease **ret_lease,
                   kiln_status *ret_status)
{
    const uint64_t start_ns = wait_clock_ns();
    uint64_t left_ns = wait_ns;
    for (;;) {
        const uint64_t slice_ns = left_ns < WAIT_SLICE_NS ? left_ns : WAIT_SLICE_NS;
        kiln_status status;
        Py_BEGIN_ALLOW_THREADS
        status = kiln_store_lease(store, key, slice_ns, ret_lease);
        Py_END_ALLOW_THREADS
        *ret_status = status;
        const uint64_t waited_ns = wait_clock_ns() - start_ns;
        if (status != KILN_BUSY || waited_ns >= wait_ns) {
            return 1;
        }
        if (!wait_may_go_on()) {
            return 0;
        }
        left_ns = wait_ns - waited_ns;
    }
}
