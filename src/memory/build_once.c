/* SPDX-License-Identifier: Apache-2.0
 *
 * The simple interface: find an object, or build it once.
 */
#include "base/error.h"
#include "memory/object.h"

/* Distinguishes failures of the moment, after which another attempt may succeed, from failures of
 * what is built. */
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

/* Runs the build. On failure @error always has a text. */
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

/* A cleanup handler, for a build that does not return: its thread was ended, or it threw. */
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

/* Builds for this caller alone. The place is allocated first, so that no build is lost for want of
 * memory. */
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

kiln_status kiln_cache_get_or_build(kiln_cache *cache, const kiln_key *key, kiln_build_fn build,
                                    void *user, kiln_pin **ret_pin, kiln_error *error)
{
    if (!cache || !key || !build || !ret_pin) {
        return kilni_error_set(error, KILN_E_INVALID, 0,
                               "a build needs a cache, a key, a function and a place for its pin");
    }
    *ret_pin = NULL;
    /* Waiters get the text of a failed build even if this caller wants none. */
    kiln_error own = {.struct_size = sizeof own};
    kiln_reservation reservation;
    kiln_status status = kiln_cache_reserve(cache, key, NULL, &reservation, &own);
    if (status == KILN_OK) {
        switch (reservation.outcome) {
        case KILN_HIT:
            *ret_pin = reservation.pin;
            return KILN_OK;
        case KILN_OWNER:
            status = build_shared(reservation.ticket, key, build, user, ret_pin, &own);
            break;
        case KILN_BYPASS:
            status = build_alone(cache, key, build, user, ret_pin, &own);
            break;
        }
    }
    if (status != KILN_OK) {
        kilni_error_set(error, status, own.system_error, "%s", own.text);
    }
    return status;
}
