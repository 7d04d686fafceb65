/* SPDX-License-Identifier: Apache-2.0
 *
 * A program on its way to its caller. A kiln_program is a pin on a kilni_live_program, and so is
 * one that no map has.
 */
#pragma once

#include "base/params.h"
#include "memory/object.h"
#include "program/live.h"

/* A cleanup handler, for a device's op that throws, or ends its thread: whoever waited longest for
 * the ticket goes on in its place. @ticket  of type kiln_ticket ** */
static inline void kilni_hand_ticket_on(void *ticket)
{
    kiln_ticket_abandon(ticket, KILN_ABANDON_TRANSIENT, KILN_OK, NULL);
}

/* Whether the rules and what is known of a description let its program be kept. kiln_uncached. */
uint32_t kilni_caching_of_desc(const kiln_program_desc *desc);

/* Whether it may be kept on disk too, by its size. */
bool kilni_caching_has_storable_size(const kiln_program_desc *desc);

/* Whether a caller wants no result, or says how large it is. */
static inline bool kilni_result_is_usable(const kiln_program_result *ret_result)
{
    return !ret_result || kilni_params_have_size(ret_result);
}

static inline kilni_live_program *kilni_program_live(const kiln_program *program)
{
    return kiln_pin_object((const kiln_pin *)program);
}

/* What a program needs to come: a reference to it, and a place for it where no map takes it.
 * Zeroed: neither. */
typedef struct kilni_arrival {
    kilni_live_program *live;
    kilni_object *place;
} kilni_arrival;

/* Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_arrival_begin(kiln_program_context *context, const kiln_program_desc *desc,
                                kilni_arrival *ret_arrival);

/* Gives the caller the program that a map gave (@pin), or else the one that was made. What isn't
 * needed any more goes. */
kiln_program *kilni_arrival_end(kilni_arrival *arrival, kiln_pin *pin);

/* Where nothing came. */
void kilni_arrival_cancel(kilni_arrival *arrival);
