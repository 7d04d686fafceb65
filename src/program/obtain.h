/* SPDX-License-Identifier: Apache-2.0
 *
 * Obtains programs for callers. A kiln_program is always a pin on a kilni_live_program, even if no
 * map contains the program.
 */
#pragma once

#include "base/sized_struct.h"
#include "memory/lifetime.h"
#include "memory/pin.h"
#include "program/live_objects.h"

/* A cleanup handler, called if a device op throws an exception or ends its thread. The thread that
 * has waited longest for the ticket gets the ticket and continues.
 *
 * @ticket  a kiln_ticket ** */
static inline void kilni_pass_ticket_on(void *ticket)
{
    kiln_ticket_abandon(ticket, KILN_ABANDON_TRANSIENT, KILN_OK, NULL);
}

/* Returns a kiln_uncached. It says whether a program is allowed to be kept. This depends on the
 * rules and on what is known about its description. */
uint32_t kilni_caching_of_desc(const kiln_program_desc *desc);

/* Returns true if the size of the code allows the program to be kept on disk. */
bool kilni_caching_has_storable_size(const kiln_program_desc *desc);

/* Returns true if a caller wants no result, or if it has set the size of the result structure. */
static inline bool kilni_result_is_usable(const kiln_program_result *ret_result)
{
    return !ret_result || kilni_sized_struct_is_valid(ret_result);
}

static inline kilni_live_program *kilni_program_live(const kiln_program *program)
{
    return kiln_pin_object((const kiln_pin *)program);
}

/* An arrival is a program that is being obtained. It has a reference to the program, and an object
 * that will hold the program if no map takes it. A zeroed arrival has neither. */
typedef struct kilni_arrival {
    kilni_live_program *live;
    kilni_object *place;
} kilni_arrival;

/* Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_arrival_begin(kiln_program_context *context, const kiln_program_desc *desc,
                                kilni_arrival *ret_arrival);

/* Returns the program that a map supplied, if @pin is not NULL, and otherwise the program that was
 * made. Frees what is no longer needed. */
kiln_program *kilni_arrival_end(kilni_arrival *arrival, kiln_pin *pin);

/* Frees the reference and the object. Called if no program was obtained. */
void kilni_arrival_cancel(kilni_arrival *arrival);
