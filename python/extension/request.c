/* SPDX-License-Identifier: Apache-2.0 */
#include "request.h"

#include "arguments.h"
#include "entry.h"
#include "error.h"
#include "state.h"
#include "wait.h"

/* How a step can end. */
typedef enum step { FOUND, ABSENT, RAISED } step;

/* ---- 1 memory ---- */

/* Waits for a thread that builds the key. Drops @pending. */
static kiln_status wait_for_flight(kiln_pending *pending, kiln_reservation *ret_answer,
                                   kiln_error *error)
{
    kiln_status status;
    do {
        Py_BEGIN_ALLOW_THREADS
        status = kiln_pending_wait(pending, WAIT_SLICE_NS, ret_answer, error);
        Py_END_ALLOW_THREADS
    } while (status == KILN_TIMEOUT && wait_may_go_on());
    kiln_pending_drop(&pending);
    return status;
}

/* Looks in memory. ABSENT: the request has a ticket, or memory keeps nothing for it. */
static step ask_memory(request *wanted)
{
    const kiln_reserve_params params = {.struct_size = sizeof params,
                                        .flags = KILN_RESERVE_PENDING};
    kiln_error error = {.struct_size = sizeof error};
    kiln_reservation answer = {0};
    kiln_status status = kiln_cache_reserve(wanted->memory, wanted->key, &params, &answer, &error);
    if (status == KILN_OK && answer.outcome == KILN_PENDING) {
        wanted->counted.waits++;
        status = wait_for_flight(answer.pending, &answer, &error);
    }
    if (status != KILN_OK) {
        if (!PyErr_Occurred()) {
            error_raise(status, 0, "%s", error.text[0] ? error.text : kiln_status_text(status));
        }
        return RAISED;
    }
    wanted->ticket = answer.ticket;
    if (answer.outcome != KILN_HIT) {
        return ABSENT;
    }
    wanted->entry = kiln_entry_retain(kiln_pin_object(answer.pin));
    kiln_pin_release(&answer.pin);
    wanted->counted.hits_memory++;
    return FOUND;
}

uint64_t request_reload_cost(const kiln_entry *entry)
{
    return UINT64_C(100000) + kiln_entry_encoding(entry).size;
}

static void fulfil(request *wanted, uint64_t cost_ns)
{
    if (wanted->ticket) {
        kiln_entry *kept = kiln_entry_retain(wanted->entry);
        kiln_ticket_fulfil(&wanted->ticket, kept, kiln_entry_encoding(kept).size, cost_ns, NULL);
    }
}

/* ---- 2 store ---- */

/* Looks in the store. A store that fails is a miss. */
static step ask_store(request *wanted)
{
    kiln_status status;
    const uint64_t start_ns = wait_clock_ns();
    Py_BEGIN_ALLOW_THREADS
    status = kiln_store_get(wanted->handle->store, wanted->key, &wanted->entry);
    Py_END_ALLOW_THREADS
    if (status != KILN_OK) {
        wanted->corrupt += status == KILN_E_CORRUPT || status == KILN_E_UNAUTHENTICATED ? 1 : 0;
        return ABSENT;
    }
    const uint64_t load_ns = wait_clock_ns() - start_ns;
    const uint64_t build_ns = kiln_entry_provenance(wanted->entry).build_ns;
    wanted->counted.hits_store++;
    wanted->counted.saved_ns += build_ns > load_ns ? build_ns - load_ns : 0;
    fulfil(wanted, request_reload_cost(wanted->entry));
    return FOUND;
}

/* ---- 3 lease ---- */

/* Makes this process the only builder. If it waited too long, or if the store has no leases, it
 * builds for itself. */
static step ask_store_leased(request *wanted)
{
    kiln_status status;
    if (!wait_for_lease(wanted->handle->store, wanted->key, 0, &wanted->lease, &status)) {
        return RAISED;
    }
    if (status == KILN_BUSY) {
        wanted->counted.waits++;
        if (!wait_for_lease(wanted->handle->store, wanted->key, wanted->lease_wait_ns,
                            &wanted->lease, &status)) {
            return RAISED;
        }
    }
    /* Another process may have stored the entry since the first look. */
    return status == KILN_OK || status == KILN_BUSY ? ask_store(wanted) : ABSENT;
}

/* ---- 4 build ---- */

