/* SPDX-License-Identifier: Apache-2.0
 *
 * Obtains programs for callers. A kiln_program is a pin on a kilni_live_program, even if the
 * program is in no map.
 */
#pragma once

#include "base/sized_struct.h"
#include "memory/lifetime.h"
#include "memory/pin.h"
#include "program/live_objects.h"

/* A cleanup handler, called if a device op throws an exception or ends its thread. The thread that
 * has waited longest for the ticket gets it and continues.
 *
 * @ticket  a kiln_ticket ** */
static inline void kilni_pass_ticket_on(void *ticket)
{
    kiln_ticket_abandon(ticket, KILN_ABANDON_TRANSIENT, KILN_OK, NULL);
}

/* Returns a kiln_uncached: whether the rules, and what is known about a description, allow its
 * program to be kept. */
uint32_t kilni_caching_of_desc(const kiln_program_desc *desc);

/* Returns whether the size of the code allows the program to be kept on disk. */
bool kilni_caching_has_storable_size(const kiln_program_desc *desc);

/* Returns whether a caller wants no result, or has set the result's size. */
static inline bool kilni_result_is_usable(const kiln_program_result *ret_result)
{
    return !ret_result || kilni_sized_struct_is_valid(ret_result);
}

static inline kilni_live_program *kilni_program_live(const kiln_program *program)
{
    return kiln_pin_object((const kiln_pin *)program);
}

/* A program that is being obtained: a reference to it, and an object to hold it if no map takes it.
 * A zeroed arrival has neither. */
typedef struct kilni_arrival {
    kilni_live_program *live;
    kilni_object *place;
} kilni_arrival;

/* Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_arrival_begin(kiln_program_context *context, const kiln_program_desc *desc,
                                kilni_arrival *ret_arrival);

/* Returns the program that a map supplied (@pin), or else the one that was made, and frees what is
 * no longer needed. */
kiln_program *kilni_arrival_end(kilni_arrival *arrival, kiln_pin *pin);

/* Frees the reference and the object. Called if no program was obtained. */
void kilni_arrival_cancel(kilni_arrival *arrival);
