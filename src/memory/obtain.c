/* SPDX-License-Identifier: Apache-2.0
 *
 * Obtains an object. Callers that ask for the same key share one build.
 */
#include <pthread.h>

#include "base/error.h"
#include "base/sized_struct.h"
#include "memory/lifetime.h"
#include "memory/reserve.h"

/* Distinguishes transient failures from failures of the build itself. After a transient failure,
 * one more attempt might succeed. */
static kiln_abandonment abandonment_of(kiln_status status)
{
    switch (status) {
    case KILN_E_NO_MEMORY:
    case KILN_E_RESOURCES:
    case KILN_E_IO:
    case KILN_TIMEOUT:
        return KILN_ABANDON_TRANSIENT;
    default:
        return KILN_ABANDON_FAILED;
    }
}

/* Runs the build. If the build fails, @error always has a text. */
static kiln_status run_build(kiln_build_fn build, void *user, const kiln_key *key,
                             kiln_built *ret_built, kiln_error *error)
{
    kiln_status status = build(user, key, ret_built, error);
    if (status == KILN_OK && !ret_built->object) {
        status =
            kilni_error_set(error, KILN_E_INVALID, 0, "the build succeeded but gave no object");
    } else if (status != KILN_OK && error->text[0] == '\0') {
        kilni_error_set(error, status, error->system_error, "%s", kiln_status_text(status));
    }
    return status;
}

/* A cleanup handler, called if a build does not return because it ends its thread or throws an
 * exception. */
static void abandon_ticket(void *ticket)
{
    kiln_ticket_abandon(ticket, KILN_ABANDON_TRANSIENT, KILN_OK, NULL);
}

static void free_place(void *object)
{
    kilni_object_free(object);
}

static kiln_status build_shared(kiln_ticket *ticket, const kiln_key *key, kiln_build_fn build,
                                void *user, kiln_pin **ret_pin, kiln_error *error)
{
    kiln_built built = {0};
    kiln_status status;
    pthread_cleanup_push(abandon_ticket, &ticket);
    status = run_build(build, user, key, &built, error);
    pthread_cleanup_pop(0);
    if (status != KILN_OK) {
        kiln_ticket_abandon(&ticket, abandonment_of(status), status, error->text);
        return status;
    }
    return kiln_ticket_fulfil(&ticket, built.object, built.bytes, built.cost_ns, ret_pin);
}

/* Builds for this caller alone. Allocates the place before the build, so that a lack of memory
 * never wastes a build. */
static kiln_status build_alone(kiln_cache *cache, const kiln_key *key, kiln_build_fn build,
                               void *user, kiln_pin **ret_pin, kiln_error *error)
{
    kilni_object *object;
    kiln_status status = kilni_object_new(cache, NULL, 0, &object);
    if (status != KILN_OK) {
        return kilni_error_set(error, status, 0, "%s", kiln_status_text(status));
    }
    kiln_built built = {0};
    pthread_cleanup_push(free_place, object);
    status = run_build(build, user, key, &built, error);
    pthread_cleanup_pop(0);
    if (status != KILN_OK) {
        kilni_object_free(object);
        return status;
    }
    kilni_object_fill_alone(object, built.object, built.bytes, built.cost_ns);
    *ret_pin = object;
    return KILN_OK;
}

/* Reserves a key for a call that is ready to wait or to build. So the flags of @params must be 0.
 */
static kiln_status reserve_to_build(kiln_cache *cache, const kiln_key *key,
                                    const kiln_reserve_params *params,
                                    kiln_reservation *ret_reservation, bool *ret_waited,
                                    kiln_error *error)
{
    kiln_reserve_params known;
    if (kilni_sized_struct_copy(params, &known, sizeof known) != KILN_OK || known.flags != 0) {
        return kilni_error_set(error, KILN_E_INVALID, 0,
                               "a build needs parameters of this version, without flags");
    }
    return kilni_cache_reserve(cache, key, &known, ret_reservation, ret_waited, error);
}

kiln_status kiln_cache_obtain(kiln_cache *cache, const kiln_key *key,
                              const kiln_reserve_params *params, kiln_build_fn build, void *user,
                              kiln_pin **ret_pin, kiln_served *ret_served, kiln_error *error)
{
    if (!cache || !key || !build || !ret_pin) {
        return kilni_error_set(error, KILN_E_INVALID, 0,
                               "the cache, the key, the function or the result pointer is NULL");
    }
    *ret_pin = NULL;
    /* Waiters get the text of a failed build even if this caller wants none. */
    kiln_error own = {.struct_size = sizeof own};
    kiln_reservation reservation = {0};
    bool waited = false;
    kiln_served served = KILN_SERVED_HIT;
    kiln_status status = reserve_to_build(cache, key, params, &reservation, &waited, &own);
    if (status != KILN_OK) {
        return kilni_error_set(error, status, own.system_error, "%s", own.text);
    }
    if (reservation.outcome == KILN_HIT) {
        *ret_pin = reservation.pin;
        served = waited ? KILN_SERVED_WAITED : KILN_SERVED_HIT;
    } else if (reservation.outcome == KILN_OWNER) {
        status = build_shared(reservation.ticket, key, build, user, ret_pin, &own);
        served = KILN_SERVED_BUILT;
    } else {
        status = build_alone(cache, key, build, user, ret_pin, &own);
        served = KILN_SERVED_BYPASSED;
    }
    if (status != KILN_OK) {
        return kilni_error_set(error, status, own.system_error, "%s", own.text);
    }
    if (ret_served) {
        *ret_served = served;
    }
    return KILN_OK;
}

kiln_status kiln_cache_get_or_build(kiln_cache *cache, const kiln_key *key, kiln_build_fn build,
                                    void *user, kiln_pin **ret_pin, kiln_error *error)
{
    return kiln_cache_obtain(cache, key, NULL, build, user, ret_pin, NULL, error);
}