static kiln_entry_params params_of_payload(const request *wanted, kiln_bytes payload)
{
    return (kiln_entry_params){
        .struct_size = sizeof(kiln_entry_params),
        .key = wanted->key,
        .kind = KILN_ENTRY_BLOB,
        .provenance = {.struct_size = sizeof(kiln_provenance), .name = wanted->name},
        .payload = payload};
}

static kiln_entry_params params_of_entry(const kiln_entry *entry)
{
    return (kiln_entry_params){.struct_size = sizeof(kiln_entry_params),
                               .key = kiln_entry_key(entry),
                               .kind = kiln_entry_kind_of(entry),
                               .provenance = kiln_entry_provenance(entry),
                               .answers = kiln_entry_answers(entry),
                               .log = kiln_entry_log(entry),
                               .payload = kiln_entry_payload(entry)};
}

/* Returns the entry that the build returned, with its cost. NULL: an exception is set. */
static kiln_entry *adopt_entry(const request *wanted, PyObject *built, uint64_t build_ns)
{
    const kiln_entry *entry = entry_object_entry(built);
    if (!kiln_key_equals(kiln_entry_key(entry), wanted->key)) {
        PyErr_Format(PyExc_ValueError, "build returned an Entry of a different key: %R", built);
        return NULL;
    }
    kiln_entry_params params = params_of_entry(entry);
    if (params.provenance.build_ns != 0) {
        return kiln_entry_retain(entry);
    }
    params.provenance.build_ns = build_ns;
    return entry_make(&params);
}

/* Returns an entry that is made from what the build returned. NULL: an exception is set. */
static kiln_entry *entry_of_result(const request *wanted, PyObject *built, uint64_t build_ns)
{
    module_state *state = state_get();
    if (!state) {
        return NULL;
    }
    if (PyObject_TypeCheck(built, state->entry)) {
        return adopt_entry(wanted, built, build_ns);
    }
    PyObject *bytes = arguments_bytes(built, "what build returned");
    if (!bytes) {
        return NULL;
    }
    kiln_entry_params params = params_of_payload(
        wanted, (kiln_bytes){PyBytes_AsString(bytes), (size_t)PyBytes_Size(bytes)});
    params.provenance.build_ns = build_ns;
    kiln_entry *entry = entry_make(&params);
    Py_DECREF(bytes);
    return entry;
}

static step build(request *wanted)
{
    wanted->counted.misses++;
    wanted->counted.builds++;
    const uint64_t start_ns = wait_clock_ns();
    PyObject *built = PyObject_CallObject(wanted->build, NULL);
    const uint64_t build_ns = wait_clock_ns() - start_ns;
    wanted->counted.build_ns += build_ns;
    wanted->entry = built ? entry_of_result(wanted, built, build_ns) : NULL;
    Py_XDECREF(built);
    if (!wanted->entry) {
        wanted->counted.failures++;
        return RAISED;
    }
    return FOUND;
}

/* ---- 5 publish ---- */

/* Publishes the entry: first to the waiters, then to the store. */
static void publish(request *wanted)
{
    const kiln_entry *entry = wanted->entry;
    fulfil(wanted,
           wanted->handle ? request_reload_cost(entry) : kiln_entry_provenance(entry).build_ns);
    if (!wanted->handle) {
        return;
    }
    kiln_status status;
    Py_BEGIN_ALLOW_THREADS
    status = kiln_store_put(wanted->handle->store, entry);
    Py_END_ALLOW_THREADS
    wanted->puts += status == KILN_OK ? 1 : 0;
    wanted->counted.dropped += status == KILN_OK ? 0 : 1;
}

/* A build that failed concerns its caller alone: the thread that has waited longest builds next. */
static void finish(request *wanted)
{
    kiln_ticket_abandon(&wanted->ticket, KILN_ABANDON_TRANSIENT, KILN_OK, NULL);
    if (wanted->lease) {
        Py_BEGIN_ALLOW_THREADS
        kiln_lease_release(&wanted->lease);
        Py_END_ALLOW_THREADS
    }
}

static step look_up(request *wanted)
{
    const step in_memory = ask_memory(wanted);
    if (in_memory != ABSENT || !wanted->handle) {
        return in_memory;
    }
    return ask_store(wanted) == FOUND ? FOUND : ask_store_leased(wanted);
}

kiln_entry *request_run(request *wanted)
{
    step answer = look_up(wanted);
    if (answer == ABSENT) {
        answer = build(wanted);
        if (answer == FOUND) {
            publish(wanted);
        }
    }
    finish(wanted);
    return wanted->entry;
}
